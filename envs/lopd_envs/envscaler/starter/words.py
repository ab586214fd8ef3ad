"""The first names that all starter domains share, and a helper to write lists of words."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


NAMES: tuple[str, ...] = words(
    """Mia Leo Ana Max Eva Tom Ida Ben Zoe Sam Lea Jon Amy Kai Eli Nora Hugo Ruth Omar Vera Finn
    Lucy Ivan Rosa Paul Emma Karl Jane Noah Lily Otto Anna Luis Sara Adam Clara Dario Elena Felix
    Greta Henry Irene Jonas Maria Nadia Oscar Petra Simon"""
)
"""48 names of one word each: easy to copy."""
