"""What a server lists: read, cached, and read again, and how long somebody waits for that."""
