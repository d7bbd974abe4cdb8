"""The entry that somebody means who types a command, a URL or the address of an API, with options beside it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from gaia_bridge.protocol.names import is_server_name

if TYPE_CHECKING:
    from gaia_bridge.text.json_types import JSON

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
"""What stands before a command for a shell: a variable that the command sees."""


def named_values(option: str, words: Sequence[str], sign: str, otherwise: str = "") -> Iterator[tuple[str, str]]:
    """The names and values of an option that may be given several times.

    Args:
        option: The option.
        words: What was given with it.
        sign: What stands between a name and its value.
        otherwise: What else it takes, for the error.

    Raises:
        click.UsageError: One is of another form; it is not repeated, because it may be a secret.
    """
    for number, word in enumerate(words, 1):
        name, found, value = word.partition(sign)
        if not found or not name.strip():
            which = f" (number {number} of {len(words)})" if len(words) > 1 else ""
            problem = "what came is not shown, because it may be a secret"
            raise click.UsageError(f"{option}{which}: expected NAME{sign}VALUE{otherwise}; {problem}")
        yield name.strip(), value


class Typed(Struct, frozen=True):
    """What was typed beside the name of a server and its command.

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
        """Whether something of it says how the server is reached."""
        return bool(self.env or self.header or self.sse or self.cwd)

    def variables(self) -> dict[str, str]:
        """The variables: a name alone refers to the variable of that name.

        Raises:
            click.UsageError: One is of another form.
        """
        words = [f"{word}=${{env:{word}}}" if _NAME.fullmatch(word) else word for word in self.env]
        return dict(named_values("--env", words, "=", ", or NAME for a variable that you have"))

    def headers(self) -> dict[str, str]:
        """The headers.

        Raises:
            click.UsageError: One is of another form.
        """
        return {name: value.strip() for name, value in named_values("--header", self.header, ":")}

    def further(self, entry: JSON) -> JSON:
        """The entry with what is said beside how the server is reached.

        Raises:
            click.UsageError: It does not go with the entry.
        """
        from gaia_bridge.settings import UpstreamLimits

        found: JSON = {}
        if self.inherit_env:
            if "url" in entry or "openapi" in entry:
                raise click.UsageError("--inherit-env is for a COMMAND, and this is a URL")
            found["inherit_env"] = True
        if self.timeout is not None:
            found["timeout"] = self.timeout
            if self.timeout > UpstreamLimits().connect_timeout:
                found["startup_timeout"] = self.timeout
        if self.startup_timeout is not None:
            found["startup_timeout"] = self.startup_timeout
        return entry | found


def typed_entry(name: str, command: Sequence[str], typed: Typed) -> JSON:
    """The entry of what was typed.

    Args:
        name: What the server is called.
        command: One text, as in a terminal, or several words; or a URL.
        typed: What was typed beside it.

    Raises:
        click.UsageError: It does not go together, or cannot be meant.
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
    """The entry of a program; the variables before it are its own, as in a shell."""
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
        if (found := _ASSIGNMENT.fullmatch(word)) is None:
            return words[number:], variables
        variables[found[1]] = found[2]
    return [], variables


def _api_entry(
    name: str, document: str, command: Sequence[str], env: dict[str, str], headers: dict[str, str], others: bool
) -> JSON:
    """The entry of an HTTP API."""
    if "://" in name or not is_server_name(name):
        raise click.UsageError(f"NAME is missing: gaia-bridge add NAME --openapi {shlex.quote(document)}")
    if env or others or len(command) > 1 or not all(re.match("https?://", word) for word in command):
        raise click.UsageError("--openapi goes with NAME, --header and the URL of the API: nothing is started")
    entry: JSON = {"openapi": document, **({"url": command[0]} if command else {})}
    return entry | ({"headers": headers} if headers else {})


def _refuse_slip(line: str) -> None:
    """Say what was probably meant, where a command line is none at first sight.

    Raises:
        click.UsageError: It is none.
    """
    if line.endswith(".py") and os.path.isfile(line) and not os.access(line, os.X_OK):
        file = shlex.quote(line)
        raise click.UsageError(
            f"{line!r} is no program; an agent in it is published by `gaia-bridge serve {file}`, "
            f"and an MCP server is added by `gaia-bridge add NAME python {file}`"
        )
    if re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?/\S*|[\w.-]+:\d+(/\S*)?", line) and not os.path.exists(line):
        raise click.UsageError(f"{line!r} is no program; did you mean https://{line}?")
