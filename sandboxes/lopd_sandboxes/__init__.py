"""Isolation backends behind the contract of `lopd_gym.sandbox`.

`process.py` is the backend that needs nothing installed. Read it first, then `start.py` and
`output.py` (a program that ends), `session.py` (one that stays and answers requests), `scratch.py`
(the folder of either) and `launch.py` (what a child does before it becomes the program).
`bubblewrap.py` isolates, with `rootfs.py` (what programs see), `seccomp.py` (the system calls they
may make), `cgroup.py` (what the kernel limits) and `reaper.py` (what a killed owner was starting).
`docker/` runs containers. Backends are found by name, through the entry-point group
``lopd_gym.sandboxes``.
"""

from __future__ import annotations
