"""Editors and other programs that use MCP servers: where each lists them, in which form, and how to add the bridge."""
