"""`serve` and `dev`: the choice of agents, the run of a bridge, and its output for people."""
