"""Which chat format a model gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lopd_gym.chat import FORMAT_FILE, format_for, format_names, get_format
from lopd_gym.errors import DataError, UsageError


def test_every_name_gives_the_format_of_that_name():
    assert [get_format(name).name for name in format_names()] == format_names()


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'qwen3-nothink'"):
        get_format("qwen3-nothinking")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"model_type": "qwen3"}, "qwen3"),
        ({"model_type": "qwen3", "template": "{{ messages }}"}, "chatml"),
        ({"model_type": "olmo3", "template": "<think>"}, "olmo3"),
        ({"model_type": "olmo3", "template": "{{ messages }}"}, "olmo3-nothink"),
        ({"model_type": "llama", "vocabulary": {"<|im_start|>"}}, "chatml"),
    ],
)
def test_the_model_decides(model, expected: str):
    assert format_for(None, **model).name == expected


def test_a_name_beats_the_folder_and_the_folder_beats_the_model(tmp_path: Path):
    (tmp_path / FORMAT_FILE).write_text('{"chat_format": "olmo3"}')
    assert format_for(None, folder=tmp_path, model_type="qwen3").name == "olmo3"
    assert format_for("chatml", folder=tmp_path, model_type="qwen3").name == "chatml"


def test_an_unfit_format_file_is_named(tmp_path: Path):
    (tmp_path / FORMAT_FILE).write_text("{}")
    with pytest.raises(DataError, match=FORMAT_FILE):
        format_for(None, folder=tmp_path)


def test_no_format_is_an_error_that_says_what_to_do():
    with pytest.raises(UsageError, match="--chat-format"):
        format_for(None, model_type="gpt2", vocabulary={"a"})
