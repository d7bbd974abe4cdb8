"""Servers that run as child processes: their start, their streams, and their end."""
