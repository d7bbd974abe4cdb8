"""The public registry of MCP servers: what it lists, and how an entry of it becomes one of the configuration."""
