"""An MCP server as a source: started when it is needed, kept alive, and translated to what each client speaks."""
