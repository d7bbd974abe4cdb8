"""Looks at all that the bridge needs on this machine, and says what is the matter, why it matters, and what to do."""
