"""The description of a composed source: a target, and the steps that rewrite its offer. It does nothing by itself."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from gaia_bridge.protocol.kinds import KINDS, Kind
from gaia_bridge.sources.composition.steps import (
    MAX_TOOL_NAME,
    Filtered,
    Predicate,
    Prefixed,
    Renamed,
    Step,
    WithDefaults,
)
from gaia_bridge.text.json_text import from_json, to_json

_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_TOOL_NAME}}}")
_EXPECTED: Final = f"1 to {MAX_TOOL_NAME} of A-Z a-z 0-9 _ . -"


class Composition(Struct, frozen=True, eq=False):
    """A source, and the steps that rewrite its offer. Made by `source`, and added by `Bridge.add`.

    Each method returns a new description with one step more. Steps apply in the order in which they are written, and
    each sees the names that those before it gave.
    """

    target: object
    """The agent, the server object of an MCP library, or the entry of a server."""
    name: str | None = None
    """The name under which the source is published; the target's own name if `None`."""
    steps: tuple[Step, ...] = ()

    def prefixed(self, prefix: str) -> Composition:
        """Put a prefix before the names of tools and prompts. Resources keep their URIs, which are addresses.

        Args:
            prefix: The text to begin the names with, such as `weather_`.

        Raises:
            ValueError: No name can begin with it.
        """
        if not _is_name(prefix):
            raise ValueError(f"the prefix is {prefix!r}; expected {_EXPECTED}")
        return self._with(Prefixed(prefix))

    def filtered(
        self,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        *,
        kinds: Collection[Kind] | None = None,
        tags: Collection[str] | None = None,
        when: Predicate | None = None,
    ) -> Composition:
        """Keep the definitions that fit all given conditions. The others are neither listed nor called nor read.

        Args:
            allow: Patterns; one must fit the name, or the URI of a resource or template. `*` is any
                text, `?` any character, `[ab]` one of some; case matters.
            deny: Patterns; none may fit the name or URI.
            kinds: The kinds to filter, of `tool`, `prompt`, `resource`, `resource template` and `skill`; all if `None`.
                Other kinds are kept.
            tags: Tags; the definition must have one: of `@tool(tags=...)`, or of FastMCP.
            when: Gets the kind and the definition as they are at this step; returns whether to keep it. Called on the
                event loop whenever the source changes: it must be quick, and always answer the same for the same.

        Raises:
            ValueError: No condition is given, or there is no such kind.
            TypeError: A single text came where several are expected.
        """
        if allow is None and deny is None and tags is None and when is None:
            raise ValueError("the filter would keep everything; expected one of allow, deny, tags and when")
        looked_at = KINDS.keys() if kinds is None else _texts("kinds", kinds)
        for kind in looked_at:
            if kind not in KINDS:
                raise ValueError(f"there is no kind {kind!r}; expected some of: {', '.join(KINDS)}")
        return self._with(
            Filtered(
                kinds=frozenset(cast("Iterable[Kind]", looked_at)),
                allow=None if allow is None else _patterns("allow", allow),
                deny=() if deny is None else _patterns("deny", deny),
                tags=None if tags is None else frozenset(_texts("tags", tags)),
                when=when,
            )
        )

    def renamed(self, names: Mapping[str, str]) -> Composition:
        """Give single tools and prompts other names. A name that is missing, or whose new name is taken, is left out.

        Args:
            names: The new names by the names that the earlier steps left.

        Raises:
            ValueError: A new name is no valid name of a tool.
        """
        for old, new in names.items():
            if not _is_name(new):
                raise ValueError(f"the new name of {old!r} is {new!r}; expected {_EXPECTED}")
        return self._with(Renamed(dict(names)))

    def with_defaults(self, defaults: Mapping[str, Mapping[str, Any]], *, hidden: bool = False) -> Composition:
        """Preset arguments of tools: the values are sent where the client gives none.

        Args:
            defaults: The values by tool and argument; JSON, and not `None`.
            hidden: Whether clients neither see nor give these arguments.

        Raises:
            ValueError: A value cannot be a default.
        """
        own: dict[str, dict[str, Any]] = {}
        for tool, values in defaults.items():
            own[tool] = {name: _as_json(value) for name, value in values.items()}
            for argument, value in own[tool].items():
                if value is None:
                    raise ValueError(
                        f"the default of argument {argument!r} of tool {tool!r} is of type "
                        f"{type(values[argument]).__name__}; expected a JSON value that is not null"
                    )
        return self._with(WithDefaults.of(own, hidden=hidden))

    def _with(self, step: Step) -> Composition:
        return Composition(self.target, self.name, (*self.steps, step))


def source(target: object, name: str | None = None) -> Composition:
    """Describe a source, to compose it and then add it to a bridge.

    Args:
        target: An agent, a server object of an MCP library, the entry of a server (`StdioServerSpec` and the others),
            or another description, to which further steps are added.
        name: The name under which the source is published; derived from the target if not given.

    Returns:
        The description, to which its methods add steps. `Bridge.add` raises if it cannot be used.
    """
    if isinstance(target, Composition):
        return Composition(target.target, name or target.name, target.steps)
    return Composition(target, name)


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _as_json(value: object) -> Any:
    """Return a copy of a value as clients would send it; `None` if it cannot be sent."""
    try:
        return from_json(to_json(value))
    except (TypeError, ValueError, RecursionError):
        return None


def _texts(argument: str, given: Iterable[object]) -> tuple[str, ...]:
    texts = () if isinstance(given, str) else tuple(given)
    valid = tuple(text for text in texts if isinstance(text, str))
    if isinstance(given, str) or len(valid) < len(texts):
        raise TypeError(f"{argument} is {given!r}; expected several texts, such as a list of them")
    return valid


def _patterns(argument: str, given: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(fnmatch.translate(text)) for text in _texts(argument, given))
