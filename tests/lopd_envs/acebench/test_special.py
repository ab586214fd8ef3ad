from __future__ import annotations

import pytest
from lopd_envs.acebench.corpus import SPECIAL, Corpus
from lopd_envs.acebench.scoring.special import official_fault, sentence, strict_fault

from tests.lopd_envs.acebench.port import port

EVERYTHING = (
    "There is incorrect value. Missing necessary parameters. Due to the limitations of the "
    "function, I cannot solve this problem."
)


def test_the_right_sentence_passes_and_others_fail(corpus: Corpus) -> None:
    for category in SPECIAL:
        for row in corpus.rows[category]:
            right = sentence(category, row.truth)
            assert official_fault(category, right, row.truth) is None
            assert strict_fault(category, right, row.truth) is None
            for wrong in ("", "[f(a=1)]", right.upper(), "I cannot do that."):
                assert official_fault(category, wrong, row.truth) is not None
                assert strict_fault(category, wrong, row.truth) is not None


def test_everything_at_once_passes_officially_only(corpus: Corpus) -> None:
    for category in SPECIAL:
        for row in corpus.rows[category]:
            reply = f"{EVERYTHING} {row.truth}"
            assert official_fault(category, reply, row.truth) is None
            assert strict_fault(category, reply, row.truth) is not None
            more = f"{sentence(category, row.truth)} [f(a=1)]"
            assert official_fault(category, more, row.truth) is None
            assert strict_fault(category, more, row.truth) is not None


def test_verdicts_agree_with_the_port(corpus: Corpus) -> None:
    check = port("checker").check_special_answer
    for category in SPECIAL:
        rows = corpus.rows[category]
        for row in rows:
            right = sentence(category, row.truth)
            for reply in (
                right,
                right[:-5],
                right[9:],
                EVERYTHING,
                sentence(category, rows[0].truth),
            ):
                theirs = check(reply, row.truth, category)["valid"]
                assert (official_fault(category, reply, row.truth) is None) == theirs


@pytest.mark.parametrize(
    "reply",
    [
        '["Missing necessary parameters (b, a) for the api (Api)"]',
        "Missing necessary parameters ('a', 'b') for the api (Api).",
        '["Missing necessary parameters (a\uff0cb) for the api (Api)"]',
    ],
)
def test_spelling_that_does_not_matter(reply: str) -> None:
    assert strict_fault("special_incomplete", reply, {"Api": ["a", "b"]}) is None


@pytest.mark.parametrize(
    "reply",
    [
        '["Missing necessary parameters (a, b, c) for the api (Api)"]',
        '["Missing necessary parameters (a) for the api (Api)"]',
        '["Missing necessary parameters (a, b) for the api (Api2)"]',
    ],
)
def test_too_many_or_too_few_names_fail_strictly(reply: str) -> None:
    assert strict_fault("special_incomplete", reply, {"Api": ["a", "b"]}) is not None
