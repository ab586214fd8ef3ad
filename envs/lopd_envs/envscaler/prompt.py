"""How an EnvScaler task opens: what the policy is told before its first turn.

Same parts and order as upstream's prompt in non-conversation mode, in our own words. The tools are
written by the chat format.
"""

from __future__ import annotations

from lopd_envs.envscaler.corpus import Environment, Scenario
from lopd_gym.messages import Message

_ROLE = """\
You are an assistant that carries out a task in a software system, step by step, with its tools.

- Call one tool at a time, and look at its result before you decide on the next call.
- Give every required argument, with values of the right type; never make up an identifier.
- Look things up before you change them.
- When everything that was asked for is done, call no tool and reply only with: Task Completed"""


def opening(environment: Environment, scenario: Scenario) -> tuple[Message, ...]:
    """Return the system message and the task as the first user message."""
    return Message("system", system_prompt(environment)), Message("user", scenario.task)


def system_prompt(environment: Environment) -> str:
    """Return the role, the environment's introduction and its rules."""
    rules = "\n".join(f"- {rule}" for rule in environment.rules)
    return (
        f"{_ROLE}\n\n"
        "The system that you work in is described below.\n\n"
        "# Environment Information\n"
        f"## Brief Introduction:\n{environment.introduction}\n\n"
        f"## Environment Rules / Constraints:\n{rules}"
    )
