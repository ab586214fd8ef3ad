"""Environment families, one folder each. They are found by name, through ``lopd_gym.envs``."""

from __future__ import annotations
