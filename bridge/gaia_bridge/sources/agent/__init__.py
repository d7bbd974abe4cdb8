"""An agent as a source: what it declares, and calls of its code."""
