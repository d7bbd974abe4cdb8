"""Consume MCP servers: each one a source for the catalog."""
