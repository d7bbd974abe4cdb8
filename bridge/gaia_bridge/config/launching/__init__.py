"""How a configured program is launched: which one, where, in what environment, and why it does not start."""
