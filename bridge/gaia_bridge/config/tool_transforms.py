"""The `tools` of an entry, which publish a server's tools and arguments under other names, or hide them.

    {"tools": {"create_issue": {"name": "report", "arguments": {"repo": {"hidden": true, "default": "our/project"}}}}}

Keys are the names at the server. Whether a server has such tools is checked when it is connected; here, only the form
is. References are filled in where values are: in `default`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Final

from gaia_bridge.config.expansion import Expander, has_reference
from gaia_bridge.config.problems import EntryError
from gaia_bridge.config.values import Values
from gaia_bridge.model import ArgumentTransform, ToolTransform
from gaia_bridge.text.json_types import JSON, is_object

TOOL_KEYS: Final = frozenset({"arguments", "description", "hidden", "name", "title"})
"""The keys of a tool."""

ARGUMENT_KEYS: Final = frozenset({"default", "description", "hidden", "name"})
"""The keys of an argument."""

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""The names that MCP 2025-11-25 allows (server/tools, "Tool Names")."""

_DEEPEST: Final = 32
"""The most levels of nesting in a default."""


def tool_tailorings(values: Values, expander: Expander) -> dict[str, ToolTransform]:
    """Return the transforms of a server's tools.

    Args:
        values: The values of its entry.
        expander: The expander for references; its `secrets` are then the values of those in `tools`.

    Raises:
        EntryError: A transform cannot be used; the message says why, and shows no value.
    """
    return {name: _tool(section, expander) for name, section in values.sections("tools").items()}


def tailored_sections(entry: JSON) -> Iterator[tuple[str, JSON, Set[str]]]:
    """Yield the objects in the `tools` of an entry, to check their keys: place, object, allowed keys."""
    for tool, transform in _objects(entry.get("tools")):
        yield f"tools.{tool}", transform, TOOL_KEYS
        for argument, about in _objects(transform.get("arguments")):
            yield f"tools.{tool}.arguments.{argument}", about, ARGUMENT_KEYS


def default_values(entry: JSON) -> Iterator[tuple[str, object]]:
    """Yield the defaults in the `tools` of an entry, with the names of their arguments."""
    for _, transform in _objects(entry.get("tools")):
        yield from ((argument, about.get("default")) for argument, about in _objects(transform.get("arguments")))


def _objects(table: object) -> Iterator[tuple[str, JSON]]:
    if is_object(table):
        yield from ((name, item) for name, item in table.items() if is_object(item))


def _tool(values: Values, expander: Expander) -> ToolTransform:
    name = values.text("name")
    if name is not None and not _TOOL_NAME.fullmatch(name):
        raise EntryError(f"{values.place('name')} cannot name a tool; expected 1 to 128 of A-Z a-z 0-9 _ . -")
    arguments = values.sections("arguments")
    return ToolTransform(
        name=name,
        title=values.text("title"),
        description=values.text("description"),
        hidden=values.flag("hidden", False),
        arguments={own: _argument(section, expander) for own, section in arguments.items()},
    )


def _argument(values: Values, expander: Expander) -> ArgumentTransform:
    name, default = values.text("name"), values.anything("default")
    if name is not None and not name.strip():
        raise EntryError(f"{values.place('name')} is empty; expected the name of an argument")
    if _is_deep(default):
        raise EntryError(f"{values.place('default')} is nested deeper than {_DEEPEST} levels")
    return ArgumentTransform(
        name=name,
        description=values.text("description"),
        default=expander.value(values.place("default"), default),
        secret=has_reference(default),
        hidden=values.flag("hidden", False),
    )


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [
            inner
            for item in level
            for inner in (item.values() if is_object(item) else item if isinstance(item, list) else ())
        ]
    return bool(level)
