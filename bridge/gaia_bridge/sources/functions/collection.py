"""Decorated functions of an object or a module, with the methods of an agent (`gaia_bridge.contract.AgentLike`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any, Final

from gaia_bridge.errors import ResourceNotFoundError, ToolError
from gaia_bridge.sources.functions.definitions import (
    DefinitionTable,
    FunctionTool,
    Marked,
    UnboundCompletion,
    suggested_values,
)
from gaia_bridge.sources.functions.marks import Mark, ToolMark, is_marked, mark_as_of_its_module, marks_of
from gaia_bridge.sources.functions.signatures import name_of
from gaia_bridge.text.json_types import JSON

_CONTEXT_PARAMETERS: Final = 2
_MADE: Final = "_mcp_decorated_functions"
NOT_CONFIRMED: Final = (
    "{} was not run: it may destroy something, and nobody confirmed it. It asks the user of a client that has the "
    "capability 'elicitation'; an agent made with confirm_destructive=False does not ask."
)
"""The message for a client whose user did not confirm a destructive tool."""


class _Answering:
    """A table together with the object whose methods it holds."""

    def __init__(self, table: DefinitionTable, owner: object) -> None:
        self.table = table
        self.owner = owner

    def get_prompts(self) -> list[JSON]:
        return [prompt.definition for prompt in self.table.prompts.values()]

    def get_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        prompt = self.table.prompts.get(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        return prompt.bound(self.owner)(arguments)

    def get_resources(self) -> list[JSON]:
        return [item.definition for item in self.table.resources.values() if not item.is_template]

    def get_templates(self) -> list[JSON]:
        return [item.definition for item in self.table.resources.values() if item.is_template]

    def read_resource(self, uri: str) -> Any:
        for item in sorted(self.table.resources.values(), key=lambda item: item.is_template):
            arguments = item.arguments_in(uri)
            if arguments is not None:
                return item.bound(self.owner).read(uri, arguments)
        raise ResourceNotFoundError(uri)

    def complete(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> Any:
        name = str(ref.get("name") if ref.get("type") == "ref/prompt" else ref.get("uri"))
        function = self.table.completions.get((name, argument))
        if isinstance(function, UnboundCompletion):
            function = MethodType(function.function, self.owner)
        if function is not None:
            takes = len(inspect.signature(function).parameters)
            return function(value, context) if takes >= _CONTEXT_PARAMETERS else function(value)
        item = self.table.prompts.get(name) or self.table.resources.get(name)
        return [] if item is None else suggested_values(item.properties, argument, value)


class DecoratedFunctions:
    """Decorated functions with the methods of an agent.

    An optional method of an agent exists exactly where there is something for it: the capabilities that clients see
    follow from the methods that exist.

    Args:
        functions: The functions with their marks, or the table that was made of them before.
        confirm: Asks a person, given a tool's name and arguments, before a tool runs that is marked as destructive.
        owner: The object whose methods they are, if the table holds them without it.

    Raises:
        TypeError: Two have the same name, or one cannot be published; the message names them and their places.
    """

    def __init__(
        self,
        functions: Iterable[Marked] | DefinitionTable,
        confirm: Callable[[str, dict[str, Any]], bool] | None = None,
        owner: object = None,
    ) -> None:
        self._confirm = confirm
        self._table = table = functions if isinstance(functions, DefinitionTable) else DefinitionTable.of(functions)
        self._owner = owner
        # Not methods of this object itself, which would be a reference cycle.
        answering = _Answering(table, owner)
        if table.prompts:
            self.get_mcp_prompts = answering.get_prompts
            self.get_mcp_prompt = answering.get_prompt
        if table.resources:
            self.get_mcp_resources = answering.get_resources
            self.get_mcp_resource_templates = answering.get_templates
            self.read_mcp_resource = answering.read_resource
        if table.completes:
            self.complete_mcp_argument = answering.complete

    @property
    def marked_tools(self) -> Iterable[tuple[FunctionTool, ToolMark]]:
        """The tools, each with its decorator's options."""
        return [(tool.bound(self._owner), tool.mark) for tool in self._table.tools.values()]

    @property
    def timeouts(self) -> Mapping[str, float]:
        """Seconds for one call, of the tools that state them."""
        return {name: tool.timeout for name, tool in self._table.tools.items() if tool.timeout is not None}

    @property
    def places(self) -> Mapping[tuple[str, str], str]:
        """The place of each definition in the code, by its kind and name."""
        return {
            **{("tool", name): tool.place for name, tool in self._table.tools.items()},
            **{("prompt", name): prompt.place for name, prompt in self._table.prompts.items()},
            **{
                ("resource template" if item.is_template else "resource", uri): item.place
                for uri, item in self._table.resources.items()
            },
        }

    def unbound(self, owner: object) -> DefinitionTable:
        """Return the table of an object's methods without the object, to be kept by it."""
        return self._table.unbound(owner)

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """Return the definitions of the tools."""
        return [tool.definition for tool in self._table.tools.values()]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Run a tool; the result may be an awaitable.

        Raises:
            ValueError: The tool is unknown.
            ToolError: The arguments do not fit, or nobody confirmed a destructive tool.
        """
        tool = self._table.tools.get(tool_name)
        if tool is None:
            raise ValueError(f"Unknown tool: {tool_name}")
        if tool.mark.options.get("destructive") and self._confirm is not None:
            if not self._confirm(tool_name, dict(arguments)):
                raise ToolError(NOT_CONFIRMED.format(tool_name))
        return tool.bound(self._owner)(arguments)


class ModuleFunctions(DecoratedFunctions):
    """The decorated functions of a module, or a single function, as an agent of that name.

    Raises:
        TypeError: As for `DecoratedFunctions`.
    """

    def __init__(self, owner: ModuleType | Callable[..., Any]) -> None:
        members = decorated_members(owner)
        super().__init__(members)
        for function, _ in members:
            mark_as_of_its_module(function)
        self.name = _name_of(owner)
        names: Mapping[str, Any] = vars(owner) if isinstance(owner, ModuleType) else getattr(owner, "__globals__", {})
        self.source_file: str | None = names.get("__file__")
        self.mcp_skills: object = names.get("mcp_skills")
        self._documentation = inspect.getdoc(owner) or "" if isinstance(owner, ModuleType) else ""

    def get_mcp_server_info(self) -> JSON:
        """Return the module's name and docstring."""
        info: JSON = {"name": self.name, "version": "1.0.0"}
        return {**info, "instructions": self._documentation} if self._documentation else info


def _name_of(owner: ModuleType | Callable[..., Any]) -> str:
    """Return the last part of a module's or function's name; for the program that runs, the name of its file."""
    file = getattr(owner, "__file__", None)
    if isinstance(owner, ModuleType) and owner.__name__ == "__main__" and isinstance(file, str):
        return Path(file).stem
    return str(owner.__name__ if isinstance(owner, ModuleType) else name_of(owner)).rpartition(".")[2]


def decorated_functions(owner: object) -> DecoratedFunctions | None:
    """Return the decorated members of an object or module, collected once; `None` if it has none.

    The table that is kept in the object does not refer to it: the object is freed with the last reference to it.

    Raises:
        TypeError: As for `DecoratedFunctions`.
    """
    attributes: dict[str, Any] = getattr(owner, "__dict__", {})
    confirm = getattr(owner, "confirm_mcp_tool", None)
    table = attributes.get(_MADE)
    if isinstance(table, DefinitionTable) and not table.is_empty:
        return DecoratedFunctions(table, confirm, owner)
    members = decorated_members(owner)
    if not members:
        return None
    made = DecoratedFunctions(members, confirm)
    if not is_marked(owner):  # a function, whose attributes `functools.wraps` would give to others
        with suppress(AttributeError, TypeError):  # an object that takes no attributes
            setattr(owner, _MADE, made.unbound(owner))
    return made


def decorated_members(owner: object) -> list[Marked]:
    """Return the decorated functions that a module defines itself, or an object's decorated methods, bound to it.

    A method that a subclass overrides keeps its decoration.

    Args:
        owner: A module, an object, or a decorated function itself.
    """
    if isinstance(owner, ModuleType):
        functions = {id(value): value for value in vars(owner).values() if _is_function_of(owner, value)}
        return [(function, mark) for function in functions.values() for mark in marks_of(function)]
    if marks := marks_of(owner):
        assert callable(owner)
        return [(owner, mark) for mark in marks]
    return [(getattr(owner, name), mark) for name, marks in _marked_names(type(owner)).items() for mark in marks]


def has_decorated_members(owner: object) -> bool:
    """Return whether an object has decorated members; for a class, whether its instances have."""
    if inspect.isclass(owner):
        return bool(_marked_names(owner))
    return bool(decorated_members(owner))


def _is_function_of(module: ModuleType, value: object) -> bool:
    """Return whether the module itself defines a function; a partial does not state its module, and counts."""
    if isinstance(value, partial):
        return True
    is_own = getattr(value, "__module__", None) == module.__name__
    return is_own and (inspect.isroutine(value) or is_marked(value))


def _marked_names(cls: type) -> dict[str, tuple[Mark, ...]]:
    """Return the names of decorated methods with their marks, base classes first."""
    marked: dict[str, tuple[Mark, ...]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            function: Any = getattr(value, "__func__", value)  # of a static method, or of a class
            if marks := marks_of(function):
                marked[name] = marks
            elif name in marked and not callable(function):
                del marked[name]  # a subclass has made something else of it, as `name = None`
    return marked
