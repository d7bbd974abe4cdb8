"""Makes an entry from a typed command, URL or address of an API, or from a pasted entry. Pure.

Documentation of servers has entries in the forms of several programs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.protocol.names import MAX_SERVER_NAME, is_server_name
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.editors.jsonc import strict
from gaia_bridge_desk.editors.reading import Found, ReferenceValues, found_in, servers_in

if TYPE_CHECKING:
    pass

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
"""A variable before a command for a shell, which the command sees."""


def named_values(option: str, words: Sequence[str], sign: str, otherwise: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and values of an option that may be given several times.

    Args:
        option: The option.
        words: The values of the option.
        sign: The separator of a name and its value.
        otherwise: Another form that the option allows, for the error.

    Raises:
        click.UsageError: One is of another form; it is not quoted, because it may be a secret.
    """
    for number, word in enumerate(words, 1):
        name, separator, value = word.partition(sign)
        if not separator or not name.strip():
            which = f" (number {number} of {len(words)})" if len(words) > 1 else ""
            problem = "what came is not shown, because it may be a secret"
            raise click.UsageError(f"{option}{which}: expected NAME{sign}VALUE{otherwise}; {problem}")
        yield name.strip(), value


class Typed(Struct, frozen=True):
    """The options that were typed beside the name of a server and its command.

    Args:
        env: `NAME=VALUE`, or `NAME` for a variable that is referred to.
        header: `NAME:VALUE`.
        sse: Whether the URL speaks HTTP+SSE.
        openapi: The document of an HTTP API.
        cwd: The folder of the program.
        inherit_env: Whether the program sees all variables.
        timeout: Seconds for a request.
        startup_timeout: Seconds for a start.
    """

    env: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    sse: bool = False
    openapi: str | None = None
    cwd: str | None = None
    inherit_env: bool = False
    timeout: float | None = None
    startup_timeout: float | None = None

    @property
    def says_how(self) -> bool:
        """Whether one of them decides how the server is reached."""
        return bool(self.env or self.header or self.sse or self.cwd)

    def variables(self) -> dict[str, str]:
        """Return the variables: a name alone refers to the variable of that name.

        Raises:
            click.UsageError: One is of another form.
        """
        words = [f"{word}=${{env:{word}}}" if _NAME.fullmatch(word) else word for word in self.env]
        return dict(named_values("--env", words, "=", ", or NAME for a variable that you have"))

    def headers(self) -> dict[str, str]:
        """Return the headers.

        Raises:
            click.UsageError: One is of another form.
        """
        return {name: value.strip() for name, value in named_values("--header", self.header, ":")}

    def further(self, entry: JSON) -> JSON:
        """Return the entry with the options that do not decide how the server is reached.

        Raises:
            click.UsageError: An option does not go with the entry.
        """
        from gaia_bridge.settings import UpstreamLimits

        options: JSON = {}
        if self.inherit_env:
            if "url" in entry or "openapi" in entry:
                raise click.UsageError("--inherit-env is for a COMMAND, and this is a URL")
            options["inherit_env"] = True
        if self.timeout is not None:
            options["timeout"] = self.timeout
            if self.timeout > UpstreamLimits().connect_timeout:
                options["startup_timeout"] = self.timeout
        if self.startup_timeout is not None:
            options["startup_timeout"] = self.startup_timeout
        return entry | options


def typed_entry(name: str, command: Sequence[str], typed: Typed) -> JSON:
    """Return the entry for a typed command line.

    Args:
        name: The server's name.
        command: One text, as in a terminal, or several words; or a URL.
        typed: The other options.

    Raises:
        click.UsageError: The words and options contradict each other, or are not valid.
    """
    env, headers = typed.variables(), typed.headers()
    if typed.openapi is not None:
        return typed.further(_api_entry(name, typed.openapi, command, env, headers, typed.sse or bool(typed.cwd)))
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", command[0]) if len(command) == 1 else None
    if scheme is not None:
        return typed.further(_url_entry(command[0], scheme[1], env, headers, typed))
    if headers or typed.sse:
        raise click.UsageError("--header and --sse are for a URL, and this is a COMMAND")
    return typed.further(_program_entry(command, env, typed.cwd))


def _url_entry(url: str, scheme: str, env: dict[str, str], headers: dict[str, str], typed: Typed) -> JSON:
    if scheme.lower() not in ("http", "https"):
        raise click.UsageError(f"{url!r} is reached over {scheme}; expected a URL of http or https, or a COMMAND")
    if env or typed.cwd:
        raise click.UsageError("--env and --cwd are for a COMMAND, and this is a URL")
    entry: JSON = {"url": url}
    if headers:
        entry["headers"] = headers
    return entry | ({"type": "sse"} if typed.sse else {})


def _program_entry(command: Sequence[str], env: dict[str, str], cwd: str | None) -> JSON:
    """Return the entry of a program; the variables before it are its own, as in a shell."""
    from gaia_bridge.config import entry_of
    from gaia_bridge.config.launching.command_lines import is_program, split_command

    words: str | list[str] = command[0] if len(command) == 1 else [*command]
    try:
        if isinstance(words, str) and _ASSIGNMENT.match(words.lstrip()) and not is_program(words):
            words = split_command(words)
        if not isinstance(words, str):
            words, before = _without_assignments(words)
            env = before | env
            if not words:
                raise click.UsageError(f"the command is missing after {', '.join(before)}; expected a program")
        if isinstance(words, str) or len(words) == 1:
            _refuse_slip(words if isinstance(words, str) else words[0])
        made: dict[str, Any] = entry_of(words, env or None, cwd)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return made


def _without_assignments(words: list[str]) -> tuple[list[str], dict[str, str]]:
    variables: dict[str, str] = {}
    for number, word in enumerate(words):
        if (assignment := _ASSIGNMENT.fullmatch(word)) is None:
            return words[number:], variables
        variables[assignment[1]] = assignment[2]
    return [], variables


def _api_entry(
    name: str, document: str, command: Sequence[str], env: dict[str, str], headers: dict[str, str], others: bool
) -> JSON:
    """Return the entry of an HTTP API."""
    if "://" in name or not is_server_name(name):
        raise click.UsageError(f"NAME is missing: gaia-bridge add NAME --openapi {shlex.quote(document)}")
    if env or others or len(command) > 1 or not all(re.match("https?://", word) for word in command):
        raise click.UsageError("--openapi goes with NAME, --header and the URL of the API: nothing is started")
    entry: JSON = {"openapi": document, **({"url": command[0]} if command else {})}
    return entry | ({"headers": headers} if headers else {})


def _refuse_slip(line: str) -> None:
    """Report what was probably meant, where a command line is obviously none.

    Raises:
        click.UsageError: The line is no command line.
    """
    if line.endswith(".py") and os.path.isfile(line) and not os.access(line, os.X_OK):
        file = shlex.quote(line)
        raise click.UsageError(
            f"{line!r} is no program; an agent in it is published by `gaia-bridge serve {file}`, "
            f"and an MCP server is added by `gaia-bridge add NAME python {file}`"
        )
    if re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?/\S*|[\w.-]+:\d+(/\S*)?", line) and not os.path.exists(line):
        scheme = "http" if is_loopback_host(re.split("[:/]", line)[0]) else "https"
        raise click.UsageError(f"{line!r} is no program; did you mean {scheme}://{line}?")


_ENTRY_KEYS: Final = frozenset({"command", "url", "agent", "serverUrl", "httpUrl"})
"""An object with one of these keys is an entry."""

_PLACEHOLDER: Final = re.compile(
    r"<[^<>]*>|\[[^\[\]]*\]|(?i:your[-_ ].*|(?:insert|replace|enter)[-_ ].*|.*[-_ ]here|change[-_ ]?me|x{3,}|\*{3,})"
)
"""Placeholders for secrets in documentation."""

_SHAPES: Final = 'expected {"mcpServers": {NAME: {"command": ...}}}, as documentation of servers has it'


class PasteError(ValueError):
    """A pasted text that lists no servers; the message says why, and what was expected."""


def is_pasted(text: str) -> bool:
    """Return whether a word is pasted JSON rather than a name or a command line; `-` stands for standard input."""
    return text == "-" or text.lstrip().startswith(("{", '"'))


def pasted_entries(text: str, around: ReferenceValues, name: str | None = None) -> dict[str, Found]:
    """Return the servers of a pasted text, by name.

    Args:
        text: A whole configuration, the servers of one, or one entry.
        around: The values that its references stand for.
        name: The name for a single entry; one that has a name of its own needs none.

    Raises:
        PasteError: The text lists none.
    """
    document = _parsed(text)
    entries = servers_in(document) or document
    if entries is document and _ENTRY_KEYS & document.keys():
        name = name or _own_name(document)
        if name is None:
            raise PasteError("that is one server without a name; expected gaia-bridge add NAME '{...}'")
        entries = {name: document}
    if not entries or not all(is_object(entry) for entry in entries.values()):
        raise PasteError(f"that lists no servers; {_SHAPES}")
    if name is not None and len(entries) == 1:
        entries = dict.fromkeys((name,), *entries.values())
    elif name is not None:
        raise PasteError(f"that lists {len(entries)} servers, which have names of their own: leave out {name!r}")
    servers = found_in(document, entries, around)
    return {server_name(server.name): _as_typed(server, entries[server.name]) for server in servers}


def _own_name(document: JSON) -> str | None:
    """Return the name in an entry, in the form of `code --add-mcp`."""
    own = document.get("name")
    return own if isinstance(own, str) and own.strip() else None


def _as_typed(server: Found, pasted: Any) -> Found:
    """Return a server as the paster means it: one line is split, and placeholders for secrets are asked for."""
    entry, inputs = dict(server.entry), dict(server.inputs)
    if entry.get("args") == [] and isinstance(pasted.get("command"), str) and pasted.get("args") is None:
        del entry["args"]
    env = entry.get("env")
    for variable, value in env.items() if is_object(env) else ():
        if isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
            entry["env"] = {**entry["env"], variable: f"${{env:{variable}}}"}
            inputs[variable] = f"{variable}, for which the text has {value}"
    return replace(server, entry=entry, inputs=inputs)


def _parsed(text: str) -> JSON:
    text = text.strip()
    if text.startswith('"'):  # `"time": {...}`, a line out of a file
        text = f"{{{text.removesuffix(',')}}}"
    try:
        document: object = json.loads(strict(text))
    except RecursionError:
        raise PasteError("that is nested too deep") from None
    except ValueError as error:
        raise PasteError(f"that is not valid JSON: {error}; {_SHAPES}") from None
    if not is_object(document):
        raise PasteError(f"that is no JSON object; {_SHAPES}")
    return document


def server_name(key: str) -> str:
    """Return a valid name as it is, or the part of it that can be kept.

    Args:
        key: The server's name elsewhere.
    """
    return key if is_server_name(key) else one_line(key, MAX_SERVER_NAME).lstrip("-. ")
