"""Keeps an entry in the configuration, for `add` and `import`.

An entry that was typed in one folder is made valid in every other: an editor starts the bridge elsewhere.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from gaia_bridge.config.launching.command_lines import launch_words
from gaia_bridge.config.launching.launchers import program_name
from gaia_bridge.config.launching.programs import MANIFESTS
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.remembered_path import active_folders, remember_search_path
from gaia_bridge_cli.servers.asked_secrets import sealed
from gaia_bridge_cli.servers.common import print_json
from gaia_bridge_cli.servers.kept_secrets import left_behind

if TYPE_CHECKING:
    from gaia_bridge.config import Layer
    from gaia_bridge.model import ServerSpec
    from gaia_bridge_cli.servers.server_connection import LoginNeededError

_PYTHON: Final = re.compile(r"python[\d.]*")
"""Programs that are other ones, without the same packages, where another environment is active."""

_WITH_FOLDER: Final = re.compile(r"-C|--(?:[a-z-]*-)?(?:cwd|dir|directory|folder|path|prefix|project|root)")
"""Options that are followed by a folder."""

_FETCHERS: Final = frozenset({"bunx", "node", "npx", "pipx", "pnpx", "uvx"})
"""The runners that run packages of a registry, or named files, independently of the folder they start in."""

_CHOOSING: Final = frozenset({"--directory", "--project", "--prefix", "--cwd", "-C", "--manifest-path", "--dir"})
"""Options that name the folder that a runner works in."""

_RELATIVE: Final = re.compile(r"\.{1,2}(/.*)?")
"""A word that can only be a path; any other word is one if there is such a file."""


def portable(entry: JSON, folder: Path) -> tuple[JSON, list[str]]:
    """Return the entry with absolute paths in place of those relative to a folder.

    Args:
        entry: The typed entry. With a `cwd`, its words are relative to that, and are left alone.
        folder: The folder in which the entry was typed.

    Returns:
        The entry, and descriptions of the changes, for people.
    """
    changed: list[str] = []
    made = {**entry, **_document(entry, folder, changed), **_interpreter(entry, changed)}
    command, args = made.get("command"), entry.get("args")
    if isinstance(cwd := entry.get("cwd"), str):
        if not cwd.startswith(("~", "$")) and not os.path.isabs(cwd):
            made["cwd"] = os.path.normpath(folder / cwd)
            changed.append(f"{cwd} is kept as {made['cwd']}")
        return made, changed
    if isinstance(command, str) and os.sep in command:
        made["command"] = _whole(command, None, folder, changed)
    if is_array(args):
        before = [None, *args]
        made["args"] = [_whole(word, before[number], folder, changed) for number, word in enumerate(args)]
    if _works_in_folder(entry, folder):
        made["cwd"] = str(folder)
        changed.append(f"it is started in {folder}")
    return made, changed


def _works_in_folder(entry: JSON, folder: Path) -> bool:
    """Return whether an entry's program depends on the folder it is started in, beside the paths that it names."""
    words = launch_words(entry)
    if not words:
        return False
    program, args = program_name(words[0]), words[1:]
    if "-m" in args[:-1] and program.startswith("python"):
        module = os.path.join(folder, args[args.index("-m") + 1].replace(".", "/"))
        return os.path.isdir(module) or os.path.isfile(f"{module}.py")
    if program in _FETCHERS or not _CHOOSING.isdisjoint(word.partition("=")[0] for word in args):
        return False
    if (program == "uv" and "run" not in args) or (program == "docker" and "compose" not in args):
        return False
    return any((folder / name).is_file() for name in MANIFESTS.get(program, ()))


def _document(entry: JSON, folder: Path, changed: list[str]) -> JSON:
    """Return the absolute path of the API's document, if that is a file."""
    document = entry.get("openapi")
    if not isinstance(document, str) or "://" in document or document.startswith(("~", "$", "/")):
        return {}
    path = os.path.normpath(folder / document)
    changed.append(f"{document} is kept as {path}")
    return {"openapi": path}


def _interpreter(entry: JSON, changed: list[str]) -> JSON:
    """Return the path of a Python or a program of the active environment, if the entry only has its name."""
    command = entry.get("command")
    if not isinstance(command, str) or os.sep in command or (program := shutil.which(command)) is None:
        return {}
    path = os.path.abspath(program)
    if not _PYTHON.fullmatch(command) and os.path.dirname(path) not in active_folders(os.environ):
        return {}
    changed.append(f"{command} is kept as {path}")
    return {"command": path}


def _whole(word: object, before: object, folder: Path, changed: list[str]) -> object:
    """Return a word with the relative path in it made absolute, if there is one."""
    if not isinstance(word, str):
        return word
    option, _, text = word.rpartition("=") if word.startswith("-") else ("", "", word)
    if not text or os.path.isabs(text) or text.startswith(("~", "$")):
        return word
    if not (_RELATIVE.fullmatch(text) or os.path.isfile(folder / text) or _is_folder(text, option or before, folder)):
        return word
    path = os.path.normpath(folder / text)
    changed.append(f"{text} is kept as {path}")
    return f"{option}={path}" if option else path


def _is_folder(text: str, option: object, folder: Path) -> bool:
    """Return whether a word names a folder: by a slash, or by an option before it. Else it may be any name."""
    is_expected = isinstance(option, str) and _WITH_FOLDER.fullmatch(option) is not None
    return (is_expected or os.sep in text) and os.path.isdir(folder / text)


def _note_bare_folders(entry: JSON, folder: Path) -> None:
    """Note the arguments that are names of folders here, and that the program looks for elsewhere."""
    args = entry.get("args")
    if "cwd" in entry or not is_array(args):
        return
    for word in args:
        if isinstance(word, str) and word and os.sep not in word and os.path.isdir(folder / word):
            note = f"note: {word!r} is passed on as it is; if it is the folder here, write {os.path.join('.', word)}"
            click.echo(printable(note, None), err=True)


_LATER = "set it, or say --no-connect: then it may come later"


class KeptIn(Struct, frozen=True):
    """The place where an entry is kept, and how.

    Args:
        config: The only file that counts, if one was named.
        local: Whether to use the project's file, or the user's; if `None`, the one that `add` chooses.
        force: Whether the entry may replace one of the same name.
        untried: Whether the entry is kept without being tried.
        folder: The folder of its relative paths; the current folder if not given.
        keeper: The place of its secrets, once the server is known to work, or `clear`.
    """

    config: Path | None
    local: bool | None
    force: bool
    untried: bool
    folder: Path | None = None
    keeper: str = "clear"


def keep(name: str, entry: JSON, place: KeptIn, as_json: bool) -> int:
    """Try a server, and keep its entry if it works.

    Args:
        name: The server's name.
        entry: Its entry.
        place: The place where the entry is kept, and how.
        as_json: Whether the output is for programs.

    Raises:
        ConfigError: The entry cannot be kept there, or its name is taken.
        ServerUnavailableError: The server does not work.
    """
    from gaia_bridge.config import LayerKind, ServersConfig, TrustStore, current_folder
    from gaia_bridge.errors import ConfigError

    config, local = place.config, place.local
    servers = ServersConfig(config, strict=True)
    to = None if local is None or config else (LayerKind.LOCAL if local else LayerKind.GLOBAL)
    if not place.force and (owner := servers.owner(name)) is not None:
        raise ConfigError(str(owner.path), f"there is a server {name!r} already", "--force replaces it")
    target = servers.target(name, to)
    if target.error is not None:
        raise target.error
    changed: list[str] = []
    if target.kind is not LayerKind.LOCAL:  # an entry of a local file is only used in its own folder
        folder = place.folder or current_folder()
        entry, changed = portable(entry, folder)
        _note_bare_folders(entry, folder)
    spec = _understood(name, entry, target, later=place.untried)
    login = None if spec is None or place.untried else _login_needed(spec, as_json)
    for change in changed:
        click.echo(printable(f"note: {change}, to be found from every folder", None), err=True)
    entry = sealed(name, entry, place.keeper)
    old, is_first = target.entries.get(name), target.kind is LayerKind.GLOBAL and not target.entries
    path = servers.add(name, entry, to=target.kind, replace=place.force)
    if target.kind is not LayerKind.GLOBAL or target.approved_as(entry) is not None:
        TrustStore().approve(
            target.approved_as(entry) or path, name, entry
        )  # the user has typed the line, so that no further approval is needed
    remember_search_path(os.environ)
    code = done("added", name, [path], as_json)
    note_secrets(old, entry)
    if is_first:
        _note_shipped_agents()
    if login is not None:
        where = f" --config {shlex.quote(str(config))}" if config else ""
        note = f"now run: gaia-bridge login {shlex.quote(name)}{where}"
        if login.with_token:
            note = f"it wants a login or a token; {note}; or add it {login.with_token}"
        else:
            note = f"it wants a login; {note}"
        click.echo(printable(note), err=True)
    return code


def done(what: str, name: str, paths: Sequence[Path], as_json: bool) -> int:
    """Report a change, and the files.

    Args:
        what: The change: "added".
        name: The server's name.
        paths: The files.
        as_json: Whether the output is for programs.
    """
    if as_json:
        print_json({"done": what, "name": name, "files": list(map(str, paths))})
    else:
        preposition = {"added": "to", "removed": "from"}.get(what, "in")
        for path in paths:
            click.echo(printable(f"{what} {name} {preposition} {path}"))
    return ExitCode.OK


def note_secrets(old: object, new: JSON | None = None) -> None:
    """Report the stored secrets that an entry has left; they are not removed, since other entries may use them.

    Args:
        old: The entry that was removed.
        new: The entry in its place.
    """
    for place in left_behind(old, new):
        note = f"note: its old secret is still in {place}; remove it there if no other configuration refers to it"
        click.echo(printable(note, None), err=True)


def _note_shipped_agents() -> None:
    """Note that editors show the servers from now on, instead of the agents that ship."""
    from gaia_bridge_desk.editors.installed import InstalledFiles

    if InstalledFiles().has_any():
        note = (
            "note: editors that start `gaia-bridge connect` without --agent have your servers from now on, instead of "
            "the agents code and project; to have both: gaia-bridge install EDITOR code project"
        )
        click.echo(note, err=True)


def _login_needed(spec: ServerSpec, as_json: bool) -> LoginNeededError | None:
    """Try a server and report its name; or return the error if it asks for a login first.

    Raises:
        ServerUnavailableError: The server does not work.
    """
    with imported_for_good():
        from gaia_bridge.errors import ServerUnavailableError
        from gaia_bridge_cli.servers.server_connection import LoginNeededError, reach
        from gaia_bridge_cli.servers.server_probe import probe
        from gaia_bridge_cli.servers.trying import introduced

    try:
        with _no_folder_left(spec):
            probed = reach(spec, probe)
    except LoginNeededError as error:
        return error
    except ServerUnavailableError as error:
        hint = "it is not added; with --no-connect it is, without being tried"
        advice = _advice(spec, error.problem)
        raise ServerUnavailableError(spec.name, f"{error.problem}; {advice}{hint}") from None
    click.echo(introduced(probed), err=as_json)
    return None


@contextmanager
def _no_folder_left(spec: ServerSpec) -> Generator[None]:
    """Remove the new folder that a server was tried in, if the server fails and has written nothing there."""
    from gaia_bridge.config.launching.workplaces import own_folder

    folder = Path(own_folder(spec.name))
    is_new = getattr(spec, "cwd", None) == str(folder) and not folder.exists()
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()
        raise


def _advice(spec: ServerSpec, problem: str) -> str:
    """Return a hint for a user who named something that is no MCP server; empty, or with a `; ` at its end."""
    from urllib.parse import urlsplit

    from gaia_bridge.model import HttpServerSpec, StdioServerSpec

    if isinstance(spec, StdioServerSpec) and problem.startswith("it exited with code 0"):
        file = next((word for word in spec.args if word.endswith(".py")), None)
        agent = f" (an agent in it is published by `gaia-bridge serve {shlex.quote(file)}`)" if file else ""
        return f"a server does not end, but waits for messages, so perhaps the program starts none{agent}; "
    if isinstance(spec, HttpServerSpec) and problem.endswith("Connection refused"):
        return "is the server running? if not, start it; "
    if isinstance(spec, HttpServerSpec) and ("HTTP 404" in problem or "HTTP 405" in problem):
        path = urlsplit(spec.url).path
        if path.endswith((".json", ".yaml", ".yml")):
            return f"an OpenAPI document is added by `gaia-bridge add {shlex.quote(spec.name)} --openapi URL`; "
        if path in ("", "/"):
            return f"most servers have a path, such as {spec.url.rstrip('/')}/mcp; "
    return ""


def _understood(name: str, entry: JSON, target: Layer, *, later: bool) -> ServerSpec | None:
    """Parse the entry; return `None` if it refers to something missing now, and is only used later.

    Raises:
        ConfigError: The entry cannot be used.
    """
    from gaia_bridge.config import EntryError, MissingReferenceError
    from gaia_bridge.errors import ConfigError

    try:
        parsed = target.parsed(name, entry)
    except EntryError as error:
        if not (later and isinstance(error, MissingReferenceError)):
            hint = _LATER if isinstance(error, MissingReferenceError) else ""
            raise ConfigError(f"server {name!r}", str(error), hint) from None
        click.echo(printable(f"note: {error}", None), err=True)
        return None
    for warning in parsed.warnings:
        click.echo(f"note: {warning}", err=True)
    return parsed.spec
