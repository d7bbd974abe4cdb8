"""MCP and JSON-RPC as values: revisions, codes, messages, parameters, headers. No input or output."""
