"""The bridge in the background of a user, and the small program that editors start in front of it."""
