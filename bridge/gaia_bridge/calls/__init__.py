"""Calls in flight, in both directions: what each has beside its arguments, and what comes back.

Its context, its questions, its progress, its cancellation and its line in the log; the results of agents are in
`results`, and `bridge_hops` and `process_ancestry` keep a bridge from publishing itself.
"""
