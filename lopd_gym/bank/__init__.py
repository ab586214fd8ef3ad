"""The experience bank: what successful episodes leave, found again by the nearness of their task.

Read `trace` (what is kept of an episode), `experience`, `embed`, `store` (SQLite, the truth),
`index` (HNSW, derived), then `bank`, which joins them. `jsonl` carries banks around.
"""

from lopd_gym.bank.bank import Bank, BankStats, GroupStats, Hit
from lopd_gym.bank.embed import Embedder, get_embedder
from lopd_gym.bank.experience import MIN_SCORE, Experience, experience_from

__all__ = [
    "MIN_SCORE",
    "Bank",
    "BankStats",
    "Embedder",
    "Experience",
    "GroupStats",
    "Hit",
    "experience_from",
    "get_embedder",
]
