"""Shows that tests notice when a promise is broken: `python -m tests.mutants`."""
