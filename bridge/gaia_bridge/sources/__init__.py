"""What an endpoint publishes: agents of this process, and servers elsewhere. Each is a `contract.Source`.

What agents are made of is in `functions` and `skills`; `composition` rewrites the offer of any source.
"""
