"""Entries of servers as a person judges them: their launch lines, and doubts about entries that others wrote."""
