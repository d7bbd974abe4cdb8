"""The base of agents that are offered as models of an OpenAI-compatible API."""

from __future__ import annotations

from typing import Any

from gaia.agents.base.agent import Agent

__all__ = ["ApiAgent"]


class ApiAgent(Agent):
    """Base class of agents that chat clients can choose as a model ("Multiple Inheritance Pattern")."""

    def get_model_id(self) -> str:
        """Return the model's name: by default `gaia-` and the class name in lower case without a final `Agent`."""
        name = type(self).__name__
        return f"gaia-{(name.removesuffix('Agent') or name).lower()}"

    def get_model_info(self) -> dict[str, Any]:
        """Describe the model.

        Returns:
            `max_input_tokens` and `max_output_tokens`, and a one-line `description`: by default the first line of the
            class's docstring.
        """
        documentation = (type(self).__doc__ or f"GAIA {type(self).__name__}").strip()
        return {
            "max_input_tokens": 8192,
            "max_output_tokens": 4096,
            "description": documentation.partition("\n")[0],
        }
