"""The mutations, one module for each part of the bridge."""
