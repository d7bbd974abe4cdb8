"""What agents return and raise, as results of MCP."""
