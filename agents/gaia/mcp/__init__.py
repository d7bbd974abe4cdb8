"""The Model Context Protocol, from an agent author's side."""
