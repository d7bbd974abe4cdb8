"""Commands for the public registry of servers: search, and adding a server."""
