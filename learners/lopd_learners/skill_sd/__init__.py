"""Skill-SD: GRPO, and distillation from a teacher that is shown a skill (arXiv 2604.10674).

Read `skills` (what a skill is, and which one is shown), `summarise` (episodes to skills),
`learner` (one training step).
"""

from lopd_learners.skill_sd.learner import SkillSD, SkillSDConfig

__all__ = ["SkillSD", "SkillSDConfig"]
