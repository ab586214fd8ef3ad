"""How an ACEBench task opens: what the policy is told before its first turn.

The same demands as upstream's prompts, in our own words, and as a conversation: upstream asks with
the whole transcript as one text each time. In the protocol ``text`` the functions are listed in the
system message and calls are written in ACEBench's notation.
"""

from __future__ import annotations

from lopd_envs.acebench.corpus import MULTI_STEP, MULTI_TURN, Row
from lopd_gym.messages import Message

FINISH = "finish conversation"
"""What the agent, or the simulated user, writes to end an agent episode."""

UNSPOKEN = "(The simulated user opens the conversation.)"
"""Stands for the first user message of a task whose user is simulated."""

_NORMAL = """\
You decide which functions have to be called next in the conversation below. Call them, all in \
one reply, and write nothing else.

- Give every parameter that a function requires, and the others where {source} states them.
- Where no format is prescribed, give a value in the words of {source}.
- A function without parameters is called without arguments; never make a parameter up."""

_SPECIAL = """\
You decide what has to happen next in the conversation below. Where what the user says is clear \
and complete, and the functions can do it, call them and write nothing else. Otherwise call \
nothing, and reply with exactly one of these sentences, in English and in square brackets:

- A value has not the type or form that its parameter demands:
["There is incorrect value (value) for the parameters (key) in the conversation history."]
- A required value is not there:
["Missing necessary parameters (key1, key2, ...) for the api (ApiName)"]
- No function can do what is asked for:
["Due to the limitations of the function, I cannot solve this problem."]"""

_AGENT_STEPS = f"""\
You carry out a task on the user's behalf with functions, step by step: call one at a time, and \
look at its result before you decide on the next call. There is nobody to ask: use what you are \
told. When the task is done, reply only with: {FINISH}"""

_AGENT_TURNS = f"""\
You help a user with functions. Call one at a time, and either call or talk to the user, never \
both in one reply. Ask the user for what you are missing; never make it up, and never answer in \
the user's place. When all is done, reply only with: {FINISH}"""

_PHONE = """\
It is 16:00 on June 11, 2024, in Beijing. You work on the user's phone: messages, reminders, \
food orders. Names that the user gives are full names.

- The device must be logged in before messages are looked at, and you must know who sent them \
to whom.
- After reading messages, offer to answer them, to note them as a reminder, and to order food \
that they ask for.
- Where there is no room for another message, ask which one may be deleted.
- A reminder needs a title and a text; its time is now unless the user says otherwise.
- After reading a reminder, offer to do what it says.
- To order food, log in to the platform with the user's account and password; ask for merchant, \
products and quantities; order from one merchant at a time. Tell the user where the balance is \
too low, and ask whether to order something else."""

_AIRLINE = """\
It is 08:00 on July 15, 2024, in Beijing. You work for an airline: booking, changing and \
cancelling flights. Before anything that changes a reservation, say what you are about to do \
and get a "yes".

- Booking: get user ID and password, then origin and destination, and look the flights up. A \
round trip is two bookings. Where no direct flight fits, look for a connection over a city and \
book both parts. Ask whether to pay by cash or by bank.
- Free bags in economy and business class: regular members 1 and 2, silver 2 and 3, gold 3 and \
3; every other bag costs 50 yuan.
- Changing: get user ID and password. A flight may be changed for one of the same route. A \
change of cabin costs the difference. Bags may be added, not taken away. Ask how to pay or be \
paid back.
- Cancelling: get user ID, reservation ID and the reason."""

_NOTATION = """\
Write calls as [ApiName(key1='value1', key2='value2'), ...], from the first square bracket to \
the last one, with nothing around them.

The functions:
{functions}"""


def opening(row: Row, protocol: str) -> tuple[Message, ...]:
    """Return the system message and the first user message of a task."""
    parts = [_role(row)]
    if row.category == MULTI_TURN:
        parts.append(_AIRLINE if "Travel" in row.fields["involved_classes"] else _PHONE)
    parts += [str(row.fields[name]) for name in ("time",) if row.fields.get(name)]
    if row.fields.get("profile"):
        parts.append(f"What is known of the user:\n{row.fields['profile']}")
    if protocol == "text":
        parts.append(_NOTATION.format(functions=row.fields["function"]))
    question = UNSPOKEN if row.category == MULTI_TURN else row.fields["question"]
    return Message("system", "\n\n".join(parts)), Message("user", question)


def _role(row: Row) -> str:
    if row.category == MULTI_STEP:
        return _AGENT_STEPS
    if row.category == MULTI_TURN:
        return _AGENT_TURNS
    if row.kind == "special":
        return _SPECIAL
    profile = "profile" in row.fields
    return _NORMAL.format(source="the user or the profile" if profile else "the user")
