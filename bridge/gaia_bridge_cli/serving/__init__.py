"""`serve` and `dev`: which agents are published, how it runs, and what people see of it."""
