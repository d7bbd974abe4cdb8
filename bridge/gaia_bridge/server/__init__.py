"""MCP served: one dispatcher for every transport and both eras, in plain JSON."""
