"""The program that plays EnvScaler episodes inside a sandboxed process.

It is sent to a session of `lopd_gym.sandbox` as source, so it uses the standard library only. It
executes third-party class sources and checks; the process around it is the boundary, and what it
withholds from them (builtins, modules) is hygiene. One episode is open at a time: opening the next
drops it. Code objects are reused across episodes, instances never.

Each episode has a clock, a stream of uuids and random numbers of its own, handed out through its
own ``__import__``; nothing is patched globally. The same requests give the same bytes.
"""

from __future__ import annotations

import builtins
import datetime as real_datetime
import json
import marshal
import os
import random as real_random
import struct
import sys
import time as real_time
import uuid as real_uuid
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any, BinaryIO

_IMPORTABLE = """
    __future__ abc ast bisect calendar collections copy dataclasses datetime decimal enum fractions
    functools hashlib heapq itertools json math numbers operator random re statistics string
    textwrap time typing uuid
"""
IMPORTABLE = frozenset(_IMPORTABLE.split())
"""Modules that class sources and checks may import: no files, no processes, no network."""

_IMPORTED_BY_THE_INTERPRETER = frozenset({"_strptime"})
"""``strptime`` is written in C, and imports its parser with the builtins of whoever calls it."""

EPOCH_US = 1_719_792_000_000_000
"""Every episode's clock starts at 2024-07-01T00:00:00Z: most dates in the data are of that year."""

TICK_US = 1_001_000
"""What each reading of the clock advances it by. Ids made of whole seconds must not repeat, and a
time in ISO form should show its fraction, as a real one does."""

MAX_TEXT = 1_000_000
"""Longer texts (observations, errors) are cut."""

_WITHHELD = ("open", "eval", "exec", "compile", "input", "breakpoint", "exit", "quit", "help")
_SAFE_BUILTINS = {k: v for k, v in vars(builtins).items() if k not in _WITHHELD}


class World:
    """What one episode can see of time and chance, and the builtins that show it."""

    def __init__(self, seed: int, now_us: int = EPOCH_US) -> None:
        self.now_us = now_us
        self.chance = real_random.Random(seed)
        self.builtins = {**_SAFE_BUILTINS, "__import__": self._import}
        self._modules: dict[str, ModuleType] = {}

    def fork(self) -> World:
        """Return a world that starts as this one is now; reading it does not touch this one."""
        forked = World(0, self.now_us)
        forked.chance.setstate(self.chance.getstate())
        return forked

    def read_us(self) -> int:
        """Read the clock: microseconds since 1970."""
        self.now_us += TICK_US
        return self.now_us

    def read_s(self) -> float:
        """Read the clock: seconds since 1970."""
        return self.read_us() / 1e6

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Iterable[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level or name.partition(".")[0] not in IMPORTABLE | _IMPORTED_BY_THE_INTERPRETER:
            raise ImportError(f"module {name!r} is not available here")
        make = _PRIVATE.get(name)
        if make is None:
            return __import__(name, None, None, list(fromlist or ()))
        if name not in self._modules:
            self._modules[name] = make(self)
        return self._modules[name]


def _at(world: World, convert: Callable[[float], Any]) -> Callable[[float | None], Any]:
    """Return a converter of seconds whose default is the world's time."""

    def converted(seconds: float | None = None) -> Any:
        return convert(world.read_s() if seconds is None else seconds)

    return converted


def _time_module(world: World) -> ModuleType:
    module = _copy_of(real_time, [n for n in vars(real_time) if not n.startswith("_")])
    started_us = world.now_us

    def read_ns() -> int:
        return world.read_us() * 1_000

    def elapsed_s() -> float:
        return (world.read_us() - started_us) / 1e6

    def elapsed_ns() -> int:
        return (world.read_us() - started_us) * 1_000

    def sleep(seconds: float) -> None:
        world.now_us += int(seconds * 1e6)

    def strftime(form: str, moment: Any = None) -> str:
        return real_time.strftime(
            form, real_time.localtime(world.read_s()) if moment is None else moment
        )

    def asctime(moment: Any = None) -> str:
        return real_time.asctime(real_time.localtime(world.read_s()) if moment is None else moment)

    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(module, name, elapsed_s)
        setattr(module, f"{name}_ns", elapsed_ns)
    for convert in (real_time.gmtime, real_time.localtime, real_time.ctime):
        setattr(module, convert.__name__, _at(world, convert))
    vars(module).update(time=world.read_s, time_ns=read_ns, sleep=sleep)
    vars(module).update(strftime=strftime, asctime=asctime)
    return module


class _LikeTheReal(type):
    """Lets ``isinstance`` accept what the real class made, which private values turn into."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__mro__[1])


def _datetime_module(world: World) -> ModuleType:
    class date(real_datetime.date, metaclass=_LikeTheReal):  # noqa: N801
        @classmethod
        def today(cls) -> date:
            return cls.fromtimestamp(world.read_s())

        def __repr__(self) -> str:
            return f"datetime.{super().__repr__()}"

    class datetime(real_datetime.datetime, metaclass=_LikeTheReal):  # noqa: N801
        @classmethod
        def now(cls, tz: real_datetime.tzinfo | None = None) -> datetime:
            return cls.fromtimestamp(world.read_s(), tz)

        @classmethod
        def today(cls) -> datetime:
            return cls.now()

        @classmethod
        def utcnow(cls) -> datetime:
            return cls.now(real_datetime.UTC).replace(tzinfo=None)

        def __repr__(self) -> str:
            return f"datetime.{super().__repr__()}"

    module = _copy_of(real_datetime, real_datetime.__all__)
    for private in (date, datetime):
        private.__module__, private.__qualname__ = "datetime", private.__name__
        setattr(module, private.__name__, private)
    return module


def _uuid_module(world: World) -> ModuleType:
    names = [n for n in vars(real_uuid) if n.startswith("NAMESPACE_")]
    module = _copy_of(real_uuid, [*names, "UUID", "SafeUUID", "uuid3", "uuid5"])

    def uuid1(node: int | None = None, clock_seq: int | None = None) -> real_uuid.UUID:
        return real_uuid.UUID(int=world.chance.getrandbits(128), version=1)

    def uuid4() -> real_uuid.UUID:
        return real_uuid.UUID(int=world.chance.getrandbits(128), version=4)

    vars(module).update(uuid1=uuid1, uuid4=uuid4)
    return module


def _random_module(world: World) -> ModuleType:
    class Random(real_random.Random):
        def seed(self, a: Any = None, version: int = 2) -> None:
            super().seed(world.chance.getrandbits(64) if a is None else a, version)

    module = ModuleType("random")
    generator = Random()
    for name in real_random.__all__:
        if hasattr(generator, name):
            setattr(module, name, getattr(generator, name))
    vars(module)["Random"] = Random
    return module


def _copy_of(module: ModuleType, names: Iterable[str]) -> ModuleType:
    copy = ModuleType(module.__name__, module.__doc__)
    vars(copy).update({name: getattr(module, name) for name in names if hasattr(module, name)})
    return copy


_PRIVATE: dict[str, Callable[[World], ModuleType]] = {
    "time": _time_module,
    "datetime": _datetime_module,
    "uuid": _uuid_module,
    "random": _random_module,
}


class Episode:
    """One open scenario: a fresh instance of its class, and the state it started from."""

    def __init__(self, opening: Mapping[str, Any]) -> None:
        self.tools = frozenset(opening["tools"])
        self.world = World(opening["seed"])
        builtin = self.world.builtins
        namespace: dict[str, Any] = {"__name__": "environment", "__builtins__": builtin}
        exec(_compiled(opening["source"]), namespace)  # noqa: S102
        config = json.loads(opening["init_config"])
        self.instance = _construct(namespace[opening["class_name"]], config)
        self.initial = _copier(self.state())

    def state(self) -> dict[str, Any]:
        """Return all attributes but dunder names; live, not copied."""
        return {k: v for k, v in vars(self.instance).items() if not _is_dunder(k)}

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Call a tool of the schema; the observation is the ``str`` of what it returns."""
        method = getattr(self.instance, name, None)
        if name not in self.tools or name.startswith("_") or not callable(method):
            return {"refused": f"unknown tool {name!r}"}
        try:
            return {"observation": str(method(**arguments))[:MAX_TEXT]}
        except BaseException as err:
            return {"raised": _describe(err)}

    def verify(self, sources: Iterable[str]) -> list[tuple[bool, str | None]]:
        """Evaluate checks, each on copies: whether it passed, and the error if it has one."""
        final = _copier(self.state())
        return [self._check(source, final()) for source in sources]

    def _check(self, source: str, final: dict[str, Any]) -> tuple[bool, str | None]:
        world = self.world.fork() if "import" in source else self.world
        scope: dict[str, Any] = {"__name__": "check", "__builtins__": world.builtins}
        if "initial_state" in source:
            scope["initial_state"] = self.initial()
        try:
            exec(_compiled(source), scope)  # noqa: S102
            result = scope["check_func"](final)
        except BaseException as err:
            return False, _describe(err)
        if type(result) is not bool:
            return False, f"returned {type(result).__name__}, not a bool"
        return result, None


@lru_cache(maxsize=4_096)
def _compiled(source: str) -> CodeType:
    return compile(source, "<envscaler>", "exec", dont_inherit=True)


def _copier(value: Any) -> Callable[[], Any]:
    """Return a function that makes copies of what a value is now.

    Nearly every state is made of plain values, which `marshal` copies several times faster.
    """
    try:
        frozen = marshal.dumps(value)
    except ValueError:
        kept = deepcopy(value)
        return lambda: deepcopy(kept)
    return lambda: marshal.loads(frozen)


def _construct(kind: type, config: dict[str, Any]) -> Any:
    try:
        instance = kind(config)
    except TypeError:
        instance = kind()
    for name, value in config.items():
        setattr(instance, name, value)
    return instance


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _describe(err: BaseException) -> str:
    try:
        return f"{type(err).__name__}: {err}"[:MAX_TEXT]
    except BaseException:  # a third-party exception may have a broken __str__
        return type(err).__name__


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer length-prefixed JSON requests until the host hangs up."""
    episode: Episode | None = None
    while header := requests.read(4):
        request = json.loads(requests.read(struct.unpack(">I", header)[0]))
        answer: Any = {}
        if request["op"] == "open":
            try:
                episode = Episode(request)
            except BaseException as err:
                answer = {"error": _describe(err)}
        elif episode is None:
            answer = {"error": "no episode is open"}
        elif request["op"] == "call":
            answer = episode.call(request["name"], request["arguments"])
        else:
            answer = episode.verify(request["checks"])
        payload = json.dumps(answer).encode()
        answers.write(struct.pack(">I", len(payload)) + payload)
        answers.flush()


def main() -> None:
    """Serve on the process's own pipes, and give tools that print or read nothing to reach."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    serve(requests, answers)


if __name__ == "__main__":
    main()
