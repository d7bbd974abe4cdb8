"""JSON Schema: compiled validators, bounds of their cost, and error texts that a model can act on."""
