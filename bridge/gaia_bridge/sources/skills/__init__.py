"""Skills as folders of files: found, read safely, described, and verified by their readers."""
