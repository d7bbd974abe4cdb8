"""Examines everything that the bridge needs on this machine; reports problems, why they matter, and their remedies."""
