"""The ways to reach an upstream server; each is a `gaia_bridge.client.transport.Transport`."""
