"""Editors and other programs that use MCP servers: where each keeps them, in which form, and how ours gets there."""
