"""Isolation backends behind the contract of `lopd_gym.sandbox`.

`process.py` is the backend that needs nothing installed. Read it first, then `launch.py` (what a
child does before it becomes the program), `output.py` (a program that ends), `session.py` (one
that stays and answers requests) and `scratch.py` (the folder of either). Backends are found by
name, through the entry-point group ``lopd_gym.sandboxes``.
"""

from __future__ import annotations
