"""The command line. `main` is the entry point; each group of commands has a file of its own.

Nothing heavy is imported at module level: ``lopd-gym --help`` must answer at once.
"""
