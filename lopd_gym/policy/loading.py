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
from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from lopd_gym.errors import DataError, UsageError

TINY_FOLDER = Path(__file__).parent / "tiny"
"""The model that ships with the package."""

_HUB_ID = re.compile(r"\w[\w.\-]*(/\w[\w.\-]*)?")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is loaded from: what ``from_pretrained`` takes, and the folder if local."""

    name: str
    gguf_file: str | None = None
    folder: Path | None = None
    offline: bool = False

    @property
    def local(self) -> bool:
        """Whether it is a folder or a file."""
        return self.folder is not None or self.gguf_file is not None

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for ``from_pretrained``."""
        gguf = {} if self.gguf_file is None else {"gguf_file": self.gguf_file}
        return gguf | ({"local_files_only": True} if self.offline else {})


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
    return _hub_source(source)


def load_model(source: Source, device: torch.device) -> PreTrainedModel:
    """Load the model, frozen and in evaluation mode.

    It is float32, save that on a GPU a checkpoint of 16 bits is bfloat16.
    """
    with _one_sentence(source), quiet(source.local):
        dtype = torch.float32
        if device.type != "cpu" and source.gguf_file is None:
            stored = AutoConfig.from_pretrained(source.name, **source.options).dtype
            dtype = torch.bfloat16 if stored in (torch.bfloat16, torch.float16) else dtype
        model = AutoModelForCausalLM.from_pretrained(source.name, dtype=dtype, **source.options)
    if source.gguf_file is not None:
        _forget_quantization(model)
    model.requires_grad_(False)
    placed: PreTrainedModel = model.to(device).eval()  # type: ignore[arg-type]
    return placed


def load_tokenizer(source: Source) -> Any:
    """Load the tokenizer."""
    with _one_sentence(source), quiet(source.local):
        return AutoTokenizer.from_pretrained(source.name, **source.options)


def _gguf_source(path: Path) -> Source:
    if not path.is_file():
        raise DataError(f"No GGUF file at '{path}'.")
    if importlib.util.find_spec("gguf") is None:
        raise UsageError("Reading a GGUF file needs the extra: pip install 'lopd-gym[gguf]'.")
    return Source(str(path.parent), gguf_file=path.name)


def _hub_source(name: str) -> Source:
    """Look the model up once: transformers itself would try for minutes where there is no network.

    A model that is in the local cache is used without a network.
    """
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=10)
    except Exception as err:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return Source(name, offline=True)
        reason = type(err).__name__
        raise DataError(
            f"Cannot find '{name}' on the hub ({reason}) nor in the local cache: check the id and "
            "the network, or name a local folder."
        ) from err
    return Source(name)


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
        raise DataError(f"Cannot load the model '{source.name}': {reason}.") from err


@contextmanager
def quiet(local: bool = True) -> Iterator[None]:
    """Show progress for downloads only; what is local loads without bars and notices."""
    notices: Any = logging
    verbosity = notices.get_verbosity()
    if local:
        notices.disable_progress_bar()
        notices.set_verbosity_error()
    try:
        yield
    finally:
        notices.set_verbosity(verbosity)
        notices.enable_progress_bar()


def _forget_quantization(model: Any) -> None:
    """Treat a model read from a GGUF file as what it is: plain weights that can be saved."""
    model.hf_quantizer = None
    model.is_quantized = False
    del model.config.quantization_config
