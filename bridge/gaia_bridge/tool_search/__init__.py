"""Finding tools among many: by regular expression, and by words, the best first. Pure; knows tools as MCP has them."""
