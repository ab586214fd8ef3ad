"""LOPD: latent on-policy self-distillation (arXiv 2608.13040).

A frozen copy of the starting model, shown latents that a composer makes of retrieved experiences,
supervises the student token by token. Read `config`, `composer` (traces to latents), `memory`
(retrieval, and where latents go in the prompt), `learner` (one training step), `teacher`.
"""

from lopd_learners.lopd.config import LOPDConfig
from lopd_learners.lopd.learner import LOPD

__all__ = ["LOPD", "LOPDConfig"]
