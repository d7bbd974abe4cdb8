"""The definitions of decorated functions, by kind and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, TypeVar

from msgspec import Struct

from gaia_bridge.sources.functions.definitions import FunctionPrompt, FunctionResource, FunctionTool, suggested_values
from gaia_bridge.sources.functions.marks import CompletionMark, Mark, PromptMark, ResourceMark, ToolMark
from gaia_bridge.sources.functions.signatures import place_of

Marked = tuple[Callable[..., Any], Mark]
"""A function, or a bound method, and one of its marks."""
_T = TypeVar("_T", FunctionTool, FunctionPrompt, FunctionResource)


class DefinitionTable:
    """Definitions by kind and name. Methods among them may be stored without their object (`unbound`)."""

    def __init__(self) -> None:
        self.tools: dict[str, FunctionTool] = {}
        self.prompts: dict[str, FunctionPrompt] = {}
        self.resources: dict[str, FunctionResource] = {}
        self.completions: dict[tuple[str, str], Callable[..., Any]] = {}
        self.completes = False

    @property
    def is_empty(self) -> bool:
        """Whether the table has no definitions."""
        return not (self.tools or self.prompts or self.resources or self.completions)

    @classmethod
    def of(cls, functions: Iterable[Marked]) -> DefinitionTable:
        """Return the table of the definitions of marked functions.

        Raises:
            TypeError: Two have the same name, or one cannot be published.
        """
        made = cls()
        for function, mark in functions:
            made._add(function, mark)
        made.completes = bool(made.completions) or made._suggests()
        return made

    def unbound(self, owner: object) -> DefinitionTable:
        """Return a copy without the object whose methods it holds, which can keep it without a reference cycle."""
        made = DefinitionTable()
        made.tools = {name: tool.unbound(owner) for name, tool in self.tools.items()}
        made.prompts = {name: prompt.unbound(owner) for name, prompt in self.prompts.items()}
        made.resources = {uri: item.unbound(owner) for uri, item in self.resources.items()}
        made.completions = {
            key: UnboundCompletion(function.__func__)
            if isinstance(function, MethodType) and function.__self__ is owner
            else function
            for key, function in self.completions.items()
        }
        made.completes = self.completes
        return made

    def __deepcopy__(self, memo: object) -> DefinitionTable:
        return self  # a copy of its object is bound when it is asked

    def __reduce__(self) -> tuple[Any, ...]:
        return (DefinitionTable, ())  # an object that was pickled finds out anew; see `decorated_functions`

    def _suggests(self) -> bool:
        """Return whether an argument has a known set of values, such as a `Literal`."""
        arguments = [
            *(it.properties for it in self.prompts.values()),
            *(it.properties for it in self.resources.values()),
        ]
        return any(suggested_values(properties, name, "") for properties in arguments for name in properties)

    def _add(self, function: Callable[..., Any], mark: Mark) -> None:
        match mark:
            case ToolMark():
                tool = FunctionTool(function, mark)
                _keep(self.tools, tool.name, tool, "tool")
            case PromptMark():
                prompt = FunctionPrompt(function, mark)
                _keep(self.prompts, prompt.name, prompt, "prompt")
            case ResourceMark():
                _keep(self.resources, mark.uri, FunctionResource(function, mark), "resource")
            case CompletionMark():
                key = (mark.of, mark.argument)
                if key in self.completions:
                    places = f"{place_of(self.completions[key])} and {place_of(function)}"
                    raise TypeError(f"two functions complete {mark.argument!r} of {mark.of!r}: {places}")
                self.completions[key] = function


class UnboundCompletion(Struct, frozen=True):
    """A method that suggests values, stored without its object."""

    function: Callable[..., Any]

    def __call__(self, *_: Any) -> Any:
        raise TypeError("a method without its object")


def _keep(existing: dict[str, _T], name: str, item: _T, kind: str) -> None:
    if name in existing:
        raise TypeError(f"{kind} {name!r} is defined twice: by {existing[name].place} and by {item.place}")
    existing[name] = item
