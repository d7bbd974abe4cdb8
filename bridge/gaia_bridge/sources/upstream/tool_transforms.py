"""Applies the configured transforms to the tools of a server, and maps calls back to the server's own names. Pure.

A tool whose transform cannot be applied is left out, with a reason: untransformed, it might expose what was meant to be
hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, ToolError
from gaia_bridge.json_schema.validation import SchemaError, SchemaValidator, references
from gaia_bridge.model import ArgumentTransform, LeftOut, ServerFeatures, ServerOptions, ToolTransform, repr_without
from gaia_bridge.protocol.json_types import JSON, is_array, is_object
from gaia_bridge.sources.upstream.feature_lists import is_permitted, permitted

__all__ = ["TransformedTools", "transformed"]

_SPEAKS_OF_NAMES: Final = (
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "const",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "if",
    "maxProperties",
    "minProperties",
    "not",
    "oneOf",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedProperties",
)
"""Keywords of an input schema that may depend on which arguments there are, in ways that are not followed here."""

_EXAMPLES: Final = ("default", "example", "examples")
"""Keywords that hold examples of all arguments."""

_DEFINITIONS: Final = ("#/$defs/", "#/definitions/")
"""The prefixes of references that do not depend on argument names."""


class _Misfit(Exception):
    """Why a transform cannot be applied to a tool."""


class _Call(Struct, frozen=True):
    """How to call one transformed tool."""

    name: str
    """The server's name of the tool."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The server's names of renamed arguments, by their published names."""
    gone: frozenset[str] = frozenset()
    """The server's names of arguments that are hidden or renamed."""

    def __repr__(self) -> str:
        return repr_without(self, "defaults")

    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values of arguments that the client does not give, by the server's names."""

    def arguments(self, name: str, given: Mapping[str, Any]) -> JSON:
        for argument in given:
            if argument in self.gone:
                raise ToolError(f"tool {name!r} has no argument {argument!r}")
        own = {self.renamed.get(argument, argument): value for argument, value in given.items()}
        return own | {argument: value for argument, value in self.defaults.items() if argument not in own}


class TransformedTools(Struct, frozen=True):
    """The published tools of a server, and how to call them."""

    features: ServerFeatures
    _options: ServerOptions
    _calls: Mapping[str, _Call]

    def __repr__(self) -> str:
        return repr_without(self, "_options", "_calls")

    def call(self, name: str, arguments: JSON) -> tuple[str, JSON]:
        """Map a call to the server's names of the tool and its arguments.

        Args:
            name: The published name of the tool.
            arguments: The arguments of the client.

        Raises:
            ProtocolError: The configuration does not permit such a tool.
            ToolError: The tool is published without one of the arguments.
        """
        if (call := self._calls.get(name)) is not None:
            return call.name, call.arguments(name, arguments)
        if name in self._options.tools or not is_permitted(name, self._options):
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
        return name, arguments

    def beside(self, other: TransformedTools) -> TransformedTools:
        """The same, and what is published of the same server in the other era."""
        return TransformedTools(
            replace(self.features, other=other.features), self._options, {**other._calls, **self._calls}
        )

    def listed(self, tools: Iterable[Any]) -> list[JSON]:
        """Filter tools that the server lists and that are not among its features.

        Args:
            tools: As they came, of a page that was not read before.
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
    """Apply the configuration to the features of a server: its allowed tools, transformed.

    Args:
        features: Everything that the server offers.
        options: The server's own options.
    """
    ours = _transformed(features, options)
    return ours if features.other is None else ours.beside(_transformed(features.other, options))


def _transformed(features: ServerFeatures, options: ServerOptions) -> TransformedTools:
    """Apply the configuration to the features of one era."""
    allowed = permitted(features, options)
    if not options.tools:
        return TransformedTools(allowed, options, {})
    left_out: list[LeftOut] = []
    if features.tools:  # else its list is not known yet
        unknown = options.tools.keys() - {tool["name"] for tool in features.tools}
        left_out += [_left_out(name, "the server has no such tool") for name in options.tools if name in unknown]
    fitting = list(_fitting(allowed.tools, options.tools, left_out))
    taken = {tool["name"] for tool, call in fitting if call is None or tool["name"] == call.name}
    tools: list[Mapping[str, Any]] = []
    calls: dict[str, _Call] = {}
    for tool, call in fitting:
        name: str = tool["name"]
        if call is not None:
            if name != call.name and name in taken:
                left_out.append(_left_out(call.name, f"another tool is called {name!r} already"))
                continue
            taken.add(name)
            calls[name] = call
        tools.append(tool)
    renamed = {call.name: name for name, call in calls.items()}
    pages = [
        replace(page, keys=tuple(renamed.get(key, key) for key in page.keys)) for page in features.pages.get("tool", ())
    ]
    return TransformedTools(
        replace(
            allowed,
            tools=tuple(tools),
            left_out=(*features.left_out, *left_out),
            pages={**features.pages, "tool": tuple(pages)} if pages else features.pages,
        ),
        options,
        calls,
    )


def _left_out(name: str, reason: str) -> LeftOut:
    return LeftOut("tool", name, f"it cannot be as the configuration wants it: {reason}")


def _fitting(
    tools: Iterable[Mapping[str, Any]], transforms: Mapping[str, ToolTransform], left_out: list[LeftOut]
) -> Iterator[tuple[Mapping[str, Any], _Call | None]]:
    """The tools that can be published, each with how to call it if it was transformed."""
    for tool in tools:
        transform = transforms.get(tool["name"])
        if transform is None:
            yield tool, None
        elif not transform.hidden:
            try:
                yield _tool(tool, transform)
            except _Misfit as misfit:
                left_out.append(_left_out(tool["name"], str(misfit)))


def _tool(tool: Mapping[str, Any], transform: ToolTransform) -> tuple[JSON, _Call]:
    told = {"name": transform.name, "title": transform.title, "description": transform.description}
    definition = {**tool, **{key: text for key, text in told.items() if text is not None}}
    if not transform.arguments:
        return definition, _Call(tool["name"])
    schema: JSON = tool["inputSchema"]
    definition["inputSchema"] = _schema(schema, transform.arguments)
    names = {own: about.name or own for own, about in transform.arguments.items() if not about.hidden}
    shown: JSON = definition["inputSchema"]["properties"]
    return definition, _Call(
        name=tool["name"],
        renamed={name: own for own, name in names.items() if name != own},
        gone=frozenset(transform.arguments.keys() - shown.keys()),
        defaults={own: about.default for own, about in transform.arguments.items() if about.default is not None},
    )


def _name(own: str, arguments: Mapping[str, ArgumentTransform]) -> str | None:
    """What clients call an argument of the server; `None` if they do not see it."""
    about = arguments.get(own)
    if about is None:
        return own
    return None if about.hidden else about.name or own


def _schema(schema: JSON, arguments: Mapping[str, ArgumentTransform]) -> JSON:
    """The input schema for clients. It accepts exactly what the server's own schema accepts after mapping back.

    Raises:
        _Misfit: There is no such schema, or it cannot be derived.
    """
    found = schema.get("properties")
    properties: JSON = found if is_object(found) else {}
    for own in arguments:
        if own not in properties:
            raise _Misfit(f"it has no argument {own!r}")
    listed = schema.get("required")
    required = [own for own in listed if isinstance(own, str)] if is_array(listed) else []
    if any(_name(own, arguments) != own or about.default is not None for own, about in arguments.items()):
        schema = _without_examples(schema)
        _check_names(schema, required, arguments)
        _check_defaults(schema, properties, arguments)
    shown: JSON = {}
    for own, about in properties.items():
        name = _name(own, arguments)
        if name is not None:
            if name in shown or (name not in properties and name in required):
                raise _Misfit(f"two of its arguments would be called {name!r}")
            shown[name] = _argument(about, arguments.get(own))
    tailored_schema = {**schema, "properties": shown}
    if required:
        tailored_schema["required"] = [
            name
            for own in required
            if (name := _name(own, arguments)) is not None and (own not in arguments or arguments[own].default is None)
        ]
    return tailored_schema


def _argument(schema: Any, transform: ArgumentTransform | None) -> Any:
    """The schema of one argument; what it accepts stays as it is."""
    if transform is None or (transform.description is None and transform.default is None):
        return schema
    about: JSON = dict(schema) if is_object(schema) else {} if schema else {"not": {}}
    if transform.description is not None:
        about["description"] = transform.description
    if transform.default is not None:
        about.pop("default", None)  # which is not what is sent
        if not transform.secret:
            about["default"] = transform.default
    return about


def _without_examples(schema: JSON) -> JSON:
    return {key: value for key, value in schema.items() if key not in _EXAMPLES}


def _check_names(schema: JSON, required: list[str], arguments: Mapping[str, ArgumentTransform]) -> None:
    """Refuse keywords that may depend on argument names, and required arguments that are hidden without a default."""
    for keyword in _SPEAKS_OF_NAMES:
        if keyword in schema:
            raise _Misfit(f"its input schema has {keyword!r}, which may depend on the names of its arguments")
    for reference in references(schema):
        if not reference.startswith(_DEFINITIONS):
            raise _Misfit(f"its input schema refers to {reference!r}, which may depend on the names of its arguments")
    for own, about in arguments.items():
        if about.hidden and about.default is None and own in required:
            raise _Misfit(f"it requires its argument {own!r}, which is hidden without a default")


def _check_defaults(schema: JSON, properties: JSON, arguments: Mapping[str, ArgumentTransform]) -> None:
    """Refuse defaults that the server would refuse. They may be secrets, so the error does not give details."""
    kept = {key: value for key, value in schema.items() if key not in ("properties", "required")}
    for own, about in arguments.items():
        if about.default is None:
            continue
        try:
            problem = SchemaValidator({**kept, "properties": {own: properties[own]}}).errors({own: about.default})
        except SchemaError:  # then nobody can say what fits
            continue
        if problem is not None:
            raise _Misfit(f"the default of its argument {own!r} does not fit the schema of that argument")
