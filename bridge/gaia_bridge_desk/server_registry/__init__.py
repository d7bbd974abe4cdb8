"""The public registry of MCP servers: its listings, and how one of them becomes an entry of the configuration."""
