"""Parts for programs that embed the bridge: a client of any server, and `serve`."""
