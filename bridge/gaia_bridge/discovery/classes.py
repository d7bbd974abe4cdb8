"""Recognise, build and name agents. Structure decides, never ancestry (see `gaia_bridge.contract.AgentLike`)."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import cast

from gaia_bridge.functions.collection import has_decorated_members
from gaia_bridge.sources.agent.parts import is_of_gaia
from gaia_bridge.sources.public_names import MAX_NAME

__all__ = [
    "AGENT_METHODS",
    "MODEL_METHODS",
    "PARTS",
    "abstract_methods",
    "agent_classes",
    "agent_instances",
    "clean_name",
    "construct",
    "conversing_classes",
    "kind_of",
    "mcp_server",
    "missing_methods",
    "name_of_class",
    "own_classes",
    "required_arguments",
]

AGENT_METHODS = ("get_mcp_tool_definitions", "execute_mcp_tool")
"""What an agent must have to be an MCP server."""

MODEL_METHODS = ("get_model_id", "get_model_info")
"""What an agent must have to be a chat model. It may have these instead of the others, or both."""

PARTS = "get_mcp_parts"
"""What an agent that is published by its tools and what it converses has instead (`gaia_bridge.contract.HasParts`)."""

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9_.-]+")
_SILENT = "silent_mode"
_LIBRARIES = frozenset({"fastmcp", "mcp"})
"""Where classes of MCP servers come from: FastMCP, and the official SDK."""


def missing_methods(target: object) -> list[str]:
    """The methods that keep `target`, an object or a class, from being an agent."""
    missing = _missing(target, AGENT_METHODS)
    is_other = len(missing) == len(AGENT_METHODS) and (
        not _missing(target, MODEL_METHODS)
        or has_decorated_members(target)
        or callable(getattr(target, PARTS, None))
        or is_of_gaia(target)
    )
    return [] if is_other else missing


def _missing(target: object, names: Iterable[str]) -> list[str]:
    return [name for name in names if not callable(getattr(target, name, None))]


def abstract_methods(cls: type) -> list[str]:
    """The methods that a subclass of `cls` would have to implement, sorted."""
    methods: frozenset[str] = getattr(cls, "__abstractmethods__", frozenset())
    return sorted(methods) if inspect.isabstract(cls) else []


def own_classes(module: ModuleType) -> Iterator[type]:
    """The agent classes that a module, or a package with its modules, defines itself, abstract ones too."""
    inside = f"{module.__name__}." if hasattr(module, "__path__") else None
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    for cls in dict.fromkeys(classes):
        own = cls.__module__ == module.__name__ or (inside is not None and cls.__module__.startswith(inside))
        if own and not cls.__name__.startswith("_") and not _is_protocol(cls) and not missing_methods(cls):
            yield cls


def conversing_classes(module: ModuleType) -> list[type]:
    """Classes that a module defines itself, and that converse, but are neither an MCP server nor a chat model."""
    classes = [
        value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    return [cls for cls in classes if missing_methods(cls) and callable(getattr(cls, "answer_chat", None))]


def agent_classes(module: ModuleType) -> list[type]:
    """The agent classes of `own_classes` that can be built, in the order in which the module names them."""
    return [cls for cls in own_classes(module) if not abstract_methods(cls)]


def agent_instances(module: ModuleType) -> list[str]:
    """The public names under which a module keeps agents that are built already."""
    return [name for name, value in vars(module).items() if not name.startswith("_") and _is_instance(value)]


def mcp_server(module: ModuleType) -> str | None:
    """The name under which a module keeps a server of an MCP library, which is a program of its own."""
    for name, value in vars(module).items():
        kind = cast(type[object], type(value))
        if kind.__module__.partition(".")[0] in _LIBRARIES and hasattr(kind, "run") and not name.startswith("_"):
            return name
    return None


def required_arguments(cls: type) -> list[str]:
    """The constructor's arguments that have no default."""
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


def name_of_class(cls: type) -> str:
    """`CodeAgent` is published as `code`, `MyHTTPAgent` as `my-http`."""
    plain = unicodedata.normalize("NFKD", cls.__name__).encode("ascii", "ignore").decode()
    words: list[str] = _WORDS.findall(plain.removesuffix("Agent"))
    return clean_name("-".join(words))


def clean_name(name: str) -> str:
    """Make it `[a-z0-9][a-z0-9_.-]{0,63}`, so that it is also a safe path segment."""
    return _NOT_IN_NAMES.sub("-", name.lower()).lstrip("_.-")[:MAX_NAME].rstrip("-") or "agent"


def kind_of(value: object) -> str:
    """What `value` is, for an error message."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    return f"class {value.__qualname__}" if inspect.isclass(value) else f"{type(value).__name__} object"


def _is_instance(value: object) -> bool:
    try:
        return not inspect.isclass(value) and not missing_methods(value)
    except Exception:  # a lazy object that is not ready is no agent
        return False


def _is_protocol(cls: type) -> bool:
    return bool(vars(cls).get("_is_protocol", False))


def _parameters(cls: type) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):  # a class that does not tell
        return []
