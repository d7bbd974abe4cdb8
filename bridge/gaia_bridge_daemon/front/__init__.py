"""`gaia-bridge connect`: a program on standard input and output, in front of one bridge for all editors of a user.

It is started for each window of each editor, so it imports only few modules, and all from the standard library.
"""
