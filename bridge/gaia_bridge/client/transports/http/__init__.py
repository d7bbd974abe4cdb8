"""Servers that are reached over HTTP: connections, requests, and the two transports of MCP that use them."""
