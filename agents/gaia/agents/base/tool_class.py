"""Tools as objects, for what a decorated function cannot say ("Tool Wrapping")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gaia.agents.base.tool_schema import flat_parameters
from gaia.agents.base.tools import ToolEntry
from gaia.environment import setting
from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import JSON

if TYPE_CHECKING:
    from gaia_bridge.json_schema.validation import SchemaValidator

__all__ = ["Tool", "validated"]


class Tool:
    """A tool that an agent is given: `Agent(tools=[WeatherTool()])`. Subclasses override `call`.

    Args:
        name: What the model calls it: at most 64 characters of `[A-Za-z0-9_-]`.
        description: What it does, for the model.
        params: The JSON Schema of its arguments, an object schema; none if not given.
        annotations: MCP's hints on what it does, such as `{"destructiveHint": True}`.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        params: JSON | None = None,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.parameters: JSON = {"type": "object", "properties": {}} if params is None else params
        self.annotations = dict(annotations or {})

    def call(self, /, **kwargs: Any) -> Any:
        """Do the work; may be a coroutine function. A plain one runs in a thread and may block.

        Args:
            **kwargs: The model's arguments.

        Returns:
            Text, or anything that JSON can carry.
        """
        raise NotImplementedError(f"{type(self).__name__} has to override call()")

    def construct_schema(self, provider: str | None = None) -> JSON:
        """Return the tool in the form that a provider of language models expects ("Tool Registration").

        Args:
            provider: `openai` (the flat form of the Responses API), `ollama` (the nested one of chat completions,
                which most servers speak), `anthropic` or `gemini`; if not given, the setting `PROVIDER` says so, in
                the environment or in `.env`, else it is `openai`.

        Returns:
            The declaration. For `openai` it is strict exactly if the parameters are closed at the top and everything
            in them is required; a schema that is closed but cannot be strict is sent open.

        Raises:
            ValueError: There is no such provider.
        """
        from gaia.llm.dialects import declaration, provider_named

        key = provider_named(provider or setting("PROVIDER") or "openai")
        return declaration(key, self.name, self.description, self.parameters_for(key))

    def parameters_for(self, provider: str) -> JSON:
        """Return the parameters in a provider's dialect of JSON Schema.

        Args:
            provider: `openai`, `ollama`, `anthropic` or `gemini`.
        """
        from gaia.llm.dialects import converted

        return converted(self.parameters, provider, close=self.parameters.get("additionalProperties") is False)

    def entry(self) -> ToolEntry:
        """Return the tool as a registry entry."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": flat_parameters(self.parameters),
            "inputSchema": self.parameters,
            "annotations": self.annotations,
            "function": validated(self.call, self.name, self.parameters),
            "atomic": True,
        }


def validated(function: Callable[..., Any], name: str, schema: JSON) -> Callable[..., Any]:
    """Wrap a tool's function so that it sees only arguments that fit its schema.

    Args:
        function: Takes named arguments.
        name: The tool, for messages.
        schema: The JSON Schema of the arguments; compiled with the first call.

    Returns:
        A function that raises `ToolError`, saying what does not fit, before the other is called.
    """
    compiled: list[SchemaValidator] = []

    def checked(**arguments: Any) -> Any:
        if not compiled:
            from gaia_bridge.json_schema.validation import SchemaValidator

            compiled.append(SchemaValidator(schema))
        if problems := compiled[0].errors(arguments):
            raise ToolError(f"The arguments do not fit the input schema of tool '{name}':\n{problems}")
        return function(**arguments)

    return checked
