"""A server's lists: read, cached, and read again, with bounded waits."""
