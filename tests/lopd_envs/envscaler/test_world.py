"""The private modules: as the real ones in type and text, with a clock and chance of their own."""

from __future__ import annotations

import datetime as real_datetime
import random as real_random
import time as real_time
from collections.abc import Iterator
from typing import Any

import pytest
from lopd_envs.envscaler.worker import EPOCH_US, TICK_US, World


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sandbox sets the time zone; here the test does."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "UTC")
        real_time.tzset()
        yield
    real_time.tzset()


def run(code: str, world: World | None = None) -> Any:
    """Execute code as the worker does, and return its ``result``."""
    world = world or World(seed=0)
    scope: dict[str, Any] = {"__builtins__": world.builtins, "__name__": "environment"}
    exec(compile(code, "<test>", "exec", dont_inherit=True), scope)  # noqa: S102
    return scope["result"]


CLOCK_READS = [
    "import time\nresult = time.time()",
    "from time import time\nresult = time()",
    "import time\nresult = time.time_ns() / 1e9",
    "import time, calendar\nresult = calendar.timegm(time.gmtime())",
    "from datetime import datetime, timezone\nresult = datetime.now(timezone.utc).timestamp()",
    "import datetime as d\nresult = d.datetime.utcnow().replace(tzinfo=d.timezone.utc).timestamp()",
    "result = __import__('time').time()",
]


@pytest.mark.parametrize("code", CLOCK_READS)
def test_every_way_to_read_the_clock_reads_the_episodes(code: str) -> None:
    world = World(seed=0)
    first, second = run(code, world), run(code, world)
    assert int(first) == EPOCH_US // 10**6 + 1
    assert second - first == pytest.approx(TICK_US / 1e6, abs=0.01)


def test_days_and_texts_are_of_the_epoch() -> None:
    code = """
from datetime import date, datetime
import time
result = [date.today().isoformat(), datetime.today().date().isoformat(),
          time.strftime("%Y-%m-%d"), time.ctime()[-4:], time.asctime()[-4:]]
"""
    assert run(code) == ["2024-07-01"] * 3 + ["2024", "2024"]


@pytest.mark.parametrize(
    "expression",
    [
        "datetime(2024, 1, 2, 3, 4, 5)",
        "date(2024, 1, 2)",
        "datetime.fromisoformat('2024-01-02T03:04:05')",
        "datetime.strptime('2024-01-02', '%Y-%m-%d')",
        "datetime(2024, 1, 2) + timedelta(days=1)",
        "datetime(2024, 1, 2) - datetime(2024, 1, 1)",
        "datetime(2024, 1, 2).date()",
        "datetime(2024, 1, 2, tzinfo=timezone.utc)",
        "datetime.combine(date(2024, 1, 2), datetime(2024, 1, 1).time())",
        "[isinstance(datetime(2024, 1, 2), date), isinstance(date(2024, 1, 2), datetime)]",
        "isinstance(datetime(2024, 1, 2).date(), date)",
        "datetime(2024, 1, 2) < datetime.fromtimestamp(1719792000)",
        "datetime(2024, 1, 2).strftime('%d %b')",
        "type(datetime(2024, 1, 2)).__name__",
        "str(datetime(2024, 1, 2))",
        "{datetime(2024, 1, 2): 1}",
    ],
)
def test_dates_look_and_compare_as_the_real_ones(expression: str) -> None:
    names = "date, datetime, timedelta, timezone"
    private = run(f"from datetime import {names}\nresult = {expression}")
    real = {name: getattr(real_datetime, name) for name in names.split(", ")}
    assert repr(private) == repr(eval(expression, real))  # noqa: S307 - our own text


def test_private_dates_can_be_copied() -> None:
    code = "import copy, datetime\nd = [datetime.date(2024, 1, 2)]\nresult = copy.deepcopy(d) == d"
    assert run(code) is True


def test_chance_follows_the_seed() -> None:
    code = """
import random, uuid
result = [str(uuid.uuid4()), str(uuid.uuid1()), random.random(), random.choice("abcdef"),
          random.Random().random(), random.Random(7).random()]
"""
    first = run(code, World(1))
    assert run(code, World(1)) == first
    other = run(code, World(2))
    assert [a == b for a, b in zip(first, other, strict=True)][-1]
    assert first[:3] != other[:3]
    assert run("import uuid\nresult = uuid.uuid4().version") == 4
    assert first[5] == real_random.Random(7).random()


def test_sleep_takes_no_time_of_ours() -> None:
    started = real_time.perf_counter()
    slept = run(
        "import time\na = time.monotonic()\ntime.sleep(1000)\nresult = time.monotonic() - a"
    )
    assert slept == pytest.approx(1000 + TICK_US / 1e6)
    assert real_time.perf_counter() - started < 5


@pytest.mark.parametrize("module", ["os", "sys", "subprocess", "importlib", "builtins", "socket"])
def test_other_modules_are_not_there(module: str) -> None:
    with pytest.raises(ImportError, match="not available here"):
        run(f"import {module}")


def test_nothing_is_patched_globally() -> None:
    run("import time, datetime, random, uuid\nrandom.seed(1)\nresult = time.time()")
    assert abs(real_time.time() * 1e6 - EPOCH_US) > 1e12
    assert type(real_datetime.datetime.now()) is real_datetime.datetime
