"""Policies: what plays the episodes.

Read `base` (the contract), `scripted` (policies without a model), `backbone` (one copy of the
weights, several views), `engine` (turns for many conversations) and `model_policy`, which puts a
chat format and an engine together. Nothing is imported here: all but the first two need torch.
"""
