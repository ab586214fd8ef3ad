"""Private tests are decoded without unpickling: what could run code, or burst, is refused."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lopd_envs.livecodebench import testcases
from lopd_envs.livecodebench.testcases import read_tests

from lopd_gym.errors import DataError
from tests.lopd_envs.livecodebench.rows import HIDDEN, packed


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('unpickled')",))


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_genuine_row(data_folder: Path) -> None:
    lines = (data_folder / "code" / "livecodebench_sample.jsonl").read_text().splitlines()
    text = json.loads(lines[0])["private_test_cases"]
    assert not text.startswith("[")  # it is packed
    tests = read_tests(text, "row")
    assert len(tests) == 4
    assert {t.testtype for t in tests} == {"stdin"}
    assert tests[1].input == "3\nabc\nabc\nabc\n"
    assert tests[1].output == "YES\nYES\nYES\n"


CASES = st.lists(
    st.fixed_dictionaries(
        {"input": st.text(), "output": st.text(), "testtype": st.sampled_from(["stdin"])}
    ),
    min_size=1,
    max_size=3,
)


@given(CASES, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_both_encodings_give_the_same_tests(cases: list[dict[str, str]], protocol: int) -> None:
    text = json.dumps(cases)
    plain = read_tests(text, "row")
    assert [t.model_dump() for t in plain] == cases
    content = pickle.dumps(text, protocol=protocol)
    if protocol >= 2:  # older ones write strings as text, which no release does
        assert read_tests(b64(zlib.compress(content)), "row") == plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (packed(Bomb()), "refused"),
        (packed([Bomb(), json.dumps(HIDDEN)]), "refused"),
        (packed((json.dumps(HIDDEN), "[]")), "refused"),
        (packed(json.dumps(HIDDEN).encode()), "refused"),
        (packed(HIDDEN), "refused"),
        (b64(zlib.compress(b"cos\nsystem\n(S'true'\ntR.")), "refused"),
        (b64(zlib.compress(pickle.dumps("[]") + pickle.dumps(Bomb()))), "expected one packed"),
        (b64(zlib.compress(pickle.dumps("[]")[:-1])), "not a whole pickle"),
        (b64(zlib.compress(b"")), "not a whole pickle"),
        (b64(zlib.compress(pickle.dumps("x" * 100))[:-6]), "truncated"),
        (b64(zlib.compress(pickle.dumps(json.dumps(HIDDEN))) + b"more"), "something after them"),
        (packed("no JSON"), "not JSON"),
        (packed("[" * 100_000), "not JSON"),
        (packed("[]"), "found none"),
        ("[]", "found none"),
        ("{}", "expected a list of tests"),
        ('[{"input": "1", "output": "2"}]', "testtype"),
        ('[{"input": 1, "output": "2", "testtype": "stdin"}]', "input"),
        ('[{"input": "", "output": "", "testtype": "interactive"}]', "testtype"),
        ("not base64!", "neither JSON nor packed"),
        (b64(b"not zlib"), "neither JSON nor packed"),
        ("", "truncated"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(DataError, match=r"^row: ") as caught:
        read_tests(text, "row")
    assert words in str(caught.value)


def test_a_bomb_of_zeros_is_refused_before_it_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testcases, "MAX_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(DataError, match="more than 1 MiB"):
        read_tests(b64(zlib.compress(bytes(1 << 24))), "row")


def test_nothing_here_can_unpickle() -> None:
    source = Path(testcases.__file__).read_text()
    assert "import pickle\n" not in source
    assert "Unpickler" not in source
