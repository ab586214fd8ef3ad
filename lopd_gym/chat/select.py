"""Find a chat format by name, or from what a model folder says about itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from pathlib import Path

from lopd_gym.chat.base import ChatFormat
from lopd_gym.chat.compact import CompactFormat
from lopd_gym.chat.olmo3 import Olmo3Format
from lopd_gym.chat.qwen3 import Qwen3Format
from lopd_gym.errors import DataError, UsageError, unknown_name

FORMAT_FILE = "lopd_gym.json"
"""A file in a model folder that names its chat format: ``{"chat_format": "qwen3"}``."""

_FORMATS: dict[str, Callable[[], ChatFormat]] = {
    "compact": CompactFormat,
    "chatml": lambda: Qwen3Format("chatml", thinking="absent"),
    "qwen3": lambda: Qwen3Format("qwen3", thinking="keep"),
    "qwen3-strip": lambda: Qwen3Format("qwen3-strip", thinking="strip"),
    "qwen3-nothink": lambda: Qwen3Format("qwen3-nothink", thinking="off"),
    "olmo3": lambda: Olmo3Format("olmo3", thinking="keep"),
    "olmo3-strip": lambda: Olmo3Format("olmo3-strip", thinking="strip"),
    "olmo3-nothink": lambda: Olmo3Format("olmo3-nothink", thinking="off"),
}


def format_names() -> list[str]:
    """Return the names of all chat formats, sorted."""
    return sorted(_FORMATS)


def get_format(name: str) -> ChatFormat:
    """Return the chat format with this name; raises `UsageError` with the nearest name."""
    if name not in _FORMATS:
        raise unknown_name("chat format", name, _FORMATS)
    return _FORMATS[name]()


def format_for(
    name: str | None,
    *,
    folder: Path | None = None,
    model_type: str = "",
    vocabulary: Container[str] = (),
    template: str | None = None,
) -> ChatFormat:
    """Choose the chat format of a model.

    The first of these decides: an explicit name, the folder's `FORMAT_FILE`, the model type, and
    ChatML's turn mark in the vocabulary.

    Args:
        name: The format asked for, if any.
        folder: The model's folder, if it is one.
        model_type: ``model_type`` of the model's config.
        vocabulary: The tokens of its tokenizer.
        template: Its own chat template; one without ``<think>`` is a model that does not think.

    Raises:
        UsageError: The name is unknown, or nothing tells which format to use.
        DataError: The folder's `FORMAT_FILE` cannot be read.
    """
    name = name or (_named_in(folder) if folder is not None else None)
    if name is not None:
        return get_format(name)
    thinks = template is None or "<think>" in template
    if model_type == "qwen3":
        return get_format("qwen3" if thinks else "chatml")
    if model_type == "olmo3":
        return get_format("olmo3" if thinks else "olmo3-nothink")
    if "<|im_start|>" in vocabulary:
        return get_format("chatml")
    raise UsageError(
        f"No chat format is known for model type '{model_type}': pass --chat-format with one of "
        f"{', '.join(format_names())}."
    )


def _named_in(folder: Path) -> str | None:
    path = folder / FORMAT_FILE
    if not path.is_file():
        return None
    try:
        named = json.loads(path.read_text(encoding="utf-8"))["chat_format"]
    except (ValueError, KeyError, TypeError) as err:
        raise DataError(f'{path}: expected {{"chat_format": NAME}}, found {err!r}.') from err
    return str(named)
