"""Tools that an agent's model may call: the `tool` decorator and where it records them.

A registry entry is a dictionary ("Tool Registration Pattern"):

    {
        "name": "count_words",
        "description": "Count the words of a text.",
        "parameters": {"text": {"type": "string", "required": True, "description": "What to count."}},
        "inputSchema": {...},       # the full JSON Schema that `parameters` is a summary of
        "function": <callable>,     # called with named arguments; validates them
        "atomic": False,
        "display_label": "...",     # only if given: what the console says while the tool runs
        "annotations": {...},       # only if given: MCP's hints, such as {"destructiveHint": True}
        "timeout": 30.0,            # only if given: seconds for one call
        "_owner": "MyAgent-1",      # only if it belongs to one agent
        "_mcp_server": "...", "_mcp_tool_name": "...",      # only for tools of MCP servers
    }

Tools registered while an agent's `_register_tools` runs belong to that agent; all others are shared by every agent of
the process. `_TOOL_REGISTRY` holds both: the shared ones, and for each name that only agents use the entry registered
last, so that a name can be looked up without an agent at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from itertools import count
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar, overload
from weakref import ref

from gaia.agents.base.tool_schema import flat_parameters
from gaia_bridge.protocol.names import source_prefix
from gaia_bridge.runtime.unloading import on_unload
from gaia_bridge.sources.functions.collection import decorated_functions, has_decorated_members
from gaia_bridge.sources.functions.marks import ToolMark, add_mark, expect_function, is_of_its_module
from gaia_bridge.text.json_types import JSON, is_object

if TYPE_CHECKING:
    from gaia_bridge.sources.functions.definitions import FunctionTool

__all__ = [
    "ToolEntry",
    "ToolRegistry",
    "describe_tools",
    "get_tool_display_label",
    "get_tool_display_name",
    "given_entry",
    "is_published_alone",
    "matching_tools",
    "method_entries",
    "parameters_of",
    "show_tools_of",
    "tool",
    "tool_entry",
    "tool_summary",
]

ToolEntry = dict[str, Any]
"""One registered tool; the keys are described at the top of this module."""

_Function = TypeVar("_Function", bound=Callable[..., Any])

_TOOL_REGISTRY: dict[str, ToolEntry] = {}
"""The default registry of this process. An entry without `_owner` is shared by all agents."""

_owner_numbers = count(1)


class ToolRegistry(Mapping[str, ToolEntry]):
    """The tools of one agent, by name: its own, and behind them the shared ones of `_TOOL_REGISTRY`.

    Args:
        label: What the owner is called; the registry's `owner` is this and a number that is unique in the process.
    """

    def __init__(self, label: str) -> None:
        self.owner = f"{label}-{next(_owner_numbers)}"
        self._own: dict[str, ToolEntry] = {}

    def register(self, entry: ToolEntry) -> None:
        """Make `entry` a tool of this agent only, replacing an own tool of that name."""
        name = entry["name"]
        entry["_owner"] = self.owner
        self._own[name] = entry
        if "_owner" in _TOOL_REGISTRY.get(name, entry):  # a shared tool stays where the other agents find it
            _TOOL_REGISTRY[name] = entry

    def unregister(self, name: str) -> None:
        """Take away a tool that belongs to this agent; what another agent registered under that name stays.

        Raises:
            KeyError: The agent has no tool of its own by that name.
        """
        entry = self._own.pop(name)
        if _TOOL_REGISTRY.get(name) is entry:
            del _TOOL_REGISTRY[name]

    @contextmanager
    def filling(self) -> Generator[None]:
        """While this is open, `tool` registers here.

        A module runs once: if it is first imported while this is open, its tools are this agent's and no other's.
        """
        token = _filling.set(self)
        try:
            yield
        finally:
            _filling.reset(token)

    def snapshot(self) -> dict[str, ToolEntry]:
        """All tools the agent has right now, in a dictionary that no other thread changes."""
        shared = {name: entry for name, entry in _TOOL_REGISTRY.copy().items() if "_owner" not in entry}
        return {**shared, **self._own}

    def __getitem__(self, name: str) -> ToolEntry:
        return self.snapshot()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.snapshot())

    def __len__(self) -> int:
        return len(self.snapshot())

    def __repr__(self) -> str:
        return f"ToolRegistry(owner={self.owner!r}, tools={sorted(self)!r})"


_filling: ContextVar[ToolRegistry | None] = ContextVar("gaia_tool_registry", default=None)

_shown: ContextVar[Mapping[str, ToolEntry] | None] = ContextVar("gaia_shown_tools", default=None)
"""The tools whose names are shown; `_TOOL_REGISTRY` where nobody said. Two agents may have one name for two tools."""


def show_tools_of(tools: Mapping[str, ToolEntry]) -> None:
    """In this context, `get_tool_display_name` and `get_tool_display_label` are about these tools."""
    _shown.set(tools)


@overload
def tool(function: _Function, /) -> _Function: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    icons: Sequence[JSON] | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
    timeout: float | None = None,
    atomic: bool = False,
    display_label: str | None = None,
    destructive: bool = False,
) -> Callable[[_Function], _Function]: ...


def tool(
    function: _Function | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    icons: Sequence[JSON] | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
    timeout: float | None = None,
    atomic: bool = False,
    display_label: str | None = None,
    destructive: bool = False,
) -> _Function | Callable[[_Function], _Function]:
    """Make a function a tool, as `@tool` or `@tool(...)`; the function itself is returned unchanged.

        class CountingAgent(MCPAgent):
            @tool
            def count_words(self, text: str) -> int:
                '''Count the words of a text.

                Args:
                    text: What to count.
                '''
                return len(text.split())

            def _register_tools(self):
                @tool
                def count_lines(text: str) -> int: ...

                tool(self.reset)                    # a bound method is fine as well

    A method is a tool of each agent of its class: of its model, and of MCP clients. A function inside of
    `_register_tools` is a tool of that agent; one at the top level of a module is a tool of every agent.

    Arguments are checked and converted as the type hints say (a `Path` parameter is given a `Path`, a pydantic model is
    a model). The entry's `function` raises `pydantic.ValidationError`, a `ValueError`, for those that do not fit.

    Args:
        function: Plain or async function, generator function (`gaia_bridge.sources.functions.generators`), or bound
            method, callable with named arguments. A parameter annotated with `RequestContext` is given the request.
        name: The tool's name; default is the function's.
        title: Its name for people.
        description: What the tool does; default is the docstring without its section of parameters.
        annotations: MCP's hints, such as `{"readOnlyHint": True}`.
        icons: MCP's icons.
        meta: Its `_meta` for MCP clients.
        tags: Words to select it by.
        timeout: Seconds for one call; by default what the agent gives to all.
        atomic: Whether one call does the whole job, so that the agent need not plan further steps.
        display_label: What the console says while the tool runs, instead of its name.
        destructive: Whether it may destroy something: then a person is asked before a model may use it.

    Raises:
        TypeError: No JSON Schema can be derived, or the function has no name to register it under.
    """
    hints = {**(annotations or {}), **({"destructiveHint": True} if destructive else {})}
    options: dict[str, Any] = {"atomic": atomic, "destructive": destructive}
    if display_label is not None:
        options["display_label"] = display_label
    mark = ToolMark(
        name=name,
        title=title,
        description=description,
        annotations=hints or None,
        icons=icons,
        meta=meta,
        tags=tuple(tags),
        timeout=timeout,
        options=options,
    )

    def register(target: Any) -> Any:
        if _filling.get() is None and _is_in_class_body(target):
            add_mark(target, mark)
            return target
        entry = tool_entry(target, name, description, atomic=atomic)
        if display_label is not None:
            entry["display_label"] = display_label
        if hints:
            entry["annotations"] = hints
        if timeout is not None:
            entry["timeout"] = timeout
        registry = _filling.get()
        if registry is None:
            _TOOL_REGISTRY[entry["name"]] = entry
            if isinstance(target, FunctionType):
                add_mark(target, mark)
        else:
            registry.register(entry)
        return target

    return register if function is None else register(function)


def _forget(modules: Collection[str]) -> Callable[[Collection[str]], None]:
    """Take the shared tools of modules out of the default registry; implements `unloading.Forgets`."""

    def take(are_meant: Callable[[str], bool]) -> dict[str, ToolEntry]:
        shared = {name: entry for name, entry in _TOOL_REGISTRY.items() if "_owner" not in entry}
        taken = {name: entry for name, entry in shared.items() if are_meant(_module_of(entry))}
        for name in taken:
            del _TOOL_REGISTRY[name]
        return taken

    # Those of a module that failed while it was imported are there as well, and the module is not.
    forgotten = take(lambda module: module in modules or module not in sys.modules)

    def remember(stay: Collection[str]) -> None:
        take(lambda module: module in stay)
        _TOOL_REGISTRY.update({name: entry for name, entry in forgotten.items() if _module_of(entry) in stay})

    return remember


def _module_of(entry: ToolEntry) -> str:
    function = entry["function"]
    return str(getattr(getattr(function, "raw_function", function), "__module__", ""))


def is_published_alone(entry: ToolEntry, user: str) -> bool:
    """Return whether a shared tool is published with its own module, and another module does not use it.

    Args:
        entry: The tool's entry.
        user: The name of the other module, which may have imported the function or its module.
    """
    function = getattr(entry["function"], "raw_function", None)
    if not is_of_its_module(function):
        return False
    module = sys.modules.get(_module_of(entry))
    values = vars(sys.modules[user]).values() if user in sys.modules else ()
    return not any(value is function or value is module for value in values)


on_unload(_forget)


def _is_in_class_body(target: object) -> bool:
    """Whether a function is a method, or going to be one: its class may not be there yet."""
    if isinstance(target, staticmethod | classmethod):
        return True
    local_name = getattr(target, "__qualname__", "").rpartition("<locals>.")[2]
    return isinstance(target, FunctionType) and "." in local_name


def get_tool_display_name(tool_name: str) -> str:
    """Return the name that a user sees for a registry key ("Tool Display Name Resolution").

    Args:
        tool_name: A key of `_TOOL_REGISTRY`, or of the tools of the agent that is at work, such as
            `mcp_acer_launch_experience_zone`.

    Returns:
        `launch_experience_zone (acer)` for a tool of an MCP server; any other name, known or not, unchanged.
    """
    entry = _shown_entry(tool_name)
    if entry and "_mcp_tool_name" in entry:
        return f"{entry['_mcp_tool_name']} ({entry['_mcp_server']})"
    return tool_name


def get_tool_display_label(tool_name: str) -> str | None:
    """Return the text that the console shows while a tool runs; `None` if it was registered without `display_label`."""
    return (_shown_entry(tool_name) or {}).get("display_label")


def matching_tools(tools: Mapping[str, ToolEntry], tool_name: str) -> list[str]:
    """Find the tools that may be meant by a registry key that is not spelt quite right.

    Case does not matter, and a dash is an underscore. The name of a tool of an MCP server may also lack `mcp_`, the
    server, or both. A part of a name is never enough.

    Args:
        tools: The tools by their registry keys.
        tool_name: A name such as `Read-File` or `fs_read_file` for `mcp_fs_read_file`.

    Returns:
        The keys that fit best, in the registry's order: one, none, or several that fit equally well.
    """
    if tool_name in tools:
        return [tool_name]
    wanted = _loosely(tool_name)
    by_key = [name for name in tools if _loosely(name) == wanted]
    return by_key or [name for name, entry in tools.items() if wanted in _short_names(entry)]


def describe_tools(tools: Mapping[str, ToolEntry]) -> str:
    """List tools for a system prompt, one line each: `- name(required: type, optional?: type): description`.

    A tool of an MCP server is described without the `[MCP:server]` that its entry carries, because its name says the
    server already.
    """
    return "\n".join(f"- {name}({_arguments(entry)}): {_summary(entry)}" for name, entry in tools.items())


def tool_entry(
    function: Callable[..., Any], name: str | None = None, description: str | None = None, *, atomic: bool = False
) -> ToolEntry:
    """Describe a function as a registry entry, and register it nowhere. Arguments as for `tool`.

    Raises:
        TypeError: No JSON Schema can be derived, or the function has no name.
    """
    from gaia_bridge.sources.functions.typed_function import TypedFunction

    expect_function(function)
    name = name or getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise TypeError(f"{function!r} has no name of its own; give the tool one with `tool(name=...)`")
    typed = TypedFunction(function, f"tool {name!r}")
    return {
        "name": name,
        "description": typed.docstring.description if description is None else description,
        "parameters": flat_parameters(typed.input_schema),
        "inputSchema": typed.input_schema,
        "function": typed,
        "atomic": atomic,
    }


def method_entries(agent: object) -> list[ToolEntry]:
    """Return the decorated methods of an agent as registry entries, which do not keep it alive if it keeps them.

    Raises:
        TypeError: Two have one name, or one has no JSON Schema; says which, and where they are.
    """
    if not has_decorated_members(agent):
        return []
    decorated = decorated_functions(agent)
    entries = [_entry_of_mark(item, mark) for item, mark in decorated.marked_tools] if decorated is not None else []
    for entry in entries:
        typed = entry["function"]
        if getattr(typed.function, "__self__", None) is agent:
            entry["function"] = typed.calling(_WeakMethod(typed.function))
    return entries


class _WeakMethod:
    """A bound method that does not keep its object, as that keeps the method."""

    def __init__(self, method: MethodType) -> None:
        update_wrapper(self, method.__func__)
        self._function: Callable[..., Any] = method.__func__
        self._owner = ref(method.__self__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner = self._owner()
        if owner is None:
            raise ReferenceError(
                f"the agent of {self._function.__qualname__}() is gone; keep it while you use its tools"
            )
        return self._function(owner, *args, **kwargs)


def _entry_of_mark(item: FunctionTool, mark: ToolMark) -> ToolEntry:
    entry: ToolEntry = {
        "name": item.name,
        "description": item.definition.get("description", ""),
        "parameters": flat_parameters(item.typed.input_schema),
        "inputSchema": item.typed.input_schema,
        "function": item.typed,
        "atomic": False,
        **{key: value for key, value in mark.options.items() if key != "destructive"},
    }
    return entry | {
        key: value for key, value in (("annotations", mark.annotations), ("timeout", mark.timeout)) if value is not None
    }


def given_entry(function: Callable[..., Any]) -> ToolEntry:
    """Describe a function that an agent is given: as `tool` did if it was decorated, else by itself.

    What a decorator said, such as that the tool is destructive, is not lost.

    Raises:
        TypeError: As for `tool_entry`.
    """
    for entry in _TOOL_REGISTRY.copy().values():
        if getattr(entry.get("function"), "raw_function", None) == function:
            return {key: value for key, value in entry.items() if key != "_owner"}
    return tool_entry(function)


def parameters_of(entry: ToolEntry) -> dict[str, JSON]:
    """Return an entry's parameters by their names; an entry written by hand may have a JSON Schema there."""
    parameters: object = entry.get("parameters")
    if not is_object(parameters):
        return {}
    if parameters.get("type") == "object":
        return flat_parameters(parameters)
    return {name: facts for name, facts in parameters.items() if is_object(facts)}


def tool_summary(entry: ToolEntry) -> str:
    """Return the tool's description, without the `[MCP:server]` of an MCP server's tool."""
    return str(entry.get("description") or "").removeprefix(f"[MCP:{entry.get('_mcp_server')}]").strip()


def _arguments(entry: ToolEntry) -> str:
    return ", ".join(
        f"{name}{'' if facts.get('required') else '?'}: {facts.get('type', 'string')}"
        for name, facts in parameters_of(entry).items()
    )


def _shown_entry(tool_name: str) -> ToolEntry | None:
    tools = _shown.get()
    return (_TOOL_REGISTRY if tools is None else tools).get(tool_name)


def _loosely(name: str) -> str:
    return name.casefold().replace("-", "_")


def _short_names(entry: ToolEntry) -> set[str]:
    """Return the short names by which a model may call an MCP server's tool; none for other tools."""
    if "_mcp_tool_name" not in entry:
        return set()
    server, tool_name = str(entry.get("_mcp_server")), entry["_mcp_tool_name"]
    servers = server, source_prefix(server), "mcp"
    return {_loosely(name) for name in (*(f"{start}_{tool_name}" for start in servers), str(tool_name))}


def _summary(entry: ToolEntry) -> str:
    return " ".join(tool_summary(entry).partition("\n\n")[0].split())
