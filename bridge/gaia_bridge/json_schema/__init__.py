"""JSON Schema: compiled validators, what they may cost, and error texts that a model can act on."""
