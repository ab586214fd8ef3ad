"""The simulated phone and airline of ACEBench's agent tasks.

Written for this project after the behaviour of upstream's classes, with its world (`worlds.json`:
names, menus, flights; MIT licence, see `NOTICE.md`), because end states are compared with it. Read
`base.py`, the apps (`phone.py`, `food.py`, `travel.py`), then `scene.py`, which puts them together.
"""

from __future__ import annotations

from lopd_envs.acebench.scenes.scene import Scene

__all__ = ["Scene"]
