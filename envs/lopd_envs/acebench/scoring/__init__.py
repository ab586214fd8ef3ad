"""ACEBench's scores, each twice: ``official``, leniencies included, and ``strict``, our own."""
