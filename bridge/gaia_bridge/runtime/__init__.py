"""Event loops, threads and processes: where code runs, and how long it may hold them."""
