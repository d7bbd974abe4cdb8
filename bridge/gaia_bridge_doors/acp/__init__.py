"""The Agent Client Protocol: an agent for editors to converse with. Loads nothing by itself."""
