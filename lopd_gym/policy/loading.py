"""Load a frozen language model and its tokenizer from a folder, a GGUF file or the hub.

What can go wrong here is mostly the user's to mend, so every failure is one sentence.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from lopd_gym.errors import DataError, UsageError

TINY_FOLDER = Path(__file__).parent / "tiny"
"""The model that ships with the package."""

_HUB_ID = re.compile(r"[\w.\-]+/[\w.\-]+|[\w.\-]+")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is loaded from: what ``from_pretrained`` takes, and the folder if local."""

    name: str
    gguf_file: str | None = None
    folder: Path | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for ``from_pretrained``."""
        return {} if self.gguf_file is None else {"gguf_file": self.gguf_file}


def find_source(source: str) -> Source:
    """Resolve what the user named.

    Raises:
        DataError: A path that does not exist, or a folder that holds no whole model.
        UsageError: A GGUF file without the package that reads it.
    """
    path = TINY_FOLDER if source == "tiny" else Path(source).expanduser()
    if path.suffix == ".gguf":
        return _gguf_source(path)
    if path.is_dir():
        _check_folder(path)
        return Source(str(path), folder=path)
    if source == "tiny":
        raise DataError("The tiny policy is missing from this installation: name a --model.")
    if path.exists() or not _HUB_ID.fullmatch(source):
        raise DataError(f"No model at '{source}': expected 'tiny', a folder, a .gguf or a hub id.")
    return Source(source)


def load_model(source: Source, device: torch.device) -> PreTrainedModel:
    """Load the model, frozen and in evaluation mode.

    It is float32 on a CPU; on a GPU, bfloat16 unless the checkpoint itself is float32.
    """
    with _one_sentence(source):
        config = AutoConfig.from_pretrained(source.name, **source.options)
        stored = getattr(config, "dtype", None)
        half = device.type != "cpu" and stored in (torch.bfloat16, torch.float16)
        dtype = torch.bfloat16 if half else torch.float32
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            source.name, dtype=dtype, **source.options
        )
    model.requires_grad_(False)
    return model.to(device).eval()  # type: ignore[no-any-return, arg-type]


def load_tokenizer(source: Source) -> Any:
    """Load the tokenizer."""
    with _one_sentence(source):
        return AutoTokenizer.from_pretrained(source.name, **source.options)


def _gguf_source(path: Path) -> Source:
    if not path.is_file():
        raise DataError(f"No GGUF file at '{path}'.")
    if importlib.util.find_spec("gguf") is None:
        raise UsageError("Reading a GGUF file needs the extra: pip install 'lopd-gym[gguf]'.")
    return Source(str(path.parent), gguf_file=path.name)


def _check_folder(path: Path) -> None:
    if not (path / "config.json").is_file():
        raise DataError(f"'{path}' is no model folder: expected a config.json in it, found none.")
    if not any((path / name).is_file() for name in _TOKENIZER_FILES):
        raise DataError(
            f"'{path}' holds no tokenizer: expected one of {', '.join(_TOKENIZER_FILES)}; save "
            "the model's tokenizer into the same folder."
        )


@contextmanager
def _one_sentence(source: Source) -> Iterator[None]:
    """Turn whatever transformers raises while loading into one `DataError`."""
    try:
        yield
    except Exception as err:
        lines = str(err).strip().splitlines()
        reason = lines[0].rstrip(".:") if lines else type(err).__name__
        if source.folder is not None or source.gguf_file is not None:
            raise DataError(f"Cannot load the model in '{source.name}': {reason}.") from err
        raise DataError(
            f"Cannot load '{source.name}' from the hub ({reason}): check the id and the network, "
            "or name a local folder."
        ) from err
