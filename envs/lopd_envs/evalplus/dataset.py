"""Where EvalPlus' releases lie, and which versions are meant."""

from __future__ import annotations

from lopd_gym.data import DataSet, WebFile

_RELEASES = "https://github.com/evalplus"

HUMANEVAL_PLUS = WebFile(
    url=f"{_RELEASES}/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz",
    filename="HumanEvalPlus.jsonl",
    sha256="42526ec0e7d5f3ee0b06d6ced98f8c8bae3d76519151bfb3d36f79010645bd7f",
)
MBPP_PLUS = WebFile(
    url=f"{_RELEASES}/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz",
    filename="MbppPlus.jsonl",
    sha256="b54e762755248ca411b523c917fa9f93c07b5ff2966bf60b3917b853926a3dad",
)
DATASET = DataSet(
    name="evalplus",
    summary="HumanEval+ v0.1.10 (164 tasks) and MBPP+ v0.2.0 (378 tasks)",
    license="Apache-2.0 (MBPP: CC BY 4.0)",
    source="https://github.com/evalplus/evalplus",
    files=(HUMANEVAL_PLUS, MBPP_PLUS),
)
