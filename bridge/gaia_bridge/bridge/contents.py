"""The agents and servers that a bridge is made with, as a program names them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast
from urllib.parse import urlsplit

from gaia_bridge.bridge.discovery.classes import missing_methods
from gaia_bridge.config import EntryError, current_folder, entry_of, parse_entry
from gaia_bridge.errors import ConfigError
from gaia_bridge.middleware.base import Middleware
from gaia_bridge.model import AgentOffer, ServerSpec
from gaia_bridge.protocol.names import clean_name
from gaia_bridge.sources.functions.collection import ModuleFunctions, has_decorated_members
from gaia_bridge.sources.functions.marks import is_marked
from gaia_bridge.text.json_types import JSON, is_object

Servers = Mapping[str, "ServerSpec | Mapping[str, Any] | str | Sequence[str]"] | Sequence[ServerSpec]
"""Servers by name: an entry as in `mcp_servers.json`, a URL, a command; or specs, which have their name."""

_SCHEMES: Final = ("http://", "https://")


def spec_of(target: str | Sequence[str], name: str | None = None, **more: Any) -> ServerSpec:
    """Return the entry for a server that is named by its URL or by its command.

    Args:
        target: A URL (`https://...`), a command line (`uvx mcp-server-time`), or a program with its arguments.
        name: The name of the server; made of the target if not given.
        **more: Further keys of the entry, such as `headers`, `env`, `cwd`, `timeout`; `None` for those that are not.

    Raises:
        ConfigError: The result is no valid entry; the message says why.
    """
    shown = name or repr(target)
    given = {key: value for key, value in more.items() if value is not None}
    if isinstance(target, str) and target.strip().lower().startswith(_SCHEMES):
        url = target.strip()
        entry, name = {"url": url}, name or clean_name(urlsplit(url).hostname or "server")
    else:
        try:
            entry = entry_of(target)
        except EntryError as error:
            raise ConfigError(shown, str(error), "a URL, or a program with its arguments") from None
        name = name or clean_name(Path(entry["command"]).stem)
    return _parsed(name, {**entry, **given})


def server_specs(servers: Servers) -> list[ServerSpec]:
    """Return the entries of several servers.

    Raises:
        ConfigError: One of them cannot be used; names it.
        TypeError: It is nothing that names a server.
    """
    if isinstance(servers, Mapping):
        return [_named(name, value) for name, value in cast("Mapping[str, Any]", servers).items()]
    specs = list(servers)
    for spec in cast("list[object]", specs):
        if not isinstance(spec, ServerSpec):
            raise TypeError(f"expected a ServerSpec, or a mapping of names to entries, got {spec!r}")
    return specs


def agent_of(target: Any) -> Any:
    """Return an object with the methods of an agent for a decorated function or a module with some; else the target."""
    if is_marked(target) or (isinstance(target, ModuleType) and has_decorated_members(target)):
        return ModuleFunctions(target)
    return target


def instead_of(candidate: object) -> str:
    """Return the advice for an object that is no agent; empty if there is none."""
    if isinstance(candidate, type) and not missing_methods(candidate):
        return f"write {candidate.__name__}()"
    if inspect.isroutine(candidate):
        return "decorate it with @tool, from gaia_bridge"
    if isinstance(candidate, (str, Path)):
        return "servers are given by servers={name: URL or command}, configuration files by config="
    return ""


def checked_middleware(given: Sequence[object]) -> tuple[Middleware, ...]:
    """Return middleware as a tuple, after a check of each object.

    Raises:
        TypeError: An item is no middleware, or has a hook that does not exist.
    """
    checked: list[Middleware] = []
    for item in given:
        if not isinstance(item, Middleware):
            what = repr(item)
            if isinstance(item, type) and issubclass(item, Middleware):
                what = f"the class {item.__name__}; write {item.__name__}()"
            raise TypeError(
                f"middleware: expected objects of subclasses of gaia_bridge.middleware.Middleware, got {what}"
            )
        if inspect.iscoroutinefunction(item.on_change):
            what = f"{type(item).__name__}.on_change is a coroutine function"
            raise TypeError(f"middleware: {what}; expected `def on_change`, which is called while things change")
        _refuse_unknown_hooks(type(item))
        checked.append(item)
    return tuple(checked)


def agent_offer(tools: bool | Collection[str] | None, ask: bool | None) -> AgentOffer:
    """Return which tools of agents are published, as programs request it.

    Args:
        tools: All of their tools, none, or those of these names; `None`: what each agent says.
        ask: Whether those that converse have a tool that asks them; `None`: what each agent says.

    Raises:
        TypeError: It is something else.
    """
    if tools is None or isinstance(tools, bool):
        return AgentOffer(tools, ask)
    if isinstance(tools, str):
        raise TypeError(f"agent tools: expected True, False or names, got {tools!r}; write [{tools!r}]")
    return AgentOffer(frozenset(tools) or False, ask)


def _refuse_unknown_hooks(kind: type[Middleware]) -> None:
    """Refuse a method that looks like a hook and would never be called, such as `on_tool_call`."""
    hooks = [name for name in vars(Middleware) if name.startswith("on_")]
    for base in kind.__mro__:
        for name, value in vars(base).items():
            if name.startswith("on_") and name not in hooks and inspect.iscoroutinefunction(value):
                raise TypeError(
                    f"middleware: {kind.__name__}.{name} is no hook, so that nothing calls it; expected one of "
                    f"{', '.join(hooks)}"
                )


def _named(name: str, value: Any) -> ServerSpec:
    if isinstance(value, ServerSpec):
        if value.name != name:
            raise ConfigError(name, f"its entry is called {value.name!r}", "give both the same name")
        return value
    if is_object(value) or isinstance(value, Mapping):
        return _parsed(name, dict(cast("Mapping[str, Any]", value)))
    if isinstance(value, (str, Sequence)):
        return spec_of(cast("str | Sequence[str]", value), name)
    raise TypeError(f"{name}: expected an entry of mcp_servers.json, a URL, a command or a ServerSpec, got {value!r}")


def _parsed(name: str, entry: JSON) -> ServerSpec:
    try:
        return parse_entry(name, entry, current_folder()).spec
    except EntryError as error:
        raise ConfigError(name, str(error)) from None
