"""Containers of a Docker engine.

Read `sandbox.py` (the backend), `container.py` (how a container is created, and what it is asked),
`runner.py` (the process in it that starts programs), `stream.py` (the bytes between the two),
`pool.py` (containers started ahead of time), `engine.py` (which engine, which image, whose
containers) and `reaper.py` (what a killed owner left).
"""

from __future__ import annotations

from lopd_sandboxes.docker.sandbox import DockerSandbox

__all__ = ["DockerSandbox"]
