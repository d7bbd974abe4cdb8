"""Keeps a bridge from publishing itself: by the requests that pass through it, and by the processes that it starts."""
