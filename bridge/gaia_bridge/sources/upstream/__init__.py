"""An MCP server as a source: started when needed, kept alive, and translated to the revision of each client."""
