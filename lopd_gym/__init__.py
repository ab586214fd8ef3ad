"""Verified multi-turn environments, an agent loop, and learners for language-model agents.

Start with `env`, `loop` and `learner`; docs/architecture.md is the map.
"""
