"""A run: one training or evaluation, in its own folder.

Read `settings` (what a run is a function of), `folder` (what lies where), `rollouts` (episodes,
played in chunks that survive a kill), `evaluation`, `training` (the phases), `summary`.
"""
