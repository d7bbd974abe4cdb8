"""Decorated functions of an object or a module, with the methods of an agent (`gaia_bridge.contract.AgentLike`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from gaia_bridge.errors import ResourceNotFoundError, ToolError
from gaia_bridge.functions.definitions import (
    FunctionPrompt,
    FunctionResource,
    FunctionTool,
    place_of,
    suggested_values,
)
from gaia_bridge.functions.marks import CompletionMark, Mark, PromptMark, ResourceMark, ToolMark, marks_of
from gaia_bridge.protocol.json_types import JSON

__all__ = [
    "NOT_CONFIRMED",
    "DecoratedFunctions",
    "ModuleFunctions",
    "decorated_functions",
    "decorated_members",
    "has_decorated_members",
]

Marked = tuple[Callable[..., Any], Mark]
"""A function, or a bound method, and one of its marks."""

_CONTEXT_PARAMETERS: Final = 2

_MADE: Final = "_mcp_decorated_functions"

NOT_CONFIRMED: Final = (
    "{} was not run: it may destroy something, and nobody confirmed it. It asks the user of a client that has the "
    "capability 'elicitation'; an agent made with confirm_destructive=False does not ask."
)
"""Said to a client whose user did not confirm what may destroy something."""

_T = TypeVar("_T", FunctionTool, FunctionPrompt, FunctionResource)


class DecoratedFunctions:
    """Decorated functions as an agent.

    It has the optional methods of an agent exactly where it has something for them: clients are told what an agent can
    do by the methods that it has.

    Args:
        functions: The functions with their marks.
        confirm: Asks a person, given its name and arguments, before a tool is used that is marked as destructive.

    Raises:
        TypeError: Two have the same name, or one cannot be published; says which, and where they are.
    """

    def __init__(
        self, functions: Iterable[Marked], confirm: Callable[[str, dict[str, Any]], bool] | None = None
    ) -> None:
        self._confirm = confirm
        self._tools: dict[str, FunctionTool] = {}
        self._prompts: dict[str, FunctionPrompt] = {}
        self._resources: dict[str, FunctionResource] = {}
        self._completions: dict[tuple[str, str], Callable[..., Any]] = {}
        for function, mark in functions:
            self._add(function, mark)
        if self._prompts:
            self.get_mcp_prompts = self._get_prompts
            self.get_mcp_prompt = self._get_prompt
        if self._resources:
            self.get_mcp_resources = self._get_resources
            self.get_mcp_resource_templates = self._get_templates
            self.read_mcp_resource = self._read_resource
        if self._completions or any(self._suggests()):
            self.complete_mcp_argument = self._complete

    @property
    def marked_tools(self) -> Iterable[tuple[FunctionTool, ToolMark]]:
        """The tools, each with what its decorator was told."""
        return [(tool, tool.mark) for tool in self._tools.values()]

    @property
    def timeouts(self) -> Mapping[str, float]:
        """Seconds for one call, of the tools that say it."""
        return {name: tool.timeout for name, tool in self._tools.items() if tool.timeout is not None}

    @property
    def places(self) -> Mapping[tuple[str, str], str]:
        """Where each definition is in the code, by its kind and name."""
        return {
            **{("tool", name): tool.place for name, tool in self._tools.items()},
            **{("prompt", name): prompt.place for name, prompt in self._prompts.items()},
            **{(_kind_of(item), uri): item.place for uri, item in self._resources.items()},
        }

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """The tools."""
        return [tool.definition for tool in self._tools.values()]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Run a tool; may return an awaitable.

        Raises:
            ValueError: The tool is unknown.
            ToolError: The arguments do not fit.
        """
        tool = self._tools.get(tool_name)
        if tool is None:
            raise ValueError(f"Unknown tool: {tool_name}")
        if tool.mark.options.get("destructive") and self._confirm is not None:
            if not self._confirm(tool_name, dict(arguments)):
                raise ToolError(NOT_CONFIRMED.format(tool_name))
        return tool(arguments)

    def _get_prompts(self) -> list[JSON]:
        return [prompt.definition for prompt in self._prompts.values()]

    def _get_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        prompt = self._prompts.get(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        return prompt(arguments)

    def _get_resources(self) -> list[JSON]:
        return [item.definition for item in self._resources.values() if not item.is_template]

    def _get_templates(self) -> list[JSON]:
        return [item.definition for item in self._resources.values() if item.is_template]

    def _read_resource(self, uri: str) -> Any:
        for item in sorted(self._resources.values(), key=lambda item: item.is_template):
            arguments = item.arguments_in(uri)
            if arguments is not None:
                return item.read(uri, arguments)
        raise ResourceNotFoundError(uri)

    def _complete(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> Any:
        name = str(ref.get("name") if ref.get("type") == "ref/prompt" else ref.get("uri"))
        function = self._completions.get((name, argument))
        if function is not None:
            takes = len(inspect.signature(function).parameters)
            return function(value, context) if takes >= _CONTEXT_PARAMETERS else function(value)
        item = self._prompts.get(name) or self._resources.get(name)
        return [] if item is None else suggested_values(item.properties, argument, value)

    def _suggests(self) -> Iterator[bool]:
        """Whether there is an argument whose values are known."""
        prompts, resources = self._prompts.values(), self._resources.values()
        for properties in (*(item.properties for item in prompts), *(item.properties for item in resources)):
            yield any(suggested_values(properties, name, "") for name in properties)

    def _add(self, function: Callable[..., Any], mark: Mark) -> None:
        match mark:
            case ToolMark():
                tool = FunctionTool(function, mark)
                _keep(self._tools, tool.name, tool, "tool")
            case PromptMark():
                prompt = FunctionPrompt(function, mark)
                _keep(self._prompts, prompt.name, prompt, "prompt")
            case ResourceMark():
                _keep(self._resources, mark.uri, FunctionResource(function, mark), "resource")
            case CompletionMark():
                key = (mark.of, mark.argument)
                if key in self._completions:
                    places = f"{place_of(self._completions[key])} and {place_of(function)}"
                    raise TypeError(f"two functions complete {mark.argument!r} of {mark.of!r}: {places}")
                self._completions[key] = function


class ModuleFunctions(DecoratedFunctions):
    """The decorated functions of a module, or a single function, as an agent of its name.

    Args:
        owner: The module or the function.

    Raises:
        TypeError: As for `DecoratedFunctions`.
    """

    def __init__(self, owner: ModuleType | Callable[..., Any]) -> None:
        super().__init__(decorated_members(owner))
        self.name = _name_of(owner)
        self._documentation = inspect.getdoc(owner) or "" if isinstance(owner, ModuleType) else ""

    def get_mcp_server_info(self) -> JSON:
        """The module's name and docstring."""
        info: JSON = {"name": self.name, "version": "1.0.0"}
        return {**info, "instructions": self._documentation} if self._documentation else info


def _name_of(owner: ModuleType | Callable[..., Any]) -> str:
    """The last part of its name; that of its file, of the program that runs."""
    file = getattr(owner, "__file__", None)
    if owner.__name__ == "__main__" and isinstance(file, str):
        return Path(file).stem
    return owner.__name__.rpartition(".")[2]


def decorated_functions(owner: object) -> DecoratedFunctions | None:
    """The decorated members of an object or module, made once; `None` if it has none.

    Raises:
        TypeError: As for `DecoratedFunctions`.
    """
    attributes: dict[str, Any] = getattr(owner, "__dict__", {})
    known = attributes.get(_MADE)
    if isinstance(known, DecoratedFunctions):
        return known
    members = decorated_members(owner)
    if not members:
        return None
    made = DecoratedFunctions(members, getattr(owner, "confirm_mcp_tool", None))
    with suppress(AttributeError, TypeError):  # an object that takes no attributes
        setattr(owner, _MADE, made)
    return made


def decorated_members(owner: object) -> list[Marked]:
    """The decorated functions that a module defines itself, or the decorated methods of an object, bound to it.

    A method that a subclass overrides stays what it was decorated as.

    Args:
        owner: A module, an object, or a decorated function itself.
    """
    if isinstance(owner, ModuleType):
        own = [value for value in vars(owner).values() if getattr(value, "__module__", None) == owner.__name__]
        functions = {id(value): value for value in own if inspect.isroutine(value)}
        return [(function, mark) for function in functions.values() for mark in marks_of(function)]
    if marks := marks_of(owner):
        assert callable(owner)
        return [(owner, mark) for mark in marks]
    return [(getattr(owner, name), mark) for name, marks in _marked_names(type(owner)).items() for mark in marks]


def has_decorated_members(owner: object) -> bool:
    """Whether `decorated_members` finds any; of a class, whether it does of its instances."""
    if inspect.isclass(owner):
        return bool(_marked_names(owner))
    return bool(decorated_members(owner))


def _marked_names(cls: type) -> dict[str, tuple[Mark, ...]]:
    """The names of decorated methods with their marks, base classes first."""
    found: dict[str, tuple[Mark, ...]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            function: Any = getattr(value, "__func__", value)  # of a static method, or of a class
            if marks := marks_of(function):
                found[name] = marks
            elif name in found and not callable(function):
                del found[name]  # a subclass has made something else of it, as `name = None`
    return found


def _keep(known: dict[str, _T], name: str, item: _T, kind: str) -> None:
    if name in known:
        raise TypeError(f"{kind} {name!r} is defined twice: by {known[name].place} and by {item.place}")
    known[name] = item


def _kind_of(item: FunctionResource) -> str:
    return "resource template" if item.is_template else "resource"
