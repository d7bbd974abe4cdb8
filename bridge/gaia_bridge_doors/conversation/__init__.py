"""A turn of an agent, for any client: one of the OpenAI API, or an editor."""
