"""`gaia-bridge connect`: a program on standard input and output in front of a bridge that runs for all of a user's editors.

It is started for each window of each editor, so it imports the standard library alone, and little of it.
"""
