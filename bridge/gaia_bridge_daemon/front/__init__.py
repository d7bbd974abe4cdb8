"""`gaia-bridge connect`: a program on standard input and output, in front of one bridge for all editors of a user.

It is started for each window of each editor, so it imports the standard library alone, and little of it.
"""
