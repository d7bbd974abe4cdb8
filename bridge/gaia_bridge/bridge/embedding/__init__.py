"""For programs that have the bridge inside of them: a client of any server."""
