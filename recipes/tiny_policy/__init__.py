"""How the shipped tiny policy and its composer were made; begin with `make`."""
