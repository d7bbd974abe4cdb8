"""Recognise, build and name agents. Structure decides, never ancestry (see `gaia_bridge.contract.AgentLike`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import ModuleType

from gaia_bridge.protocol.names import agent_name, clean_name
from gaia_bridge.sources.agent.parts import is_of_gaia
from gaia_bridge.sources.functions.collection import ModuleFunctions, has_decorated_members

AGENT_METHODS = ("get_mcp_tool_definitions", "execute_mcp_tool")
"""The methods that an agent must have to be an MCP server."""

MODEL_METHODS = ("get_model_id", "get_model_info")
"""The methods that an agent must have to be a chat model. It may have these instead of the others, or both."""

PARTS = "get_mcp_parts"
"""The method that an agent of several parts, as tools and a chat, has instead (`gaia_bridge.contract.HasParts`)."""

_SILENT = "silent_mode"
_LIBRARIES = frozenset({"fastmcp", "mcp"})
"""The packages of classes of MCP servers: FastMCP, and the official SDK."""

_SERVER_METHODS = ("http_app", "streamable_http_app")
"""Methods of which every server of such a library has one, and none of its other classes."""


def missing_methods(target: object) -> list[str]:
    """Return the methods that keep `target`, an object or a class, from being an agent."""
    missing = _missing(target, AGENT_METHODS)
    is_other = len(missing) == len(AGENT_METHODS) and (
        not _missing(target, MODEL_METHODS)
        or has_decorated_members(target)
        or callable(getattr(target, PARTS, None))
        or is_of_gaia(target)
        or is_mcp_server(target)
        or is_bridge(target)
    )
    return [] if is_other else missing


def _missing(target: object, names: Iterable[str]) -> list[str]:
    return [name for name in names if not callable(getattr(target, name, None))]


def abstract_methods(cls: type) -> list[str]:
    """Return the methods that a subclass of `cls` would have to implement, sorted."""
    methods: frozenset[str] = getattr(cls, "__abstractmethods__", frozenset())
    return sorted(methods) if inspect.isabstract(cls) else []


def own_classes(module: ModuleType) -> Iterator[type]:
    """Yield the agent classes that a module, or a package with its modules, defines itself, abstract ones too."""
    inside = f"{module.__name__}." if hasattr(module, "__path__") else None
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    for cls in dict.fromkeys(classes):
        own = cls.__module__ == module.__name__ or (inside is not None and cls.__module__.startswith(inside))
        if own and not cls.__name__.startswith("_") and not _is_protocol(cls) and not missing_methods(cls):
            yield cls


def agent_classes(module: ModuleType) -> list[type]:
    """Return the agent classes of `own_classes` that can be built, in the order in which the module names them."""
    return [cls for cls in own_classes(module) if not abstract_methods(cls)]


def public_names(module: ModuleType, is_wanted: Callable[[object], bool]) -> list[str]:
    """Return the public names under which a module keeps certain objects, each object once."""
    names: dict[int, str] = {}
    for name, value in vars(module).items():
        if not name.startswith("_") and is_wanted(value):
            names.setdefault(id(value), name)
    return list(names.values())


def is_mcp_server(value: object) -> bool:
    """Return whether a value is a server object of an MCP library: `FastMCP`, or `MCPServer` or `Server` of the SDK."""
    kinds = () if inspect.isclass(value) else type(value).__mro__
    is_of_library = any(kind.__module__.partition(".")[0] in _LIBRARIES for kind in kinds)
    return is_of_library and any(callable(getattr(value, name, None)) for name in _SERVER_METHODS)


def is_bridge(value: object) -> bool:
    """Return whether a value is a `gaia_bridge.Bridge`, which chooses itself the agents that it publishes."""
    kinds = () if inspect.isclass(value) else type(value).__mro__
    return any(kind.__module__.startswith("gaia_bridge.bridge.") and kind.__name__ == "Bridge" for kind in kinds)


def required_arguments(cls: type) -> list[str]:
    """Return the constructor's arguments that have no default."""
    optional = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [
        parameter.name
        for parameter in _parameters(cls)
        if parameter.default is parameter.empty and parameter.kind not in optional and parameter.name != _SILENT
    ]


def construct(cls: type) -> object:
    """Build an agent that keeps its console to itself, if it has such an option: MCP clients see no console."""
    parameters = _parameters(cls)
    if any(parameter.name == _SILENT for parameter in parameters):
        return cls(silent_mode=True)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        with suppress(TypeError):  # a base class may not take what its subclass passes on
            return cls(silent_mode=True)
    return cls()


def no_agent_made(made: object) -> tuple[str, str] | None:
    """Return the kind of a factory's result that is no agent, and the remedy; `None` if it may be an agent."""
    if made is None:
        return "None", "end it with `return`, and the agent that it makes"
    if inspect.isclass(made):
        return f"the class {made.__qualname__}", f"return {made.__qualname__}()"
    yields = inspect.isgenerator(made) or inspect.isasyncgen(made) or hasattr(type(made), "__aenter__")
    if yields and missing_methods(made):
        return kind_of(made), "return the agent instead of yielding it"
    return None


def name_of_class(cls: type) -> str:
    """Return the name of a class's agent: `CodeAgent` is published as `code`, `MyHTTPAgent` as `my-http`."""
    return agent_name(cls.__name__)


def name_of(agent: object) -> str:
    """Return the default name under which an agent, decorated functions or a server object are published."""
    if isinstance(agent, ModuleFunctions):
        return clean_name(agent.name)
    own = getattr(agent, "name", None) if is_mcp_server(agent) else None
    return clean_name(own) if isinstance(own, str) and own else name_of_class(type(agent))


def kind_of(value: object) -> str:
    """Return the kind of `value`, for an error message."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    return f"class {value.__qualname__}" if inspect.isclass(value) else f"{type(value).__name__} object"


def is_built_agent(value: object) -> bool:
    """Return whether a value is an agent that is built already, and neither a bridge nor a server object."""
    try:
        return (
            not inspect.isclass(value)
            and not inspect.isroutine(value)
            and not is_mcp_server(value)
            and not is_bridge(value)
            and not missing_methods(value)
        )
    except Exception:  # a lazy object that is not ready is no agent
        return False


def _is_protocol(cls: type) -> bool:
    return bool(vars(cls).get("_is_protocol", False))


def _parameters(cls: type) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):  # a class that does not tell
        return []
