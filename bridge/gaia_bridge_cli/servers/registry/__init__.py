"""The public registry of servers: searched, and taken from."""
