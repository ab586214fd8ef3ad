"""Chat formats: how each model family writes a conversation as text.

Read `base` (the contract), `chatml` (turns that two families share), `qwen3`, `olmo3`, `compact`.
A format's name says what happens to thinking: kept (``qwen3``), left out of parsed messages
(``qwen3-strip``) or switched off (``qwen3-nothink``).
"""

from lopd_gym.chat.base import ChatFormat
from lopd_gym.chat.select import FORMAT_FILE, format_for, format_names, get_format

__all__ = ["FORMAT_FILE", "ChatFormat", "format_for", "format_names", "get_format"]
