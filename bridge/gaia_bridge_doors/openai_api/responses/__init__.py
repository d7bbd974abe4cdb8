"""OpenAI's Responses API: the same turns as chat completions, asked and answered as lists of items."""
