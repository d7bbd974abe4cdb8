"""The launch of a configured program: its files, its folder, its environment, and the cause when it does not start."""
