"""A launch line as it is shown for approval: whole, exact, harmless to the terminal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from gaia_bridge.config.expansion import referenced_files, without_references
from gaia_bridge.config.launching.command_lines import launch_words
from gaia_bridge.config.launching.launchers import program_name
from gaia_bridge.config.launching.variables import changes_programs, reason_of
from gaia_bridge.config.oauth_options import PUBLIC_OAUTH_KEYS
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.redaction import MASK, redacted

_TABLES: Final = (("env", "variable"), ("headers", "header"), ("oauth", "login"))
"""The objects of an entry, and the word for one of their values."""

_SECRET_NAME: Final = re.compile(
    r"(?i)auth|cookie|credential|passw|passphrase|secret|session|token|(?:^|[_-])(?:key|pass|pat|pw|pwd|sig)s?(?:$|[_-])|key$"
)
"""Names of values that are secrets."""

_SECRET_SHAPE: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+/=-]{20,}")
"""A text that looks random and names no file: letters and digits without a dot, a blank or a colon."""

_DEFAULT: Final = re.compile(r"(\$\{(?:env:)?(\w+):-)([^}]+)\}")
"""A reference to a variable with a default: all before the default, the variable in it, and the default."""

_SCHEMES: Final = frozenset({"", "basic", "bearer", "token"})
"""Words that may stand before a reference to a secret."""

_PROGRAMS: Final = {
    **dict.fromkeys(("sudo", "doas", "su", "pkexec", "runas"), "runs as another user"),
    **dict.fromkeys(("rm", "rmdir", "shred", "dd", "mkfs", "del"), "deletes or overwrites files"),
    **dict.fromkeys(("ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "telnet"), "connects to another machine"),
    **dict.fromkeys(("curl", "wget"), "fetches from another machine"),
    **dict.fromkeys(
        ("sh", "bash", "dash", "zsh", "fish", "cmd", "powershell", "pwsh"),
        "is a shell: it runs whatever its arguments say",
    ),
}
_KEYS_AND_PASSWORDS: Final = re.compile(
    r"(?:^|[/\\=:~])(?:\.ssh|\.aws|\.gnupg|\.netrc|\.kube|etc[/\\]shadow)(?:[/\\]|$)"
)

_WITH_VALUE: Final = frozenset(
    {"--extra-index-url", "--index", "--index-url", "--python", "--registry", "--with", "-c", "-i", "-w"}
)
"""Options of package runners that are followed by a value."""

_PINNED: Final = {
    "npm": re.compile(r"@?[^@]+@v?\d+\.\d+\.\d+[\w.+-]*"),
    "python": re.compile(r"[^=@]+(?:===?|@)v?\d+(?:\.\d+)*[\w.+!-]*|.+@[0-9a-f]{40}"),
}
"""Exactly one version of a package."""

_RUNNERS: Final = {
    ("npx",): ("npm", ("-p", "--package")),
    ("bunx",): ("npm", ("-p", "--package")),
    ("pnpx",): ("npm", ("--package",)),
    ("pnpm", "dlx"): ("npm", ("--package",)),
    ("yarn", "dlx"): ("npm", ("-p", "--package")),
    ("npm", "exec"): ("npm", ("--package",)),
    ("bun", "x"): ("npm", ("-p", "--package")),
    ("uvx",): ("python", ("--from",)),
    ("uv", "tool", "run"): ("python", ("--from",)),
    ("pipx", "run"): ("python", ("--spec",)),
}
"""Programs that fetch a package and run it: the kind of package, and the options that name it."""


def launch_line_text(entry: JSON) -> str:
    """Show the program that an entry would start, or the address it would use: uncut, every character recognizable.

    Args:
        entry: The entry as decoded; references not filled in, wrong types shown as JSON.

    Returns:
        One line or more. Values that are secrets by their name or shape are masked; never those of variables
        that decide what is run.
    """
    return "\n".join(_lines(entry))


def is_secret(name: str, value: object) -> bool:
    """Return whether a value of an entry is a secret by its name or shape, and is itself in the entry.

    Args:
        name: The value's name: of a variable, a header, or an option.
        value: The value; a reference is no secret.
    """
    return not changes_programs(name) and _masked(name, value) == MASK


def launch_warnings(entry: JSON) -> list[str]:
    """Return the warnings to read before approving an entry."""
    warnings = [
        f"{_exact(name)} is a file that is filled in; look at it as well: it is approved as it is now"
        for name in referenced_files(entry, ("command", "args", "cwd", "url", "openapi", "proxy"))
    ]
    if isinstance(entry.get("proxy"), str):
        warnings.append("'proxy' sees whom the server's requests go to, and all of them where the URL is plain http")
    command = entry.get("command")
    if not isinstance(command, str):
        return warnings
    words = launch_words(entry)
    env = entry.get("env")
    names = sorted(env) if is_object(env) else []
    warnings += [
        *_program_warnings(words),
        *(f"{_exact(name)} {reason}" for name in names if (reason := reason_of(name))),
        *(f"{_exact(word)} is where keys and passwords are" for word in words if _KEYS_AND_PASSWORDS.search(word)),
        *_runner_warnings(words),
    ]
    return list(dict.fromkeys(warnings))


def _without_password(value: object) -> object:
    """Return an address without a password that is written in it; anything else is returned as it is."""
    if not isinstance(value, str):
        return value
    before, at, host = value.rpartition("@")
    user, colon, password = before.partition("://")[2].partition(":") if "://" in before else before.partition(":")
    if not at or not colon or not without_references(password).strip():
        return value
    return f"{value.partition('://')[0]}://{user}:{MASK}@{host}" if "://" in before else f"{user}:{MASK}@{host}"


def _lines(entry: JSON) -> Iterator[str]:
    if (document := entry.get("openapi")) is not None:
        yield f"OpenAPI: {_exact(document)}"
    if (url := entry.get("url")) is not None:
        yield _exact(url)
    if (proxy := entry.get("proxy")) is not None:
        yield f"proxy: {_exact(_without_password(proxy))}"
    if (agent := entry.get("agent")) is not None:
        yield f"agent: {_exact(agent)}"
    if (command := entry.get("command")) is not None:
        args = entry.get("args")
        words: list[Any] = [command, *args] if is_array(args) else [command] if args is None else [command, args]
        yield " ".join(map(_exact, words))
    if (kind := entry.get("type")) is not None:
        yield f"type: {_exact(kind)}"
    if (cwd := entry.get("cwd")) is not None:
        yield f"in folder: {_exact(cwd)}"
    yield from _table_lines(entry)
    yield from _tool_lines(entry.get("tools"))
    if (inherited := entry.get("inherit_env")) not in (None, False):
        names: list[Any] = inherited if is_array(inherited) else ["all of yours" if inherited is True else inherited]
        yield f"sees variables: {', '.join(map(_exact, names))}"


def _table_lines(entry: JSON) -> Iterator[str]:
    """Yield the lines of the objects of an entry, one for each value."""
    for key, label in _TABLES:
        table = entry.get(key)
        if is_object(table):
            for name, value in table.items():
                is_public = (key == "oauth" and name in PUBLIC_OAUTH_KEYS) or (key == "env" and changes_programs(name))
                yield f"{label}: {_exact(name)}={_exact(value) if is_public else _masked(name, value)}"
        elif table is not None:
            yield f"{key}: {_exact(table)}"


def _tool_lines(part: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a line for each value in `tools`: of tools and, four keys deep, of their arguments."""
    if is_object(part) and len(path) < 4:
        for key, inner in part.items():
            yield from _tool_lines(inner, (*path, key))
    elif part is not None:
        shown = _masked_json(path[2], part) if path[3:] == ("default",) else _exact(part)
        yield f"{' '.join(('tool:', *map(_exact, path)))}={shown}"


def _masked_json(name: str, value: object) -> str:
    """Return a JSON value with its secret texts masked."""

    def masked(part: object) -> Any:
        if is_object(part):
            return {key: masked(item) for key, item in part.items()}
        if is_array(part):
            return [masked(item) for item in part]
        return MASK if isinstance(part, str) and _masked(name, part) == MASK else part

    return MASK if (text := masked(value)) == MASK else _exact(text)


def _exact(value: object) -> str:
    """Quote a word as for a POSIX shell; escape the whole word if it has a character that is not printable."""
    text = value if isinstance(value, str) else json.dumps(value)
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + text.encode("unicode_escape").decode("ascii").replace("'", "\\'") + "'"


def _masked(name: str, value: object) -> str:
    """Return a value as it is, or the mask if it is a secret by name or shape; a reference is only a place."""
    rest = without_references(value).strip() if isinstance(value, str) else ""
    is_named = _SECRET_NAME.search(name) or redacted(line := f"{name}: {rest}") != line
    if rest.lower() not in _SCHEMES and (is_named or _SECRET_SHAPE.fullmatch(rest)):
        return MASK
    return _exact(_DEFAULT.sub(partial(_masked_default, name), value) if isinstance(value, str) else value)


def _masked_default(name: str, reference: re.Match[str]) -> str:
    """Return a reference whose default is masked if it is a secret, by the name of the value or of the variable."""
    before, variable, default = reference.groups()
    return f"{before}{MASK}}}" if MASK in (_masked(name, default), _masked(variable, default)) else reference[0]


def _program_warnings(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        # `env sudo ...` and `sh -c "sudo ..."` count as well.
        for part in re.split(r"[\s;|&]+", word):
            program = program_name(part) if word is words[0] or "bin/" in part else part
            if (meaning := _PROGRAMS.get(program)) and (word is words[0] or "shell" not in meaning):
                yield f"{program} {meaning}"


def _runner_warnings(words: Sequence[str]) -> Iterator[str]:
    programs = (program_name(words[0]), *words[1:])
    for runner, (kind, options) in _RUNNERS.items():
        if programs[: len(runner)] != runner:
            continue
        for package in _packages(words[len(runner) :], options):
            if not (package.startswith((".", "/", "~")) or _PINNED[kind].fullmatch(package)):
                yield (
                    f"{_exact(package)} is not pinned: {' '.join(runner)} fetches and runs whatever is the latest; "
                    f"expected {_exact(package.rpartition('@')[0] or package)}{'@' if kind == 'npm' else '=='}VERSION"
                )


def _packages(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the packages that a runner fetches: those that its options name, or else its first argument."""
    named = [value for option, value in pairwise(words) if option in options]
    named += [word.partition("=")[2] for word in words if word.startswith(tuple(f"{option}=" for option in options))]
    if named:
        return named
    skip = False
    for word in words:
        if skip or word.startswith("-"):
            skip = not skip and word in _WITH_VALUE
        else:
            return [word]
    return []
