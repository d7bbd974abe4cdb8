"""Agents as models of an OpenAI-compatible API: `/v1/models` and `/v1/chat/completions`."""
