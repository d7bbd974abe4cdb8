"""Converts one entry of `mcp_servers.json` to the fields that a transport needs, and a command line to an entry.

    {"command": "npx", "args": [...], "env": {...}, "cwd": ..., "inherit_env": [...]}        a child process
    {"url": "https://...", "headers": {...}, "oauth": {...}, "type": "http" or "sse"}        a server over HTTP
    {"agent": "code"}                                                         an agent of the same process
    {"openapi": "https://... or a path", "url": ..., "headers": {...}}        an HTTP API, by its OpenAPI document

Servers over HTTP and HTTP APIs may have `proxy`. Each may have `timeout startup_timeout idle_timeout max_concurrency
isolation era disabled lazy allowed_tools disabled_tools tools`. A command is never given to a shell; it is split where
there are no `args`.

People also write in an entry as they would for a shell: one line in place of a list, and `$VAR`.

    {"command": "uvx mcp-server-time"}                    is split, as there are no `args` and no program of that name
    {"command": "$HOME/bin/server"}                       is refused: only `${HOME}` is filled in
    {"command": "server", "args": ["$HOME/data"]}         is passed on as it is, with a warning

`$VAR` is not filled in because `$` is a character of passwords, of regular expressions and of scripts (`sh -c`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config.expansion import Expander, has_reference, without_references
from gaia_bridge.config.launching.command_lines import is_program, split_command
from gaia_bridge.config.oauth_options import OAUTH_KEYS, oauth_options
from gaia_bridge.config.paths import expanded
from gaia_bridge.config.problems import EntryError, kind_of
from gaia_bridge.config.tool_transforms import tailored_sections, tool_tailorings
from gaia_bridge.config.values import Values
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import (
    AgentServerSpec,
    HttpServerSpec,
    OAuthOptions,
    OpenApiServerSpec,
    ServerOptions,
    ServerSpec,
    StdioServerSpec,
    repr_without,
)
from gaia_bridge.protocol.names import SERVER_NAME_RULE, is_server_name, is_source_name
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import is_loopback_host

_BLANK: Final = re.compile(r"\s")

_BARE: Final = re.compile(r"(?<![^/\\:;=,])\$([A-Za-z_][A-Za-z0-9_]*)(?![^/\\:;,])")
"""A variable of a shell as a whole part of a path, of a list of paths, or after `=`; not a `$` inside of a word."""

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "fish", "cmd", "powershell", "pwsh"})
"""Programs that fill in `$VAR` themselves."""


def with_arguments(entry: JSON, expander: Expander) -> JSON:
    """Return the entry with `args` of its own, if its command has blanks and no `args` beside it.

    The entry is not changed if there is a program of exactly that name or path, or if its first word is the path of a
    program that does not exist: then the blank is more likely a part of the path. References are not filled in.

    Raises:
        EntryError: The command cannot be split, or a reference in it leads nowhere.
    """
    command = entry.get("command")
    if entry.get("args") is not None or not isinstance(command, str) or not command.strip():
        return entry
    if not _BLANK.search(command):
        return entry
    cwd: Any = entry.get("cwd")
    env: Any = entry.get("env")
    folder = expander.path("'cwd'", cwd) if isinstance(cwd, str) else None
    search: Any = env.get("PATH") if is_object(env) else None
    search = expander.path("'PATH' in 'env'", search) if isinstance(search, str) else None
    if is_program(expander.path("'command'", command), search, folder):
        return entry
    try:
        program, *arguments = split_command(command)
    except ValueError as error:
        raise EntryError(f"{error}; or write 'args' beside it, which keep 'command' whole") from None
    launched = expander.path("'command'", program)
    if os.path.dirname(launched) and not is_program(launched, search, folder):
        return entry
    return {**entry, "command": program, "args": arguments}


def refuse_bare_variables(entry: JSON) -> None:
    """Refuse `$VAR` where no shell sees it and it can only be meant as a variable.

    Raises:
        EntryError: `command` or `cwd` has one, and there is no such file; the message names it.
    """
    for key in ("command", "cwd"):
        text = entry.get(key)
        if not isinstance(text, str) or (match := _BARE.search(without_references(text))) is None:
            continue
        if "\0" in text or not os.path.exists(text):
            raise EntryError(f"{key!r} has ${match[1]}, which is not filled in; write ${{{match[1]}}}")


def bare_variable_warnings(entry: JSON, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each `$VAR` that was probably meant to be filled in: it is passed on as it is.

    Only the variables of `environ` are named: any other text with a `$` may be a secret.
    """
    args, env, command = entry.get("args"), entry.get("env"), entry.get("command")
    texts: list[tuple[str, Any]] = []
    if is_array(args) and not (isinstance(command, str) and os.path.basename(command) in _SHELLS):
        texts += [(f"item {number} of 'args'", arg) for number, arg in enumerate(args, 1)]
    if is_object(env):
        texts += [(f"{name!r} in 'env'", value) for name, value in env.items()]
    for place, text in texts:
        names = _BARE.findall(without_references(text)) if isinstance(text, str) else ()
        if (name := next((name for name in names if name in environ), None)) is not None:
            yield f"{place} has ${name}, which is passed on as it is; to have it filled in, write ${{{name}}}"


KEYS_OF: Final = {
    "command": frozenset({"command", "args", "env", "cwd", "inherit_env"}),
    "url": frozenset({"url", "headers", "oauth", "proxy"}),
    "agent": frozenset({"agent"}),
    "openapi": frozenset({"openapi", "url", "headers", "proxy"}),
}
"""The keys that are allowed for each way to reach a server."""

_OF_SOME_WAY: Final = frozenset[str]().union(*KEYS_OF.values())

OPTION_KEYS: Final = frozenset(
    (
        *("allowed_tools", "disabled", "disabled_tools", "era", "idle_timeout", "isolation", "lazy"),
        *("max_concurrency", "startup_timeout", "timeout", "tools", "type"),
    )
)
"""Keys that are allowed with every way to reach a server."""

_SELF_TRUST: Final = frozenset({"approved", "trust", "trusted"})
_SSE: Final = "sse"
_HTTP_TYPES: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})
"""The editors' spellings of Streamable HTTP."""

RENAMED: Final = {
    "serverUrl": "url",
    "httpUrl": "url",
    "environment": "env",
    "http_headers": "headers",
    "enabled_tools": "allowed_tools",
    "includeTools": "allowed_tools",
    "excludeTools": "disabled_tools",
    "disabledTools": "disabled_tools",
    "env_vars": "inherit_env",
    "startup_timeout_sec": "startup_timeout",
    "tool_timeout_sec": "timeout",
}
"""Other programs' names of our keys, with values of the same kind: `import` and `add` rename them."""

_NAMED_ELSEWHERE: Final[dict[str, str]] = {
    **dict.fromkeys(("server_url", "http_url", "uri", "endpoint"), "url"),
    **dict.fromkeys(("workingDirectory", "working_directory", "workdir"), "cwd"),
    **dict.fromkeys(("startupTimeout", "startup_timeout_ms", "initTimeout"), "startup_timeout"),
    **dict.fromkeys(("toolTimeout", "requestTimeout", "timeout_ms", "timeoutMs"), "timeout"),
    "enabled": "disabled",
    **RENAMED,
}
"""Other programs' names of our keys, or of similar ones."""

_LONG_TIMEOUT: Final = 3_600.0
"""Seconds from which on a timeout was probably meant in milliseconds, as some editors count."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e\t]*")


class ParsedEntry(Struct, frozen=True):
    """One entry, parsed."""

    spec: ServerSpec
    warnings: tuple[str, ...] = ()
    """Warnings for the user about an entry that can be used."""
    secrets: frozenset[str] = frozenset()
    """The values of its references, for redaction."""

    def __repr__(self) -> str:
        return repr_without(self, "secrets")


def parse_entry(name: str, entry: object, folder: Path, environ: Mapping[str, str] | None = None) -> ParsedEntry:
    """Parse one entry.

    Args:
        name: Its key.
        entry: Its value, as decoded.
        folder: The folder of its file; relative paths in `${file:...}` begin there.
        environ: The variables for `${VAR}`; the process environment if not given.

    Raises:
        EntryError: The entry cannot be used; the message says why, and shows no value.
    """
    if not is_server_name(name):
        raise EntryError(SERVER_NAME_RULE)
    if not is_object(entry):
        raise EntryError(f"the entry is {kind_of(entry)}; expected an object")
    way = _way(entry)
    environ = os.environ if environ is None else environ
    expander, of_tools = Expander(environ, folder, entry), Expander(environ, folder)
    if way == "command":
        entry = with_arguments(entry, expander)
        refuse_bare_variables(entry)
    values = Values(expander.entry(entry))
    tools = tool_tailorings(values, of_tools)
    options = replace(_options(values), tools=tools, secrets=tuple(sorted(of_tools.secrets)))
    spec = _SPECS[way](name, values, options)
    if isinstance(spec, OpenApiServerSpec):
        spec = replace(spec, document=_place_of_document(values.text("openapi") or "", folder))
    warnings = [*_key_warnings(entry, way), *_value_warnings(spec)]
    if way == "command":
        warnings += bare_variable_warnings(entry, environ)
    return ParsedEntry(spec, tuple(warnings), frozenset(expander.secrets | of_tools.secrets))


def entry_of(command_line: str | Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> JSON:
    """Return the entry for a command that a person typed.

    Args:
        command_line: One line, which is split as a shell would unless it is the path of a program with blanks in it;
            or the program and its arguments.
        env: Variables for the process.
        cwd: Its folder.

    Raises:
        EntryError: The line is empty, has an open quote, or needs a shell; the message says which.
    """
    try:
        if isinstance(command_line, str) and not is_program(command_line):
            words = split_command(command_line)
        else:
            words = [command_line] if isinstance(command_line, str) else list(command_line)
    except ValueError as error:
        raise EntryError(str(error)) from None
    if not words or not words[0].strip():
        raise EntryError("the command is empty; expected a program and its arguments")
    entry: JSON = {"command": words[0], "args": words[1:]}
    if env:
        entry["env"] = dict(env)
    if cwd is not None:
        entry["cwd"] = cwd
    return entry


def _way(entry: JSON) -> str:
    """Return the key that decides how the server is reached."""
    given = [way for way in KEYS_OF if entry.get(way) is not None]
    if "openapi" in given:
        given = [way for way in given if way != "url"]  # there, it is the address of the API
    if len(given) > 1:
        raise EntryError(f"it has both {given[0]!r} and {given[1]!r}; keep one of them")
    if not given:
        raise EntryError(f"it has no 'command' and no 'url'; expected one of them{_suggestion(entry)}")
    [way] = given
    kind = entry.get("type")
    if way == "url" and kind not in (None, _SSE, *_HTTP_TYPES):
        raise EntryError("its 'type' does not go with 'url'; expected \"http\", \"sse\" or none")
    if way == "command" and kind not in (None, "stdio"):
        raise EntryError("its 'type' does not go with 'command'; expected \"stdio\" or none")
    if way in ("agent", "openapi") and kind is not None:
        raise EntryError(f"its 'type' does not go with {way!r}; expected none")
    return way


def _suggestion(entry: JSON) -> str:
    """Suggest the key for reaching a server that was probably meant by another key of the entry."""
    for key in entry:
        if suggestion := _NAMED_ELSEWHERE.get(key) or _closest(key, KEYS_OF):
            return f"; is {key!r} meant to be {suggestion!r}?"
    return ""


def _options(values: Values) -> ServerOptions:
    era = values.choice("era", "auto", "handshake", "2026-07-28")
    return ServerOptions(
        timeout=values.seconds("timeout"),
        startup_timeout=values.seconds("startup_timeout"),
        idle_timeout=values.seconds("idle_timeout"),
        max_concurrency=values.count("max_concurrency"),
        isolation="session" if values.choice("isolation", "shared", "session") == "session" else "shared",
        era="handshake" if era == "handshake" else "2026-07-28" if era == "2026-07-28" else "auto",
        disabled=values.flag("disabled", False),
        lazy=values.flag("lazy", True),
        allowed_tools=values.texts("allowed_tools"),
        disabled_tools=values.texts("disabled_tools") or (),
    )


def _stdio_spec(name: str, values: Values, options: ServerOptions) -> StdioServerSpec:
    command = values.text("command") or ""
    if not command.strip():
        raise EntryError("'command' is empty")
    env, inherited = values.table("env"), values.flag_or_texts("inherit_env")
    for place, names in (("env", env), ("inherit_env", () if isinstance(inherited, bool) else inherited)):
        for variable in names:
            if not variable or "=" in variable or "\0" in variable:
                raise EntryError(f"{variable!r} in '{place}' cannot be the name of a variable")
    args, cwd = values.texts("args") or (), values.text("cwd") or None
    return StdioServerSpec(name, command, args, env, cwd, inherited, options)


def _http_spec(name: str, values: Values, options: ServerOptions) -> HttpServerSpec:
    url = values.text("url") or ""
    _split_url(url)
    is_sse = values.text("type") == _SSE
    return HttpServerSpec(name, url, _headers(values), is_sse, options, oauth_options(values), _proxy(values))


def _openapi_spec(name: str, values: Values, options: ServerOptions) -> OpenApiServerSpec:
    url = values.text("url")
    if url is not None:
        _split_url(url)
    return OpenApiServerSpec(name, values.text("openapi") or "", url, _headers(values), options, _proxy(values))


def _place_of_document(text: str, folder: Path) -> str:
    """Return the place of an OpenAPI document: a URL, or the absolute path of a file."""
    if "://" in text:
        _split_url(text, "openapi")
        return text
    if not text.strip():
        raise EntryError("'openapi' is empty; expected the URL or the path of an OpenAPI document")
    try:
        return str((folder / expanded(Path(text))).absolute())
    except ConfigError as error:
        raise EntryError(f"'openapi': {error}") from None


def _proxy(values: Values) -> str | Literal[False] | None:
    if "proxy" not in values:
        return None
    if values.anything("proxy") is False:
        return False
    from gaia_bridge.config.proxies import ProxyAddressError, proxy_at  # most entries have none

    text = values.text("proxy") or ""
    try:
        proxy_at(text, "'proxy'")
    except ProxyAddressError as error:
        raise EntryError(str(error)) from None
    return text


def _headers(values: Values) -> dict[str, str]:
    headers = values.table("headers")
    for header, value in headers.items():
        if not _HEADER_NAME.fullmatch(header):
            raise EntryError(f"{header!r} in 'headers' cannot be the name of a header")
        if not _HEADER_VALUE.fullmatch(value):
            raise EntryError(f"{header!r} in 'headers' has a line end or another character that no header can carry")
    if len({header.lower() for header in headers}) < len(headers):
        raise EntryError("'headers' has a header twice; upper and lower case are the same there")
    return headers


def _agent_spec(name: str, values: Values, options: ServerOptions) -> AgentServerSpec:
    agent = values.text("agent") or ""
    if not is_source_name(agent):
        raise EntryError("'agent' is no name of an agent; expected the one that it is published under")
    return AgentServerSpec(name, agent, options)


_SPECS: Final[Mapping[str, Callable[[str, Values, ServerOptions], ServerSpec]]] = {
    "command": _stdio_spec,
    "url": _http_spec,
    "agent": _agent_spec,
    "openapi": _openapi_spec,
}


def _split_url(url: str, key: str = "url") -> SplitResult:
    if not url.isprintable() or any(character in url for character in ' \\"<>'):
        raise EntryError(f"'{key}' has a character that no URL can have")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise EntryError(f"'{key}' is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise EntryError(f"'{key}' is no address of a server; expected http://HOST or https://HOST")
    return parts


def _key_warnings(entry: JSON, way: str) -> Iterator[str]:
    allowed = OPTION_KEYS | KEYS_OF[way]
    if way == "url" and is_object(oauth := entry.get("oauth")):
        yield from (_unknown(key, OAUTH_KEYS, " in 'oauth'") for key in oauth if key not in OAUTH_KEYS)
    for place, section, heeded in tailored_sections(entry):
        yield from (_unknown(key, heeded, f" in '{place}'") for key in section if key not in heeded)
    for key in entry:
        if key in allowed:
            continue
        if key.lower() in _SELF_TRUST:
            yield f"{key!r} is not heeded: a file cannot approve its own servers"
        elif key in _OF_SOME_WAY:
            if entry[key] is not None and not (key == "env" and has_reference(entry)):
                yield f"{key!r} is not heeded: it does not go with {way!r}"
        else:
            yield _unknown(key, allowed)


def _unknown(key: str, allowed: Set[str], place: str = "") -> str:
    suggestion = None if place else _NAMED_ELSEWHERE.get(key)
    if suggestion not in allowed:
        suggestion = _closest(key, allowed)
    return f"{key!r}{place} is not known" + (f"; is it meant to be {suggestion!r}?" if suggestion else "")


def _closest(key: str, keys: Iterable[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(key, keys, n=1, cutoff=0.8)), None)


def _value_warnings(spec: ServerSpec) -> Iterator[str]:
    options = spec.options
    for key, seconds in (("timeout", options.timeout), ("startup_timeout", options.startup_timeout)):
        if seconds is not None and seconds >= _LONG_TIMEOUT:
            yield f"{key!r} is {seconds:g} seconds; is it meant in milliseconds?"
    if isinstance(spec, HttpServerSpec):
        yield from _url_warnings("url", spec.url)
        yield from _oauth_warnings(spec)
        if spec.proxy and is_loopback_host(_split_url(spec.url).hostname or ""):
            yield "'proxy' is not heeded: this machine is reached directly"
    elif isinstance(spec, OpenApiServerSpec):
        for key, place in (("openapi", spec.document), ("url", spec.url)):
            if isinstance(place, str) and "://" in place:
                yield from _url_warnings(key, place)


def _url_warnings(key: str, url: str) -> Iterator[str]:
    parts = _split_url(url)
    if parts.scheme == "http" and not is_loopback_host(parts.hostname or ""):
        yield f"'{key}' is plain http: what is sent, credentials too, can be read and changed on the way"
    if "@" in parts.netloc:
        yield f"'{key}' has a user or password in it; a header with ${{env:...}} keeps it out of the file"


def _oauth_warnings(spec: HttpServerSpec) -> Iterator[str]:
    oauth = spec.oauth or OAuthOptions()
    if oauth != OAuthOptions() and any(name.lower() == "authorization" for name in spec.headers):
        yield "'oauth' is not heeded: 'headers' has an Authorization of its own"
    elif oauth.client_secret is not None and oauth.issuer is None:
        yield "'clientSecret' in 'oauth' is for whoever the server sends us to; 'issuer' beside it says who that may be"
