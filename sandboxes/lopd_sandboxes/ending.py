"""How a program ended, and which limit, if any, did it: the same rules for every backend."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from lopd_gym.sandbox import Limits, RunResult
from lopd_sandboxes.session import out_of_memory


@dataclass(frozen=True, slots=True)
class Ending:
    """What was observed. ``code`` is minus the signal for a program that a signal ended."""

    code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    flooded: bool
    truncated: bool
    wall_s: float

    def judged(self, limits: Limits, oom_killed: Callable[[], bool] | None) -> RunResult:
        """Tell the limits apart; ``oom_killed`` asks the kernel, where that is possible."""
        stopped = self.timed_out or self.flooded  # by us, whatever its code is now
        said = self.stderr.decode(errors="replace")
        memory = not stopped and out_of_memory(self.code, said, oom_killed)
        timed_out = self.timed_out or self.code == -signal.SIGXCPU
        if self.code == -signal.SIGKILL and not stopped and limits.cpu_s is not None:
            # The soft limit on processor time sends SIGXCPU; the hard one kills who ignores that.
            guessed = oom_killed is None or not memory
            timed_out = timed_out or (guessed and self.wall_s >= limits.cpu_s)
        return RunResult(
            exit_code=None if timed_out else self.code,
            stdout=self.stdout,
            stderr=self.stderr,
            timed_out=timed_out,
            memory_killed=memory and not timed_out,
            truncated=self.truncated,
            wall_s=self.wall_s,
        )
