"""An HTTP API as a server: each operation of its OpenAPI document is a tool."""
