"""JSON as types and as bytes; text of others made fit for a log, a terminal and a status: harmless, without secrets."""
