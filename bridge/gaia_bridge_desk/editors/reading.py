"""The servers of any editor's file, as entries of the bridge: keys, addresses, units and references translated. Pure.

The keys of other programs get our names (`serverUrl`, `httpUrl` -> `url`; `command` as a list; references by
`references`), keys without a counterpart are listed, and no reference is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config.entries import RENAMED
from gaia_bridge.config.oauth_options import OAUTH_KEYS
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_desk.editors import jsonc, toml_tables
from gaia_bridge_desk.editors.entries import is_ours
from gaia_bridge_desk.editors.references import ANY, Translator, variable_of_input
from gaia_bridge_desk.editors.table import EDITORS, VSCODE, EntryShape

_SHAPES: Final = {editor.name: editor.shape for editor in EDITORS}
_PLACES: Final[tuple[tuple[tuple[str, ...], EntryShape | None], ...]] = (
    (("mcpServers",), None),
    (("servers",), VSCODE),
    (("mcp_servers",), _SHAPES["codex"]),
    (("context_servers",), _SHAPES["zed"]),
    (("mcp", "servers"), VSCODE),
    (("mcp",), _SHAPES["opencode"]),
    (("customizations", "vscode", "mcp", "servers"), VSCODE),
    (("settings", "mcp", "servers"), VSCODE),
)
"""Where programs list servers, and in which shape: Claude, Cursor and most others; VS Code; Codex; Zed; VS Code's old
settings; opencode; devcontainer.json; *.code-workspace."""

_WAYS: Final = frozenset({"command", "url", "agent", "openapi", "serverUrl", "httpUrl"})
"""An object with one of these keys is an entry."""

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
"""The keys of our own entries."""

_OURS_ALONE: Final = frozenset(
    {"agent", "openapi", "proxy", "inherit_env", "startup_timeout", "idle_timeout", "max_concurrency", "isolation"}
    | {"era", "lazy"}
)
"""Keys of the bridge alone: in files of other programs, they mean nothing."""

_CODEXS_ALONE: Final = frozenset({"env_vars", "bearer_token_env_var", "env_http_headers", "startup_timeout_ms"})
"""Keys that pass the user's variables on; only files of Codex have them."""

_WITHOUT_MEANING: Final = frozenset(
    {"$schema", "alwaysAllow", "alwaysLoad", "autoApprove", "description", "dev", "gallery", "name", "source"}
    | {"default_tools_approval_mode", "required", "sandbox", "sandboxEnabled", "trust", "version", "enabled"}
    | {"remote", "supports_parallel_tool_calls", "transport", "auth", "bearer_token_env_var", "env_http_headers"}
    | {"envFile", "env_file", "requestOptions", "startup_timeout_ms"}
)
"""Keys that control how the editor treats the server, and keys that were translated."""

_AUTH_OF_CURSOR: Final = {"CLIENT_ID": "clientId", "CLIENT_SECRET": "clientSecret", "scopes": "scopes"}

_MILLISECOND: Final = 0.001
"""Seconds."""

_NO_SECONDS: Final = 10_000
"""A timeout from this value on is in milliseconds, where the unit is not known."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITH_ARGUMENTS: Final = re.compile(r"\([^()]*\)\Z")
"""Arguments behind the name of a tool, which Gemini CLI accepts and we drop."""


class ReferenceValues(Struct, frozen=True):
    """The values that an editor's references stand for.

    Args:
        home: The home folder.
        workspace: The folder that is open, where the file belongs to one.
        shape: The form of the editor's entries, where the editor is known.
        beside: The folder of a file of the user's own, where the files that it refers to begin; `None` for a file of
            others, for which none is read.
        project: The folder whose own servers count, of those that Claude Code keeps in one file for all folders.
        inputs: The names of the inputs that the editor asks for, with their descriptions.
    """

    home: str
    workspace: str | None = None
    shape: EntryShape | None = None
    beside: str | None = None
    project: str | None = None
    inputs: Mapping[str, str] = {}


class Found(Struct, frozen=True):
    """A server of an editor.

    Args:
        name: Its name there.
        entry: The entry in our own form.
        notes: Facts that the entry cannot express.
        problem: Why the server cannot be used here; `None` if it can.
        is_ours: Whether the server is the bridge itself.
        env_file: The file with further variables that the entry names.
        inputs: The inputs that the entry uses, by the variables that stand for them in `entry`.
    """

    name: str
    entry: JSON
    notes: tuple[str, ...] = ()
    problem: str | None = None
    is_ours: bool = False
    env_file: str | None = None
    inputs: Mapping[str, str] = {}


def document_of(text: str, *, toml: bool = False) -> JSON:
    """Parse the text of an editor's file.

    Args:
        text: Its text.
        toml: Whether the text is TOML, and not JSON.

    Raises:
        EditError: The text is not valid.
    """
    return toml_tables.read(text) if toml else jsonc.read(text)


def servers_of(document: JSON, around: ReferenceValues) -> list[Found]:
    """Return the servers that a document lists.

    Args:
        document: A document of any program.
        around: The values that its references stand for.
    """
    servers = dict(servers_in(document) or {})
    own = jsonc.inside(document, ("projects", around.project, "mcpServers")) if around.project else None
    return found_in(document, servers | (own if is_object(own) else {}), around)


def found_in(document: JSON, servers: JSON, around: ReferenceValues) -> list[Found]:
    """Translate servers of an editor to our own form.

    Args:
        document: The document that lists them, with the inputs that the editor asks for.
        servers: The servers to translate, by name.
        around: The values that their references stand for.
    """
    asked = {
        str(item["id"]): str(item.get("description") or item["id"])
        for item in _inputs(document)
        if is_object(item) and "id" in item
    }
    around = replace(around, inputs=asked, shape=around.shape or _place_in(document)[1])
    return [_server(name, entry, around) for name, entry in servers.items()]


def servers_in(document: JSON) -> JSON | None:
    """Return the servers of a document, by name, wherever it lists them; `None` if it lists none.

    Args:
        document: A document of any program.
    """
    return _place_in(document)[0]


def _place_in(document: JSON) -> tuple[JSON | None, EntryShape | None]:
    """Return the servers of a document, and the shape that their place implies."""
    for place, shape in _PLACES:
        servers = jsonc.inside(document, place)
        if is_object(servers) and (place != ("mcp",) or any(map(_is_entry, servers.values()))):
            return servers, shape
    return None, None


def entry_of_ours(entry: JSON, shape: EntryShape | None = None) -> tuple[JSON, list[str]]:
    """Translate an entry of any program to our own keys; its texts stay as they are.

    Args:
        entry: The entry.
        shape: The form of the program's entries, if it is known.

    Returns:
        The entry, and the keys that have no meaning here.
    """
    entry = _flattened(entry)
    foreign = [key for key in entry if shape is not None and _is_without_meaning(key, entry[key], shape)]
    entry = {key: value for key, value in entry.items() if key not in foreign}
    unknown = [key for key in entry if RENAMED.get(key, key) not in _KEPT and key not in _WITHOUT_MEANING]
    return _translated(entry, shape), [*foreign, *unknown]


def _is_without_meaning(key: str, value: object, shape: EntryShape) -> bool:
    """Return whether a key of the bridge has no meaning in files of a program."""
    if key in _CODEXS_ALONE:
        return shape.bearer_variable is None
    if key in ("envFile", "env_file"):
        return not shape.env_file
    if key == "timeout":
        return shape.timeout is None
    if key in ("env", "environment"):
        return key != shape.env
    if key in ("headers", "http_headers"):
        return key != shape.headers
    return key in _OURS_ALONE or (key == "tools" and not is_array(value))


def _server(name: str, entry: object, around: ReferenceValues) -> Found:
    if not is_object(entry) or not _is_entry(entry):
        return Found(name, {}, problem="it has no command and no address")
    shape = around.shape
    made, unknown = entry_of_ours(entry, shape)
    if "command" in made:
        made.setdefault("args", [])  # else our parser would split a path at a blank
    language = ANY if shape is None else shape.references
    translator = Translator(language, around.home, around.workspace, around.beside)
    made = translator.entry(made)
    if "bearer_token_env_var" not in unknown and "env_http_headers" not in unknown:
        made = _with_variables(made, entry)
    named, env_file = entry.get("envFile") or entry.get("env_file"), None
    if isinstance(named, str) and {"envFile", "env_file"}.isdisjoint(unknown):
        env_file = translator.text(named, "cwd")
    notes = [f"{key!r} has no meaning here, and is left out" for key in unknown]
    if shape is not None and translator.texts:
        notes.append(f"{translator.texts[0]} means nothing to its program, and stays a text here")
    used = {variable_of_input(name): str(around.inputs.get(name, name)) for name in sorted(translator.inputs)}
    return Found(
        name,
        made,
        notes=tuple(notes),
        problem=next(iter(translator.problems), None),
        is_ours=is_ours(_flattened(entry)),
        env_file=env_file,
        inputs=used,
    )


def _is_entry(value: object) -> bool:
    return is_object(value) and not _WAYS.isdisjoint(_flattened(value))


def _flattened(entry: JSON) -> JSON:
    """Merge the objects that some programs nest in an entry: `command: {path, args, env}` of older releases of Zed,
    `transport: {type, ...}` of Cline, `requestOptions: {headers}` of Continue; and split a command that is one list."""
    for key in ("transport", "command", "requestOptions"):
        if is_object(inner := entry.get(key)):
            inner = {("command" if name == "path" else name): value for name, value in inner.items()}
            entry = {name: value for name, value in entry.items() if name != key} | inner
    if is_array(words := entry.get("command")) and words:
        args = entry.get("args")
        entry = {**entry, "command": words[0], "args": [*words[1:], *(args if is_array(args) else [])]}
    return entry


def _translated(entry: JSON, shape: EntryShape | None) -> JSON:
    made: JSON = {}
    for key, value in entry.items():
        ours = RENAMED.get(key, key)
        if ours in _KEPT and value is not None and (ours == key or ours not in entry):
            both = ours == "disabled_tools" and is_array(made.get(ours)) and is_array(value)
            made[ours] = [*made[ours], *value] if both else value
    _translate_type(made, entry, shape)
    _translate_state(made, entry)
    _translate_times(made, entry, shape)
    _translate_tools(made, entry)
    _translate_login(made, entry)
    if is_object(made.get("env")):
        made["env"] = {name: value for name, value in made["env"].items() if value is not None}
    return {key: value for key, value in made.items() if value != {}}


def _translate_type(made: JSON, entry: JSON, shape: EntryShape | None) -> None:
    kind = _TYPES.get(str(made.get("type")), made.get("type"))
    if "command" in made:
        made.pop("type", None)  # a type that adds nothing
    elif kind is not None:
        made["type"] = kind
    elif "url" in made and "httpUrl" not in entry and shape is not None and shape.plain_url == "sse":
        made["type"] = "sse"


def _translate_state(made: JSON, entry: JSON) -> None:
    """Translate `disabled` and `enabled`: a server is off unless a value plainly says that it is on."""
    is_off = entry.get("disabled") not in (None, False) or entry.get("enabled") not in (None, True)
    made.pop("disabled", None)
    if is_off:
        made["disabled"] = True


def _translate_times(made: JSON, entry: JSON, shape: EntryShape | None) -> None:
    timeout = made.get("timeout")
    unit = shape.timeout or 1 if shape is not None else 1
    if shape is None and isinstance(timeout, int) and timeout >= _NO_SECONDS:
        unit = _MILLISECOND
    if "timeout" in entry and isinstance(timeout, int | float) and not isinstance(timeout, bool) and unit != 1:
        made["timeout"] = timeout / round(1 / unit)
    start = entry.get("startup_timeout_ms")
    if isinstance(start, int | float) and not isinstance(start, bool):
        made.setdefault("startup_timeout", start / round(1 / _MILLISECOND))


def _translate_tools(made: JSON, entry: JSON) -> None:
    if is_array(names := made.get("tools")):  # Copilot's; ours is an object
        del made["tools"]
        if "*" not in names:
            made["allowed_tools"] = names
    if is_array(names := entry.get("includeTools")):
        made["allowed_tools"] = [_WITH_ARGUMENTS.sub("", name) if isinstance(name, str) else name for name in names]
    if is_array(names := made.get("inherit_env")):  # of Codex, where some are those of another machine
        named = [{"name": name} if isinstance(name, str) else name for name in names]
        made["inherit_env"] = [
            each["name"] for each in named if is_object(each) and "name" in each and each.get("source") != "remote"
        ]


def _with_variables(made: JSON, entry: JSON) -> JSON:
    """Return an entry with the headers that Codex takes from variables."""
    headers = dict(made["headers"]) if is_object(made.get("headers")) else {}
    table = entry.get("env_http_headers")
    named = [(header, "", variable) for header, variable in (table.items() if is_object(table) else ())]
    named += [("Authorization", "Bearer ", entry.get("bearer_token_env_var"))]
    for header, before, variable in named:
        if isinstance(variable, str) and _VARIABLE.fullmatch(variable):
            headers[header] = f"{before}${{env:{variable}}}"
    return {**made, "headers": headers} if headers else made


def _translate_login(made: JSON, entry: JSON) -> None:
    if is_object(auth := entry.get("auth")):
        made["oauth"] = {_AUTH_OF_CURSOR[key]: value for key, value in auth.items() if key in _AUTH_OF_CURSOR}
    if is_object(oauth := made.get("oauth")):
        made["oauth"] = {key: value for key, value in oauth.items() if key in OAUTH_KEYS}
    elif "oauth" in made and made["oauth"] is not False:
        del made["oauth"]


def _inputs(document: JSON) -> list[Any]:
    inner = document.get("mcp")
    inputs = document.get("inputs") or (inner.get("inputs") if is_object(inner) else None)
    return inputs if is_array(inputs) else []
