"""The sources that an endpoint publishes: agents of this process, and servers elsewhere. Each is a `contract.Source`.

`functions` and `skills` hold the parts of agents; `composition` rewrites the offer of any source.
"""
