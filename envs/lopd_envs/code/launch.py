"""Start a candidate's whole program, with real pipes, as ``__main__``.

Sent into the sandbox beside ``solution.py`` and ``preamble.py``; uses the standard library only.
"""

from __future__ import annotations

import builtins
import resource
import sys
import traceback
from contextlib import suppress
from pathlib import Path

COMPILE_ERROR = 121
"""The exit code for a program that does not compile."""


def main() -> None:
    """Compile the program, then run it in the place of this one."""
    sys.set_int_max_str_digits(0)
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
    try:
        source = Path("solution.py").read_bytes()
        program = compile(source, "solution.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        traceback.print_exc(limit=0)
        sys.exit(COMPILE_ERROR)
    preamble = Path("preamble.py").read_bytes()
    names = {"__name__": "__main__", "__file__": "solution.py", "__builtins__": builtins}
    module = vars(sys.modules["__main__"])
    module.clear()
    module.update(names)
    exec(preamble, module)  # noqa: S102 - the sandbox around this process is the boundary
    exec(program, module)  # noqa: S102


if __name__ == "__main__":
    main()
