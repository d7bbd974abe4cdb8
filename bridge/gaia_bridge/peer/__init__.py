"""What both ends of a connection need, whichever is ours: the requests that are in flight, in both directions."""
