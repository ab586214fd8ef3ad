"""What the code-generation environments share: running candidate solutions and judging them.

`driver.py` runs inside the sandbox and turns (code, input) into encoded values; `calls.py` is our
side of it, `programs.py` the same for whole programs with standard input. `values.py` compares, in
our process only. `verdicts.py` is the closed list of what can be said, `extract.py` finds the code
in a reply, and `env.py` is the multi-turn environment on top.
"""

from __future__ import annotations
