"""The servers of any editor's file, as entries of ours: keys, addresses, units and references translated. Pure.

What another program says in its own words is said in ours (`serverUrl`, `httpUrl` -> `url`; `command` as a list;
`${input:token}`, `$TOKEN`, `{env:TOKEN}` -> `${env:TOKEN}`), what cannot be said is named, and nothing is looked up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config.entries import RENAMED
from gaia_bridge.config.expansion import texts_in
from gaia_bridge.config.oauth_options import OAUTH_KEYS
from gaia_bridge.editors import jsonc, toml_tables
from gaia_bridge.editors.entries import is_ours
from gaia_bridge.editors.shapes import Shape
from gaia_bridge.protocol.json_types import JSON, is_array, is_object

__all__ = [
    "Found",
    "Surroundings",
    "entry_of_ours",
    "found_in",
    "servers_in",
    "servers_of_text",
    "variable_of_input",
]

_PLACES: Final = (
    ("mcpServers",),
    ("servers",),
    ("mcp_servers",),
    ("context_servers",),
    ("mcp", "servers"),
    ("mcp",),
    ("customizations", "vscode", "mcp", "servers"),
    ("settings", "mcp", "servers"),
)
"""Where programs list servers: Claude, Cursor and most others; VS Code; Codex; Zed; VS Code's old settings; opencode;
devcontainer.json; *.code-workspace."""

_WAYS: Final = frozenset({"command", "url", "agent", "openapi", "serverUrl", "httpUrl"})
"""One of these makes an object an entry."""

_TYPES: Final = {
    "local": "stdio",
    "remote": "http",
    "streamableHttp": "http",
    "streamable-http": "http",
    "streamable_http": "http",
}
_KEPT: Final = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "type", "timeout", "startup_timeout", "disabled"}
    | {"allowed_tools", "disabled_tools", "inherit_env", "idle_timeout", "max_concurrency", "isolation", "era", "lazy"}
    | {"tools", "agent", "openapi", "oauth", "proxy"}
)
"""The keys of ours."""

_WITHOUT_MEANING: Final = frozenset(
    {"$schema", "alwaysAllow", "alwaysLoad", "autoApprove", "description", "dev", "gallery", "name", "source"}
    | {"default_tools_approval_mode", "required", "sandbox", "sandboxEnabled", "trust", "version", "enabled"}
    | {"remote", "supports_parallel_tool_calls", "transport", "auth", "bearer_token_env_var", "env_http_headers"}
    | {"envFile", "env_file"}
)
"""Keys that say how the editor treats the server, and those that were translated."""

_AUTH_OF_CURSOR: Final = {"CLIENT_ID": "clientId", "CLIENT_SECRET": "clientSecret", "scopes": "scopes"}

_MILLISECONDS: Final = 1_000
"""Of a second."""

_NO_SECONDS: Final = 10_000
"""A timeout from this on is in milliseconds, where nobody says in what it is."""

_REFERENCE: Final = re.compile(r"\$\{([^}]*)\}")
_BRACES: Final = re.compile(r"(?<!\$)\{(env|file):([^}]+)\}")
_BARE: Final = re.compile(r"(?<![\\$\w])\$([A-Z_][A-Z0-9_]*)\b")
_BARE_ALONE: Final = re.compile(r"((?:Bearer |Basic |token )?)\$([A-Z_][A-Z0-9_]*)")
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9]+")


class Surroundings(Struct, frozen=True):
    """What references of an editor stand for.

    Args:
        home: The home folder.
        workspace: The folder that is open, where the file belongs to one.
        shape: How the editor writes a server, where it is known which one it is.
        bare: Whether it fills in `$NAME` wherever that stands.
        project: The folder whose own servers count, of those that Claude Code keeps in one file for all folders.
        inputs: What it asks the user for: the names of the inputs, with their descriptions.
    """

    home: str
    workspace: str | None = None
    shape: Shape | None = None
    bare: bool = False
    project: str | None = None
    inputs: Mapping[str, str] = {}


class Found(Struct, frozen=True):
    """A server of an editor.

    Args:
        name: What it is called there.
        entry: As our file has it.
        notes: What could not be said in it.
        problem: Why it cannot be used here; `None` if it can.
        is_ours: Whether it is the bridge itself.
        env_file: The file with further variables that it names.
        inputs: The inputs that it uses, by the variables that stand for them in `entry`.
    """

    name: str
    entry: JSON
    notes: tuple[str, ...] = ()
    problem: str | None = None
    is_ours: bool = False
    env_file: str | None = None
    inputs: Mapping[str, str] = {}


def servers_of_text(text: str, around: Surroundings, *, toml: bool = False) -> list[Found]:
    """The servers that a file lists.

    Args:
        text: Its text.
        around: What its references stand for.
        toml: Whether it is TOML, and not JSON.

    Raises:
        EditError: It is neither.
    """
    document = toml_tables.read(text) if toml else jsonc.read(text)
    servers = dict(servers_in(document) or {})
    if around.project is not None and jsonc.holds(document, place := ("projects", around.project, "mcpServers")):
        inner: Any = document
        for key in place:
            inner = inner[key]
        servers |= inner if is_object(inner) else {}
    return found_in(document, servers, around)


def found_in(document: JSON, servers: JSON, around: Surroundings) -> list[Found]:
    """Servers as their editor means them.

    Args:
        document: The document that lists them: it says what the editor asks for.
        servers: Those of it that are meant, by name.
        around: What its references stand for.
    """
    asked = {
        str(item["id"]): str(item.get("description") or item["id"])
        for item in _inputs(document)
        if is_object(item) and "id" in item
    }
    around = replace(around, inputs=asked)
    return [_found(name, entry, around) for name, entry in servers.items()]


def servers_in(document: JSON) -> JSON | None:
    """The servers of a document, by name, wherever it lists them; `None` if it does not.

    Args:
        document: Of any program.
    """
    for place in _PLACES:
        if jsonc.holds(document, place):
            found: Any = document
            for key in place:
                found = found[key]
            if is_object(found) and (place != ("mcp",) or any(map(_is_entry, found.values()))):
                return found
    return None


def entry_of_ours(entry: JSON, around: Surroundings | None = None) -> tuple[JSON, list[str]]:
    """An entry of any program as our file has it.

    Args:
        entry: The entry.
        around: What its references stand for; they stay as they are if it is not given.

    Returns:
        The entry, and the keys that have no meaning here.
    """
    entry = _flattened(entry)
    made = _translated(entry, None if around is None else around.shape)
    if around is not None:
        if "command" in made:
            made.setdefault("args", [])  # else ours would split a path with a blank
        made = {key: _resolved(value, around) for key, value in made.items()}
    unknown = [key for key in entry if RENAMED.get(key, key) not in _KEPT and key not in _WITHOUT_MEANING]
    return made, unknown


def variable_of_input(name: str) -> str:
    """The variable of the environment that stands for what an editor asks for.

    Args:
        name: The name of the input.
    """
    word = _NO_WORD.sub("_", name).strip("_").upper() or "INPUT"
    return f"INPUT_{word}" if word[0].isdigit() else word


def _found(name: str, entry: object, around: Surroundings) -> Found:
    if not is_object(entry) or not _is_entry(entry):
        return Found(name, {}, problem="it has no command and no address")
    made, unknown = entry_of_ours(entry, around)
    notes = tuple(f"{key!r} has no meaning here, and is left out" for key in unknown)
    env_file = entry.get("envFile") or entry.get("env_file")
    used = {
        variable_of_input(asked): about for asked, about in around.inputs.items() if _uses(entry, f"${{input:{asked}}}")
    }
    return Found(
        name,
        made,
        notes=notes,
        problem=next(_problems(made), None),
        is_ours=is_ours(_flattened(entry)),
        env_file=_text_resolved(env_file, around) if isinstance(env_file, str) else None,
        inputs=used,
    )


def _is_entry(value: object) -> bool:
    return is_object(value) and not _WAYS.isdisjoint(_flattened(value))


def _flattened(entry: JSON) -> JSON:
    """An entry without the objects that some programs put between: `command: {path, args, env}` of older releases of
    Zed, `transport: {type, ...}` of Cline, and a command that is one list."""
    for key in ("transport", "command"):
        if is_object(inner := entry.get(key)):
            inner = {("command" if name == "path" else name): value for name, value in inner.items()}
            entry = {name: value for name, value in entry.items() if name != key} | inner
    if is_array(words := entry.get("command")) and words:
        args = entry.get("args")
        entry = {**entry, "command": words[0], "args": [*words[1:], *(args if is_array(args) else [])]}
    return entry


def _translated(entry: JSON, shape: Shape | None) -> JSON:
    made: JSON = {}
    for key, value in entry.items():
        ours = RENAMED.get(key, key)
        if ours in _KEPT and value is not None and (ours == key or ours not in entry):
            made[ours] = value
    _translate_type(made, entry, shape)
    _translate_values(made, entry, shape)
    if is_object(made.get("env")):
        made["env"] = {name: value for name, value in made["env"].items() if value is not None}
    return {key: value for key, value in made.items() if value != {}}


def _translate_type(made: JSON, entry: JSON, shape: Shape | None) -> None:
    kind = _TYPES.get(str(made.get("type")), made.get("type"))
    if "command" in made:
        made.pop("type", None)  # which says no more than that
    elif kind is not None:
        made["type"] = kind
    elif "url" in made and "httpUrl" not in entry and shape is not None and shape.plain_url == "sse":
        made["type"] = "sse"
    if entry.get("enabled") is False:
        made["disabled"] = True
    if made.get("disabled") is False:
        del made["disabled"]


def _translate_values(made: JSON, entry: JSON, shape: Shape | None) -> None:
    timeout = made.get("timeout")
    in_milliseconds = shape.milliseconds if shape is not None else isinstance(timeout, int) and timeout >= _NO_SECONDS
    if in_milliseconds and isinstance(timeout, int | float) and not isinstance(timeout, bool) and "timeout" in entry:
        made["timeout"] = timeout / _MILLISECONDS
    if is_array(names := made.get("tools")):  # Copilot's; ours is an object
        del made["tools"]
        if "*" not in names:
            made["allowed_tools"] = names
    headers = dict(made["headers"]) if is_object(made.get("headers")) else {}
    if is_object(table := entry.get("env_http_headers")):
        headers |= {header: f"${{env:{variable}}}" for header, variable in table.items()}
    if isinstance(variable := entry.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer ${{env:{variable}}}"
    if headers:
        made["headers"] = headers
    if is_object(auth := entry.get("auth")):
        made["oauth"] = {_AUTH_OF_CURSOR[key]: value for key, value in auth.items() if key in _AUTH_OF_CURSOR}
    if is_object(oauth := made.get("oauth")):
        made["oauth"] = {key: value for key, value in oauth.items() if key in OAUTH_KEYS}
    elif "oauth" in made:
        del made["oauth"]


def _resolved(value: Any, around: Surroundings) -> Any:
    if is_object(value):
        return {key: _resolved(item, around) for key, item in value.items()}
    if is_array(value):
        return [_resolved(item, around) for item in value]
    return _text_resolved(value, around) if isinstance(value, str) else value


def _text_resolved(text: str, around: Surroundings) -> str:
    """A text with the references that are not ours translated or filled in."""
    text = _BRACES.sub(r"${\1:\2}", text)
    text = _REFERENCE.sub(lambda reference: _reference(reference, around), text)
    if around.bare:
        return _BARE.sub(r"${env:\1}", text)
    alone = _BARE_ALONE.fullmatch(text)
    return text if alone is None else f"{alone[1]}${{env:{alone[2]}}}"


def _reference(reference: re.Match[str], around: Surroundings) -> str:
    kind, _, name = reference[1].partition(":")
    if kind == "input" and name:
        return f"${{env:{variable_of_input(name)}}}"
    if reference[1] == "userHome":
        return around.home
    if reference[1] in ("pathSeparator", "/"):
        return os.sep
    if around.workspace is not None:
        if reference[1] in ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR"):
            return around.workspace
        if reference[1] == "workspaceFolderBasename":
            return os.path.basename(around.workspace)
    return reference[0]


def _problems(entry: JSON) -> Iterator[str]:
    """References that lead nowhere here."""
    for text in texts_in(entry):
        for reference in _REFERENCE.findall(text):
            kind, colon, _ = reference.partition(":")
            if kind in ("command", "config", "extensionInstallFolder"):
                yield f"it has ${{{kind}{colon}...}}, which the editor alone can fill in"
            elif kind.startswith(("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR")):
                yield f"it has ${{{kind}}}, and its file belongs to no folder: an entry of its own is needed in each"


def _inputs(document: JSON) -> list[Any]:
    inner = document.get("mcp")
    inputs = document.get("inputs") or (inner.get("inputs") if is_object(inner) else None)
    return inputs if is_array(inputs) else []


def _uses(value: Any, word: str) -> bool:
    return any(word in text for text in texts_in(value))
