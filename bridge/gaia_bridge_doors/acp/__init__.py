"""The Agent Client Protocol: it lets editors converse with an agent. Loads nothing by itself."""
