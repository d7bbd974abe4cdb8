"""Text of others made fit for a log, a terminal and a status: harmless, and without secrets."""
