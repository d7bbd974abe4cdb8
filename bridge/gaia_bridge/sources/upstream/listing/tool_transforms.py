"""The tools of a server as its entry in the configuration wants them: those that it allows, transformed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.model import ServerFeatures, ServerOptions, repr_without
from gaia_bridge.sources.tool_transforms import TransformedCall, left_out_tool, tools_transformed
from gaia_bridge.text.json_types import JSON, is_object

_WANTS: Final = "as the configuration wants it"


class TransformedTools(Struct, frozen=True):
    """The published tools of a server, and the way to call each."""

    features: ServerFeatures
    _options: ServerOptions
    _calls: Mapping[str, TransformedCall]

    def __repr__(self) -> str:
        return repr_without(self, "_options", "_calls")

    def call(self, name: str, arguments: JSON) -> tuple[str, JSON]:
        """Map a call to the server's names of the tool and its arguments.

        Raises:
            ProtocolError: The configuration does not permit such a tool.
            ToolError: The tool is published without one of the arguments.
        """
        if (call := self._calls.get(name)) is not None:
            return call.name, call.arguments(name, arguments)
        if name in self._options.tools or not is_permitted(name, self._options):
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
        return name, arguments

    def is_transformed(self, name: str) -> bool:
        """Return whether a tool is published under another name or with other arguments, or is not permitted."""
        return name in self._calls or name in self._options.tools or not is_permitted(name, self._options)

    def beside(self, other: TransformedTools) -> TransformedTools:
        """Return the same tools, together with those published of the same server in the other era."""
        return TransformedTools(
            replace(self.features, other=other.features), self._options, {**other._calls, **self._calls}
        )

    def listed(self, tools: Iterable[Any]) -> list[JSON]:
        """Filter tools that the server lists and that are not among its features.

        Args:
            tools: The tools of a page that was not read before, unchecked.
        """
        return [
            tool
            for tool in tools
            if is_object(tool)
            and isinstance(name := tool.get("name"), str)
            and name not in self._options.tools
            and is_permitted(name, self._options)
        ]


def transformed(features: ServerFeatures, options: ServerOptions) -> TransformedTools:
    """Apply the configuration to the features of a server: its allowed tools, transformed."""
    ours = _transformed(features, options)
    return ours if features.other is None else ours.beside(_transformed(features.other, options))


def _transformed(features: ServerFeatures, options: ServerOptions) -> TransformedTools:
    allowed = permitted(features, options)
    if not options.tools:
        return TransformedTools(allowed, options, {})
    if features.tools:  # else its list is not known yet
        names = {tool["name"] for tool in features.tools}
        unknown = [
            left_out_tool(name, "the server has no such tool", _WANTS) for name in options.tools if name not in names
        ]
        allowed = replace(allowed, left_out=(*features.left_out, *unknown))
    offered, calls = tools_transformed(allowed, options.tools, _WANTS)
    return TransformedTools(offered, options, calls)


def permitted(features: ServerFeatures, options: ServerOptions) -> ServerFeatures:
    """Return the features with only the tools that the configuration allows (`allowed_tools`, `disabled_tools`)."""
    if options.allowed_tools is None and not options.disabled_tools:
        return features
    return replace(features, tools=tuple(tool for tool in features.tools if is_permitted(tool["name"], options)))


def is_permitted(tool: str, options: ServerOptions) -> bool:
    """Return whether the configuration allows a tool, by the server's name of it."""
    allowed = options.allowed_tools
    return (allowed is None or tool in allowed) and tool not in options.disabled_tools
