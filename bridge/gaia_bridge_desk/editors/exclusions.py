"""Reads which servers and tools a program has switched off outside the server's own entry. Pure.

Claude Code, Gemini CLI, Copilot CLI and opencode each have lists of their own for that, in the file of the servers or
in one beside it. Whatever such a list names stays off when the server is taken over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_desk.editors.jsonc import inside
from gaia_bridge_desk.editors.reading import Found

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that Claude Code and opencode write as `_` in the names of tools."""

_WILD: Final = re.compile(r"[*?]")


class Exclusion(Struct, frozen=True):
    """Servers or tools that a program does not use.

    Args:
        why: The list that switches them off.
        server: The server's name there; `None` for every server that is not in `allowed`.
        tools: The server's tools; `None` for the whole server.
        allowed: The servers that are used, where a list names those.
        is_of_project: Whether the exclusion applies only to servers of a project's file.
        is_prefix: Whether `server` begins the names of tools, with every odd character as `_`.
    """

    why: str
    server: str | None = None
    tools: tuple[str, ...] | None = None
    allowed: frozenset[str] = frozenset()
    is_of_project: bool = False
    is_prefix: bool = False

    def applies_to(self, server: str, in_project: bool) -> bool:
        """Return whether the exclusion applies to a server."""
        if self.is_of_project and not in_project:
            return False
        if self.server is None:
            return server.strip().casefold() not in self.allowed
        if self.is_prefix:
            return _NO_NAME.sub("_", server) == self.server
        return server.strip().casefold() == self.server.strip().casefold()


def exclusions_in(document: JSON, servers: Iterable[str], project: str | None = None) -> list[Exclusion]:
    """Return the exclusions that a document lists.

    Args:
        document: Any file of a program.
        servers: The names of all servers of that program.
        project: The folder whose own lists count, of those that Claude Code keeps for all folders.
    """
    exclusions = [*_of_names(document), *_of_entries(document)]
    if project is not None and is_object(own := inside(document, ("projects", project))):
        exclusions += _of_names(own)
    names = list(servers)
    for rule in _texts(inside(document, ("permissions", "deny"))):
        exclusions += _of_claude_rule(rule)
    switched = inside(document, ("tools",))
    patterns = [pattern for pattern, on in switched.items() if on is False] if is_object(switched) else []
    permissions = inside(document, ("permission",))
    patterns += [pattern for pattern, say in permissions.items() if say == "deny"] if is_object(permissions) else []
    for pattern in patterns if is_object(inside(document, ("mcp",))) else ():
        exclusions += [exclusion for name in names for exclusion in _of_opencode_pattern(pattern, name)]
    return exclusions


def without_excluded(server: Found, exclusions: Iterable[Exclusion], *, in_project: bool) -> Found:
    """Return a server with excluded parts disabled, and with notes that give the reasons.

    Args:
        server: The server.
        exclusions: The program's exclusions.
        in_project: Whether its file is that of a project.
    """
    for each in exclusions:
        if not each.applies_to(server.name, in_project) or server.entry.get("disabled") is True:
            continue
        if each.tools is None:
            note = f"it is disabled, as {each.why} says"
            server = replace(server, entry={**server.entry, "disabled": True}, notes=(*server.notes, note))
            continue
        wild = [tool for tool in each.tools if _WILD.search(tool)]
        off = server.entry.get("disabled_tools")
        plain = [*(off if is_array(off) else ()), *(tool for tool in each.tools if tool not in wild)]
        note = f"{each.why} switches off {', '.join(wild)}: name each of those tools in 'disabled_tools' yourself"
        entry = {**server.entry, "disabled_tools": plain} if plain else server.entry
        server = replace(server, entry=entry, notes=(*server.notes, note) if wild else server.notes)
    return server


def with_approval_noted(server: Found, documents: Iterable[JSON], project: str) -> Found:
    """Return a server of a project's `.mcp.json`, with a note if Claude Code was not allowed to start it yet.

    Args:
        server: The server.
        documents: All files of Claude Code, its settings among them.
        project: The folder.
    """
    for document in documents:
        for part in (document, inside(document, ("projects", project))):
            if is_object(part) and (
                part.get("enableAllProjectMcpServers") is True
                or server.name in _texts(inside(part, ("enabledMcpjsonServers",)))
            ):
                return server
    if server.entry.get("disabled") is True:
        return server
    return replace(server, notes=(*server.notes, "pending approval: Claude Code was not allowed to start it yet"))


def _of_names(document: JSON) -> Iterator[Exclusion]:
    """Yield the exclusions of lists that name servers."""
    for path, is_of_project in (
        (("mcp", "excluded"), False),
        (("disabledMcpServers",), False),
        (("disabledMcpjsonServers",), True),
    ):
        why = f"'{'.'.join(path)}'"
        yield from (Exclusion(why, name, is_of_project=is_of_project) for name in _texts(inside(document, path)))
    denied = inside(document, ("deniedMcpServers",))
    for rule in denied if is_array(denied) else ():
        if is_object(rule) and isinstance(name := rule.get("serverName"), str):
            yield Exclusion("'deniedMcpServers'", name)
    allowed = inside(document, ("mcp", "allowed"))
    if is_array(allowed):
        yield Exclusion("'mcp.allowed'", allowed=frozenset(name.strip().casefold() for name in _texts(allowed)))


def _of_entries(document: JSON) -> Iterator[Exclusion]:
    """Yield the exclusions of entries that only switch a server off, in a file that is merged with others."""
    for place, servers in (("mcp", inside(document, ("mcp",))), ("its file of states", document)):
        for name, entry in servers.items() if is_object(servers) else ():
            if is_object(entry) and entry.get("enabled") is False and entry.keys() <= {"enabled"}:
                yield Exclusion(f"'{name}' in {place}", name)


def _of_claude_rule(rule: str) -> Iterator[Exclusion]:
    """Yield the exclusion of a rule: `mcp__SERVER`, `mcp__SERVER__*` or `mcp__SERVER__TOOL`."""
    kind, _, rest = rule.partition("__")
    server, _, tool = rest.partition("__")
    if kind == "mcp" and server:
        tools = None if tool in ("", "*") else (tool,)
        yield Exclusion("'permissions.deny'", _NO_NAME.sub("_", server), tools, is_prefix=True)


def _of_opencode_pattern(pattern: str, server: str) -> Iterator[Exclusion]:
    """Yield the exclusion of a pattern `SERVER_TOOL`, where `*` matches any text."""
    prefix = f"{_NO_NAME.sub('_', server)}_"
    if pattern.endswith("*") and prefix.startswith(pattern.rstrip("*")):
        yield Exclusion(f"{pattern!r} of 'tools'", server)
    elif pattern.startswith(prefix):
        yield Exclusion(f"{pattern!r} of 'tools'", server, (pattern.removeprefix(prefix),))
    elif _WILD.search(pattern):
        yield Exclusion(f"{pattern!r} of 'tools'", server, (pattern,))


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if is_array(value) else []
