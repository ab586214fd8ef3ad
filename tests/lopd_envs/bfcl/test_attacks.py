"""Hostile replies: each is answered with an error or ends the turn, and does nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lopd_envs.bfcl.calls import Unreadable, read_reply
from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.wheel import Wheel

from lopd_gym.messages import AssistantMessage, ToolCall

pytestmark = pytest.mark.timeout(60)

FILES = "multi_turn_base_0"


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


TEXTS = {
    "shell": "[__import__('os').system('touch CANARY')]",
    "shell as a chain": "[inspect.os.system(command='touch CANARY')]",
    "shell in an argument": "[ls(zz=__import__('os').system('touch CANARY'))]",
    "shell in an expression": "[ls(zz=1+__import__('os').system('touch CANARY'))]",
    "shell in a comprehension": "[ls(zz=[__import__('os').system('touch CANARY') for _ in (1,)])]",
    "shell in a subscript": "[ls(zz={}[__import__('os').system('touch CANARY')])]",
    "shell in a lambda": "[(lambda: __import__('os').system('touch CANARY'))()]",
    "shell in an f-string": "[ls(zz=f\"{__import__('os').system('touch CANARY')}\")]",
    "shell in a default": "[ls(zz=(lambda x=__import__('os').system('touch CANARY'): x))]",
    "file": "[open(file='CANARY', mode='w')]",
    "module": "[importlib.import_module(name='antigravity')]",
    "evaluation": "[eval(source='1'), exec(source='1'), compile(source='1')]",
    "statement": "import os; os.system('touch CANARY')",
    "walrus": "[ls(zz=(b := __import__('os').system('touch CANARY')))]",
    "attribute walk": "[ls.__self__.__class__.__init__.__globals__()]",
    "subclass walk": "[().__class__.__bases__[0].__subclasses__()]",
    "instance": "[GorillaFileSystem.ls(zz=True)]",
    "private method": "[_load_scenario(scenario={'root': {}})]",
    "dunder": "[__init__()]",
    "call in an argument": "[cd(folder=mkdir(dir_name='x'))]",
    "power tower": "[ls(zz=9**9**9**9)]",
    "long product": "[ls(zz='x'*10**12)]",
    "deep brackets": "[ls(zz=" + "[" * 5_000 + "]" * 5_000 + ")]",
    "deep minus": "[ls(zz=" + "-" * 20_000 + "1)]",
    "deep not": "[ls(zz=" + "not " * 20_000 + "1)]",
    "deep lambda": "[ls(zz=" + "lambda:" * 20_000 + "1)]",
    "deep dictionary": "[ls(zz=" + "{1:" * 20_000 + "1" + "}" * 20_000 + ")]",
    "deep calls": "[" + "f(zz=" * 20_000 + ")" * 20_000 + "]",
    "long sum": "[ls(zz=" + "1+" * 60_000 + "1)]",
    "long subscript": "[ls(zz=x" + "[0]" * 60_000 + ")]",
    "deep parentheses": "(" * 20_000,
    "deep attributes": "[a" + ".a" * 50_000 + "()]",
    "long number": "[ls(zz=" + "9" * 10_000 + ")]",
    "long text": "[ls(zz='" + "x" * 1_000_000 + "')]",
    "null byte": "[ls(zz='\0')]\0",
    "surrogate": "[ls(zz='\ud800')]",
}

CALLS = {
    "shell as a name": ToolCall("__import__('os').system('touch CANARY')", {}),
    "shell as a chain": ToolCall("inspect.os.system", {"command": "touch CANARY"}),
    "shell in a parameter's name": ToolCall("ls", {"a=__import__('os').system('touch CANARY')": 1}),
    "private method": ToolCall("_load_scenario", {"scenario": {"root": {}}}),
    "dunder": ToolCall("__init__", {}),
    "attribute": ToolCall("root", {}),
    "self": ToolCall("ls", {"self": None}),
    "empty name": ToolCall("", {}),
    "deep": ToolCall("cd", {"folder": nested(10_000)}),
    "wide": ToolCall("cd", {"folder": ["x"] * 1_000_000}),
    "long": ToolCall("cd", {"folder": "x" * 10_000_000}),
    "not a number": ToolCall("cd", {"folder": float("nan")}),
    "key that is no text": ToolCall("cd", {1: 2}),  # type: ignore[dict-item]
}

ENDLESS = {
    "power": ToolCall("power", {"base": 9, "exponent": 10**12}),
    "huge base": ToolCall("power", {"base": 10**4_000, "exponent": 900}),
    "precise root": ToolCall("square_root", {"number": 2, "precision": 10**9}),
    "precise logarithm": ToolCall("logarithm", {"value": 2, "base": 3, "precision": 10**8}),
    "coarse rounding": ToolCall("round_number", {"number": 1, "decimal_places": -(10**9)}),
}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Replace what starts programs, and return the list of what was started."""
    started: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", started.append)
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **_: started.append(str(args)))
    return started


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_texts(wheel: Wheel, watched: list[str], tmp_path: Path, text: str) -> None:
    env = BFCLEnv(wheel, "multi_turn_base", protocol="prompting")
    env.reset(seed=0, options={"task": FILES})
    messages, *_ = env.step(AssistantMessage(text=text))
    assert messages
    assert all(m.role == "user" or m.content.startswith("Error during") for m in messages)
    check_untouched(env, watched, tmp_path)


@pytest.mark.parametrize("category", ["simple_python", "parallel", "irrelevance"])
def test_hostile_answers(wheel: Wheel, watched: list[str], tmp_path: Path, category: str) -> None:
    env = BFCLEnv(wheel, category, protocol="prompting")
    for text in TEXTS.values():
        env.reset(seed=0)
        *_, info = env.step(AssistantMessage(text=text))
        assert category == "irrelevance" or info["outcome"].score == 0.0
    assert not watched
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_hostile_calls(wheel: Wheel, watched: list[str], tmp_path: Path, call: ToolCall) -> None:
    env = BFCLEnv(wheel, "multi_turn_base")
    env.reset(seed=0, options={"task": FILES})
    (message,), *_ = env.step(AssistantMessage(tool_calls=(call,)))
    assert message.content.startswith("Error during execution: ")
    check_untouched(env, watched, tmp_path)


@pytest.mark.parametrize("call", ENDLESS.values(), ids=ENDLESS)
def test_sums_that_would_never_end(wheel: Wheel, call: ToolCall) -> None:
    env = BFCLEnv(wheel, "multi_turn_base")
    classes = {t.id: t.data["entry"].raw["involved_classes"] for t in env.tasks("multi_turn_base")}
    env.reset(seed=0, options={"task": next(i for i, c in classes.items() if "MathAPI" in c)})
    (message,), *_ = env.step(AssistantMessage(tool_calls=(call,)))
    assert message.content == "Error during execution: the numbers are too large to compute with"


@pytest.mark.parametrize("category", ["simple_java", "simple_javascript"])
def test_source_text_that_takes_forever_to_match(wheel: Wheel, category: str) -> None:
    env = BFCLEnv(wheel, category)
    for task in env.tasks(category)[:30]:
        env.reset(seed=0, options={"task": task.id})
        (right,) = env.oracle(task)
        long = {name: "{" + "a:b," * 30_000 for name in right.tool_calls[0].arguments}
        call = ToolCall(right.tool_calls[0].name, long)
        *_, info = env.step(AssistantMessage(tool_calls=(call,)))
        assert info["outcome"].score == 0.0


def test_arithmetic_is_kept_to_numbers() -> None:
    (call,) = read_reply("[f(a=5*1024, b=-(1+2)/4, c=1-0.5)]")
    assert call.arguments == {"a": 5120, "b": -0.75, "c": 0.5}
    for hostile in ("2**3", "'a'*3", "[1]*3", "1<<3", "1+x", "10/0", "(1+2).real"):
        with pytest.raises(Unreadable):
            read_reply(f"[f(a={hostile}+0)]")


def check_untouched(env: BFCLEnv, watched: list[str], folder: Path) -> None:
    """The episode goes on, nothing was started or written, and the answer still passes."""
    assert env.outcome is None
    assert not watched
    assert not list(folder.iterdir())
    env.reset(seed=0, options={"task": FILES})
    for message in env.oracle(env.find(FILES)):
        env.step(message)
    assert env.outcome is not None
    assert env.outcome.success
