"""What the policy is told is what upstream tells it."""

from __future__ import annotations

import random
from copy import deepcopy

import pytest
from lopd_envs.bfcl.calls import Unreadable, read_reply
from lopd_envs.bfcl.corpus import SINGLE_TURN
from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.wheel import Wheel

from lopd_gym.messages import AssistantMessage
from tests.lopd_envs.bfcl.test_single_turn_parity import TEXTS
from tests.lopd_envs.bfcl.upstream import Upstream

NOTHING = AssistantMessage(text="No.")


@pytest.mark.parametrize("category", ["multi_turn_miss_func", *SINGLE_TURN])
def test_tools_are_upstreams(wheel: Wheel, upstream: Upstream, category: str) -> None:
    env = BFCLEnv(wheel, category)
    kinds = upstream.decoders.GORILLA_TO_OPENAPI
    style = upstream.enums.ModelStyle.OPENAI_COMPLETIONS
    for record in upstream.utils.load_dataset_entry(category)[:60]:
        expected = upstream.decoders.convert_to_tool(record["function"], kinds, style)
        for tool in expected:
            tool["function"].pop("response", None)
        _, info = env.reset(seed=0, options={"task": record["id"]})
        assert [spec.as_openai() for spec in info["tools"]] == expected


@pytest.mark.parametrize("category", ["multi_turn_base", "live_simple", "live_irrelevance"])
def test_system_prompts_are_upstreams(wheel: Wheel, upstream: Upstream, category: str) -> None:
    env = BFCLEnv(wheel, category, protocol="prompting")
    fill_in = upstream.decoders.system_prompt_pre_processing_chat_model
    for record in upstream.utils.load_dataset_entry(category)[:20]:
        expected = fill_in(deepcopy(record["question"][0]), record["function"], record["id"])
        messages, info = env.reset(seed=0, options={"task": record["id"]})
        assert [{"role": m.role, "content": m.content} for m in messages] == expected
        assert info["tools"] == ()


@pytest.mark.parametrize("category", ["multi_turn_miss_func", "multi_turn_miss_param"])
def test_later_turns_are_upstreams(wheel: Wheel, upstream: Upstream, category: str) -> None:
    env = BFCLEnv(wheel, category, protocol="prompting")
    template = wheel.prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING
    for record in upstream.utils.load_dataset_entry(category)[:20]:
        env.reset(seed=0, options={"task": record["id"]})
        added = record.get("missed_function", {})
        for number, messages in enumerate(record["question"][1:], start=1):
            expected = [m["content"] for m in messages]
            if str(number) in added:
                expected = [template.format(functions=added[str(number)])]
            found, *_ = env.step(NOTHING)
            assert [m.content for m in found] == expected


def test_functions_are_offered_from_their_turn_on(wheel: Wheel) -> None:
    env = BFCLEnv(wheel, "multi_turn_miss_func")
    for task in env.tasks("multi_turn_miss_func")[:30]:
        ((turn, documents),) = task.data["entry"].added.items()
        names = {document["name"] for document in documents}
        env.reset(seed=0, options={"task": task.id})
        for _ in range(turn):
            assert not names & {spec.name for spec in env.toolset.specs()}
            messages, *_ = env.step(NOTHING)
        assert names <= {spec.name for spec in env.toolset.specs()}
        assert all(f'"name": "{name}"' in messages[0].content for name in names)


def test_replies_are_read_as_upstream_reads_them(upstream: Upstream) -> None:
    rng = random.Random(0)
    pieces = [
        "f(",
        "g(a=",
        "b=",
        "1",
        "-2.5",
        "'x'",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        ")",
        "None",
        "x.y",
    ]
    texts = [*TEXTS, *("".join(rng.choices(pieces, k=rng.randint(1, 9))) for _ in range(3_000))]
    for text in texts:
        try:
            expected = upstream.decoders.default_decode_ast_prompting(text)
        except Exception:
            with pytest.raises(Unreadable):
                read_reply(text)
        else:
            named = [{n: {str(k): v for k, v in a.items()}} for c in expected for n, a in c.items()]
            assert [{c.name: c.arguments} for c in read_reply(text)] == named, text
