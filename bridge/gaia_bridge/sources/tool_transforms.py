"""Applies transforms to the tools of a source, and maps calls back to the source's own names. Pure.

A tool whose transform cannot be applied is left out, with a reason: untransformed, it might expose what was meant to be
hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from gaia_bridge.errors import ToolError
from gaia_bridge.json_schema.parts import SchemaError, references
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.model import ArgumentTransform, LeftOut, ServerFeatures, ToolTransform, repr_without
from gaia_bridge.text.json_types import JSON, is_array, is_object

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
"""Keywords of an input schema that may depend on which arguments there are, in ways that are not followed."""
_EXAMPLES: Final = ("default", "example", "examples")
"""Keywords that hold examples of all arguments."""
_DEFINITIONS: Final = ("#/$defs/", "#/definitions/")
"""The prefixes of references that do not depend on argument names."""


class _Misfit(Exception):
    """The reason why a transform cannot be applied to a tool."""


class TransformedCall(Struct, frozen=True):
    """The way to call one transformed tool."""

    name: str
    """The source's name of the tool."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The source's names of renamed arguments, by their published names."""
    gone: frozenset[str] = frozenset()
    """The source's names of arguments that are hidden or renamed."""

    def __repr__(self) -> str:
        return repr_without(self, "defaults")

    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values of arguments that the client omits, by the source's names."""

    def arguments(self, name: str, given: Mapping[str, Any]) -> JSON:
        """Map the arguments of a call to the source's names, and add the defaults.

        Raises:
            ToolError: The tool is published without one of the arguments.
        """
        for argument in given:
            if argument in self.gone:
                raise ToolError(f"tool {name!r} has no argument {argument!r}")
        own = {self.renamed.get(argument, argument): value for argument, value in given.items()}
        return own | {argument: value for argument, value in self.defaults.items() if argument not in own}


def tools_transformed(
    features: ServerFeatures, transforms: Mapping[str, ToolTransform], wants: str
) -> tuple[ServerFeatures, Mapping[str, TransformedCall]]:
    """Apply transforms to the tools of a source, as it lists them in one era.

    Args:
        features: The definitions of the source. Tools without a transform stay as they are.
        transforms: By the source's names of the tools.
        wants: The party that wants the transforms, for the reasons of tools left out: `as the configuration wants it`.

    Returns:
        The transformed definitions, and for each transformed tool, by its new name, the way to call it.
    """
    left_out: list[LeftOut] = []
    fitting = list(_fitting(features.tools, transforms, left_out, wants))
    taken = {tool["name"] for tool, call in fitting if call is None or tool["name"] == call.name}
    tools: list[Mapping[str, Any]] = []
    calls: dict[str, TransformedCall] = {}
    for tool, call in fitting:
        name: str = tool["name"]
        if call is not None:
            if name != call.name and name in taken:
                left_out.append(left_out_tool(call.name, f"another tool is called {name!r} already", wants))
                continue
            taken.add(name)
            calls[name] = call
        tools.append(tool)
    renamed = {call.name: name for name, call in calls.items()}
    pages = [
        replace(page, keys=tuple(renamed.get(key, key) for key in page.keys if key in renamed or key not in transforms))
        for page in features.pages.get("tool", ())
    ]
    offered = replace(
        features,
        tools=tuple(tools),
        left_out=(*features.left_out, *left_out),
        pages={**features.pages, "tool": tuple(pages)} if pages else features.pages,
    )
    return offered, calls


def left_out_tool(name: str, reason: str, wants: str) -> LeftOut:
    """Return the note that a tool is not published because its transform cannot be applied."""
    return LeftOut("tool", name, f"it cannot be {wants}: {reason}")


def _fitting(
    tools: Iterable[Mapping[str, Any]], transforms: Mapping[str, ToolTransform], left_out: list[LeftOut], wants: str
) -> Iterator[tuple[Mapping[str, Any], TransformedCall | None]]:
    """Yield the tools that can be published, each with the way to call it if it was transformed."""
    for tool in tools:
        transform = transforms.get(tool["name"])
        if transform is None:
            yield tool, None
        elif not transform.hidden:
            try:
                yield _tool(tool, transform)
            except _Misfit as misfit:
                left_out.append(left_out_tool(tool["name"], str(misfit), wants))


def _tool(tool: Mapping[str, Any], transform: ToolTransform) -> tuple[JSON, TransformedCall]:
    texts = {"name": transform.name, "title": transform.title, "description": transform.description}
    definition = {**tool, **{key: text for key, text in texts.items() if text is not None}}
    if not transform.arguments:
        return definition, TransformedCall(tool["name"])
    schema: JSON = tool["inputSchema"]
    definition["inputSchema"] = _schema(schema, transform.arguments)
    names = {own: about.name or own for own, about in transform.arguments.items() if not about.hidden}
    shown: JSON = definition["inputSchema"]["properties"]
    return definition, TransformedCall(
        name=tool["name"],
        renamed={name: own for own, name in names.items() if name != own},
        gone=frozenset(transform.arguments.keys() - shown.keys()),
        defaults={own: about.default for own, about in transform.arguments.items() if about.default is not None},
    )


def _name(own: str, arguments: Mapping[str, ArgumentTransform]) -> str | None:
    """Return the clients' name of an argument of the server; `None` if they do not see the argument."""
    about = arguments.get(own)
    if about is None:
        return own
    return None if about.hidden else about.name or own


def _schema(schema: JSON, arguments: Mapping[str, ArgumentTransform]) -> JSON:
    """Return the input schema for clients, which accepts exactly what the server's own accepts after mapping back."""
    properties: JSON = held if is_object(held := schema.get("properties")) else {}
    for own in arguments:
        if own not in properties:
            raise _Misfit(f"it has no argument {own!r}")
    listed = schema.get("required")
    required = [own for own in listed if isinstance(own, str)] if is_array(listed) else []
    if any(_name(own, arguments) != own or about.default is not None for own, about in arguments.items()):
        schema = {key: value for key, value in schema.items() if key not in _EXAMPLES}
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
    """Return the schema of one argument for clients; it accepts the same values as before."""
    if transform is None or (transform.description is None and transform.default is None):
        return schema
    about: JSON = dict(schema) if is_object(schema) else {} if schema else {"not": {}}
    if transform.description is not None:
        about["description"] = transform.description
    if transform.default is not None:
        # The source's own default is not the value that is sent.
        about.pop("default", None)
        if not transform.secret:
            about["default"] = transform.default
    return about


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
            judge = SchemaValidator.tolerant({**kept, "properties": {own: properties[own]}})
        except SchemaError:  # it cannot be judged: the server decides
            continue
        if judge.errors({own: about.default}) is not None:
            raise _Misfit(f"the default of its argument {own!r} does not fit the schema of that argument")
