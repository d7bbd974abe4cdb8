"""How an agent converses: turns of a model and tools, sessions, tools that are searched for. Used through `Agent`."""
