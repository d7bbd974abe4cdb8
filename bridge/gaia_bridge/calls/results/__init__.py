"""The conversion of return values and exceptions of agents to results of MCP, and their rendering."""
