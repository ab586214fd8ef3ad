"""What is measured, each file a command: ``python -m benchmarks.NAME``."""
