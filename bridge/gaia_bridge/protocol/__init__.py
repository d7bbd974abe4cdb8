"""The rules of MCP and JSON-RPC: revisions, error codes, messages, parameters, headers. Does no I/O."""
