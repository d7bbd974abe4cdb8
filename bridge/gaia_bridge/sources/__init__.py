"""What an endpoint publishes: agents of this process, and servers elsewhere. Each is a `contract.Source`."""
