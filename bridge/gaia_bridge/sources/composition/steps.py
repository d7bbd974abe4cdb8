"""The steps of a composition: each rewrites an offer, and maps names back. Pure.

A step gets the offer that the steps before it left, for one era of clients. A change that it cannot make is left out
with a reason; a definition that a filter removes is not mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from re import Pattern
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from gaia_bridge.model import ArgumentTransform, LeftOut, ServerFeatures, ToolTransform, repr_without
from gaia_bridge.protocol.kinds import KINDS, Kind
from gaia_bridge.sources.functions.marks import TAGS_META_KEY
from gaia_bridge.sources.tool_transforms import TransformedCall, left_out_tool, tools_transformed
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import is_array, is_object

Predicate = Callable[[Kind, Mapping[str, Any]], bool]
"""Called with the kind and the definition; returns whether to keep it."""
MAX_TOOL_NAME: Final = 128
"""The limit of MCP 2025-11-25, server/tools, "Tool Names"."""
_WANTS: Final = "as the composition wants it"


class StepResult(Struct, frozen=True):
    """The result of one step."""

    features: ServerFeatures
    calls: Mapping[str, TransformedCall] = field(default_factory=dict[str, TransformedCall])
    """The way to call each tool that the step changed, by its new name."""
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The old names of the prompts that the step renamed, by the new ones."""


class _NamesNothing(Struct, frozen=True):
    """A step that refers to no single name: a prefix, or patterns that may fit nothing."""

    def unknown(self, names: Mapping[Kind, Collection[str]]) -> Iterable[LeftOut]:
        """Return nothing."""
        return ()


class Prefixed(_NamesNothing, frozen=True):
    """Gives tools and prompts a prefix. URIs stay as they are: they are addresses, and clients may hold them."""

    prefix: str

    def applied(self, features: ServerFeatures) -> StepResult:
        """Apply the step to an offer."""
        tools = {tool["name"]: self.prefix + tool["name"] for tool in features.tools}
        return _renamed(features, tools, {prompt["name"]: self.prefix + prompt["name"] for prompt in features.prompts})


class Renamed(Struct, frozen=True):
    """Gives single tools and prompts other names."""

    names: Mapping[str, str]
    """The new names by the old ones."""

    def applied(self, features: ServerFeatures) -> StepResult:
        """Apply the step to an offer."""
        return _renamed(features, self.names, self.names)

    def unknown(self, names: Mapping[Kind, Collection[str]]) -> Iterable[LeftOut]:
        """Yield the names of the step that no definition has."""
        for name, new in self.names.items():
            if name not in names["tool"] and name not in names["prompt"]:
                reason = f"there is no tool and no prompt of that name to be called {new!r}"
                yield LeftOut("tool", name, reason)


class WithDefaults(Struct, frozen=True):
    """Presets arguments of tools."""

    transforms: Mapping[str, ToolTransform]
    """The presets by the names of the tools."""

    def __repr__(self) -> str:
        """Omit the values: one may be secret."""
        return repr_without(self, "transforms")

    @classmethod
    def of(cls, defaults: Mapping[str, Mapping[str, Any]], *, hidden: bool) -> WithDefaults:
        """Return the step that presets these values."""
        return cls(
            {
                tool: ToolTransform(
                    arguments={name: ArgumentTransform(default=value, hidden=hidden) for name, value in values.items()}
                )
                for tool, values in defaults.items()
            }
        )

    def applied(self, features: ServerFeatures) -> StepResult:
        """Apply the step to an offer."""
        return StepResult(*tools_transformed(features, self.transforms, _WANTS))

    def unknown(self, names: Mapping[Kind, Collection[str]]) -> Iterable[LeftOut]:
        """Yield the tools of the step that are not there."""
        for name in self.transforms:
            if name not in names["tool"]:
                yield left_out_tool(name, "there is no such tool", _WANTS)


class Filtered(_NamesNothing, frozen=True):
    """Keeps some definitions, and removes the others."""

    kinds: frozenset[Kind]
    """The kinds that it filters; the others are kept."""
    allow: tuple[Pattern[str], ...] | None = None
    """Patterns; one must fit the name, or the URI."""
    deny: tuple[Pattern[str], ...] = ()
    """Patterns; none may fit."""
    tags: frozenset[str] | None = None
    """Tags; a kept definition has one of them."""
    when: Predicate | None = None

    def permits(self, kind: Kind, name: str) -> bool:
        """Return whether the patterns allow a name or a URI."""
        if kind not in self.kinds:
            return True
        allowed = self.allow is None or any(pattern.match(name) for pattern in self.allow)
        return allowed and not any(pattern.match(name) for pattern in self.deny)

    def applied(self, features: ServerFeatures) -> StepResult:
        """Apply the step to an offer."""
        lists: dict[str, Any] = {}
        pages = dict(features.pages)
        left_out: list[LeftOut] = []
        for listed in KINDS.values():
            if (kind := listed.name) in self.kinds:
                before = listed.of(features)
                kept = lists[listed.attribute] = tuple(item for item in before if self._keeps(kind, item, left_out))
                keys = {item[listed.key] for item in kept}
                if kind in pages:
                    pages[kind] = tuple(
                        replace(page, keys=tuple(key for key in page.keys if key in keys)) for page in pages[kind]
                    )
        return StepResult(replace(features, **lists, pages=pages, left_out=(*features.left_out, *left_out)))

    def _keeps(self, kind: Kind, definition: Mapping[str, Any], left_out: list[LeftOut]) -> bool:
        name: str = definition[KINDS[kind].key]
        if not self.permits(kind, name):
            return False
        if self.tags is not None and self.tags.isdisjoint(_tags_of(definition)):
            return False
        if self.when is None:
            return True
        try:
            return bool(self.when(kind, definition))
        except Exception as error:  # the predicate is foreign code, which may not expect such a definition
            reason = printable(f"it is not known whether it is wanted: {type(error).__name__}: {error}")
            left_out.append(LeftOut(kind, name, reason))
            return False


Step = Prefixed | Renamed | WithDefaults | Filtered


def _tags_of(definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tags of a definition: those of `@tool(tags=...)`, and those of FastMCP, which uses `_meta` too."""
    meta = definition.get("_meta")
    if not is_object(meta):
        return
    holders = (meta.get("fastmcp"), meta.get("_fastmcp"))
    for tags in (meta.get(TAGS_META_KEY), *(holder.get("tags") for holder in holders if is_object(holder))):
        if is_array(tags):
            yield from (tag for tag in tags if isinstance(tag, str))


def _renamed(features: ServerFeatures, tools: Mapping[str, str], prompts: Mapping[str, str]) -> StepResult:
    transforms = {
        old: ToolTransform(name=new)
        for old, new in tools.items()
        if len(new) <= MAX_TOOL_NAME or len(old) > MAX_TOOL_NAME
    }
    too_long = [
        left_out_tool(old, f"its name would have {len(new)} characters; at most {MAX_TOOL_NAME} are allowed", _WANTS)
        for old, new in tools.items()
        if old not in transforms
    ]
    if too_long:
        fitting = tuple(tool for tool in features.tools if tool["name"] in transforms or tool["name"] not in tools)
        features = replace(features, tools=fitting, left_out=(*features.left_out, *too_long))
    features, calls = tools_transformed(features, transforms, _WANTS)
    features, back = _prompts_renamed(features, prompts)
    return StepResult(features, calls, back)


def _prompts_renamed(features: ServerFeatures, names: Mapping[str, str]) -> tuple[ServerFeatures, dict[str, str]]:
    """Give prompts new names; return also the old names by the new ones."""
    taken = {
        prompt["name"] for prompt in features.prompts if names.get(prompt["name"], prompt["name"]) == prompt["name"]
    }
    prompts: list[Mapping[str, Any]] = []
    left_out: list[LeftOut] = []
    new_names: dict[str, str] = {}
    for prompt in features.prompts:
        old: str = prompt["name"]
        new = names.get(old, old)
        if new != old and new in taken:
            reason = f"it cannot be {_WANTS}: another prompt is called {new!r} already"
            left_out.append(LeftOut("prompt", old, reason))
            continue
        taken.add(new)
        new_names[old] = new
        prompts.append(prompt if new == old else {**prompt, "name": new})
    pages = dict(features.pages)
    if "prompt" in pages:
        pages["prompt"] = tuple(
            replace(page, keys=tuple(new_names[key] for key in page.keys if key in new_names))
            for page in pages["prompt"]
        )
    features = replace(features, prompts=tuple(prompts), pages=pages, left_out=(*features.left_out, *left_out))
    return features, {new: old for old, new in new_names.items() if new != old}
