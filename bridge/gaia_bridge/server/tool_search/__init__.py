"""Finding tools among many: by regular expression, and by words, the best first.

`patterns`, `ranking` and `search` are pure and know tools as MCP has them, so that agents search with them as well;
`published_search` puts two tools in place of all that an endpoint has.
"""
