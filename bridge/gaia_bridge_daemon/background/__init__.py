"""A bridge in the background, for all editors of one user: its sockets, its fronts, and when it ends."""
