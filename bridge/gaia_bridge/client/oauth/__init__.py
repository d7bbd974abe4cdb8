"""Authorisation at upstream HTTP servers (MCP basic/authorization), on the SDK's OAuth client."""
