"""Head-to-head comparison of learners: same tasks, seeds, budget and evaluation for all.

Read `plan` (which runs), `runner` (play them), `collect` (read finished runs and check that they
can be compared), `two_way` (statistics over seeds and tasks), `analyse` (the comparison), `result`
(its numbers as data).
"""
