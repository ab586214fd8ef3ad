"""A small made-up release: a class with tools that misbehave in every way worth containing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lopd_envs.envscaler.corpus import load_corpus
from lopd_envs.envscaler.player import WorkerTools
from lopd_envs.envscaler.release import ReleaseEnv
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.env import EpisodeRules
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.sandbox import Limits

ENV_ID = "env_141_rl"
TASK_ID = f"{ENV_ID}-task_1"
LIMITS = Limits(wall_s=20.0, memory_mib=256)
HASTY = Limits(wall_s=1.5, memory_mib=256)
"""For tests that wait for the limit; on a busy machine a process needs a moment to start."""

SOURCE = """
import time, uuid, random, datetime

class Marks(list):
    pass

class Shelf:
    def __init__(self, init_config):
        self.items = {}
        self.init_config = init_config

    def add(self, name: str):
        if not isinstance(name, str):
            return {"success": False, "error": "name must be text"}
        self.items[name] = len(self.items)
        return {"success": True, "data": self.items[name]}

    def label(self, name: str, note=None):
        self.items[{name: 1} and name] = note
        return {"success": True}

    def stamp(self):
        when = datetime.datetime.now().isoformat()
        return {"id": str(uuid.uuid4()), "at": when, "s": time.time(), "n": random.random(),
                "set": {"b", "a", "c", "d"}}

    def hang(self):
        while True:
            try:
                pass
            except BaseException:
                pass

    def eat(self):
        self.hoard = []
        while True:
            self.hoard.append("x" * 10**6)

    def eat_once(self):
        return {"success": len("x" * 10**10)}

    def shout(self):
        print("x" * 100_000)
        return {"success": True}

    def quit(self):
        raise SystemExit("bye")

    def peek(self):
        found = []
        for name in ("os", "sys", "subprocess", "socket", "pathlib"):
            try:
                __import__(name)
                found.append(name)
            except ImportError:
                pass
        for name in ("open", "eval", "exec", "compile", "input"):
            try:
                eval_ = __builtins__[name]
                found.append(name)
            except KeyError:
                pass
        return {"found": found}

    def mark(self):
        self.marks = Marks(["apple"])
        return {"success": True}

    def _hidden(self):
        return {"success": True}
"""

PASSES = "def check_func(final_state):\n    return 'apple' in final_state['items']"
CHANGED = "def check_func(final_state):\n    return final_state != initial_state"
HANGS = "def check_func(final_state):\n    while True:\n        pass"
EATS = "def check_func(final_state):\n    x = []\n    while True:\n        x.append('x' * 10**6)"


def tool(name: str, *parameters: str) -> dict[str, Any]:
    properties = {p: {"type": "string"} for p in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {
        "type": "function",
        "function": {"name": name, "description": f"Does {name}.", "parameters": schema},
    }


NAMES = ("stamp", "mark", "hang", "eat", "eat_once", "shout", "quit", "peek")
HIDDEN = ("init_config", "_hidden")


def environment(**changes: Any) -> dict[str, Any]:
    record = {
        "env_id": ENV_ID,
        "env_class_name": "Shelf",
        "env_class_code": SOURCE,
        "environment_introduction": "A shelf.",
        "constraints_rules": ["Names are text."],
        "tools": [tool("add", "name"), tool("label", "name", "note"), *map(tool, NAMES + HIDDEN)],
    }
    return record | changes


def scenario(*checks: str, **changes: Any) -> dict[str, Any]:
    record = {
        "env_id": ENV_ID,
        "env_class_name": "Shelf",
        "task_id": TASK_ID,
        "task": "Put an apple on the shelf.",
        "init_config": {"items": {"pear": 0}, "init_config": {}, "notes": ["new"]},
        "checklist_with_func": [
            {"check_item": f"check {n}", "check_func": source}
            for n, source in enumerate(checks or (PASSES, CHANGED))
        ],
    }
    return record | changes


def write(folder: Path, environments: Any, scenarios: Any) -> Path:
    (folder / "env_metadata_subset.json").write_text(json.dumps(environments))
    (folder / "rl_scenarios_subset.json").write_text(json.dumps(scenarios))
    return folder


def make_env(
    folder: Path, *checks: str, sandbox: Any = None, limits: Limits = LIMITS, **rules: Any
) -> ReleaseEnv:
    corpus = load_corpus(write(folder, [environment()], [scenario(*checks)]))
    sandbox = sandbox or ProcessSandbox()
    return ReleaseEnv(corpus, sandbox, "train", EpisodeRules(**rules), limits)


def call(name: str, /, **arguments: Any) -> AssistantMessage:
    return AssistantMessage(tool_calls=(ToolCall(name, arguments),))


DONE = AssistantMessage(text="Task Completed")


def process_of(env: ReleaseEnv) -> int:
    """The id of the process that plays the open episode."""
    tools = env.toolset
    assert isinstance(tools, WorkerTools)
    session: Any = tools._worker._session
    pid: int = session._process.pid
    return pid
