"""A turn of an agent, whoever talks to it: a client of the OpenAI API, or an editor."""
