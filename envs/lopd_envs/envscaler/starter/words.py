"""The first names that all starter domains share: one word each, easy to copy."""

from __future__ import annotations

NAMES: tuple[str, ...] = tuple(
    """Mia Leo Ana Max Eva Tom Ida Ben Zoe Sam Lea Jon Amy Kai Eli Nora Hugo Ruth Omar Vera
    Finn Lucy Ivan Rosa Paul Emma Karl Jane Noah Lily Otto Anna Luis Sara Adam Clara Dario Elena
    Felix Greta Henry Irene Jonas Maria Nadia Oscar Petra Simon""".split()
)
