"""Where LiveCodeBench's releases lie; its users fetch them."""

from __future__ import annotations

from lopd_gym.data import DataSet

DATASET = DataSet(
    name="livecodebench",
    summary="contest problems from May 2023 on; release v6 holds 1,055",
    license="code MIT, data 'cc'; the statements are the contest sites'",
    source="https://huggingface.co/datasets/livecodebench/code_generation_lite",
    files=(),
    by_hand=(
        "LiveCodeBench's files are gigabytes of other people's problem statements and not pinned "
        "here, so they are not pulled for you: put test.jsonl, test2.jsonl ... from "
        "huggingface.co/datasets/livecodebench/code_generation_lite into a folder, and name it "
        "with --data."
    ),
)
