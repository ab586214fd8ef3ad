"""How what ships with lopd-gym was made: seeded commands, run from a clone."""
