"""Learners, one folder each, and the losses they share.

Read `losses` (pure functions), `forward` (token rows through a model), then a learner's folder.
"""
