"""HTTP below the protocol: the listener, its connections, the guard and the application behind it."""
