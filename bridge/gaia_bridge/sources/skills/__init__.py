"""Skills as folders of files: how they are found, read safely, described, and verified by whoever reads them."""
