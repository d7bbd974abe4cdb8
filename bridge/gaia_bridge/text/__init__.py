"""JSON as types and as bytes; text of others made harmless and free of secrets for a log, a terminal and a status."""
