"""The commands that manage upstream servers: `add`, `list`, `tools`, `call` and the others."""
