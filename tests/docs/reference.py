"""Writes the pages of reference from the program itself: `python -m tests.docs.reference`.

`commands.md` comes from the command line's own help, `configuration.md` from the structs that entries become, and
`settings.md` from the settings; each with the docstrings that stand there. Of `editors.md`, two tables are written.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click
from msgspec import Struct

import gaia_bridge_cli
from gaia_bridge import constants, settings
from gaia_bridge.config.entries import KEYS_OF, OPTION_KEYS
from gaia_bridge.config.oauth_options import OAUTH_KEYS
from gaia_bridge.config.tool_transforms import ARGUMENT_KEYS, TOOL_KEYS
from gaia_bridge.model import (
    AgentServerSpec,
    ArgumentTransform,
    HttpServerSpec,
    OAuthOptions,
    OpenApiServerSpec,
    ServerOptions,
    StdioServerSpec,
    ToolTransform,
)
from gaia_bridge_cli.program import program
from gaia_bridge_desk.editors.table import EDITORS, Editor, FileScope
from tests.docs.pages import DOCS

__all__ = ["FOLDER", "PAGES", "Field", "fields_of", "main"]

FOLDER: Final = DOCS / "reference"
"""Where the pages are."""

_WRITTEN: Final = "\n`python -m tests.docs.reference` writes this page from the program.\n"


class Field(NamedTuple):
    """A field of a struct, as its source has it."""

    name: str
    kind: str
    """Its annotation."""
    default: str
    """Its default; empty if it has none."""
    meaning: str
    """Its docstring, in one line."""


def fields_of(struct: type[Struct]) -> list[Field]:
    """The fields of a struct, with their docstrings.

    Args:
        struct: The struct.
    """
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(definition, ast.ClassDef)
    found: list[Field] = []
    for statement, after in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            default = "" if statement.value is None else ast.unparse(statement.value)
            kind = ast.unparse(statement.annotation)
            found.append(Field(statement.target.id, kind, default, _docstring(after)))
    return found


def _docstring(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
        case _:
            return ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [[*head], ["---" for _ in head], *([*row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    """A text as it is, in a cell of a table."""
    return re.sub(r"([|<*\[\]])", r"\\\1", " ".join(text.split()))


# Commands


def commands() -> str:
    """The page of commands."""
    context = click.Context(program, info_name="gaia-bridge")
    text = f"# Commands\n\n{program.help}\n\n"
    text += (
        "`gaia mcp COMMAND` is the same as `gaia-bridge COMMAND`. [Servers on the command line](../command-line.md)\n"
    )
    text += "explains TARGET, NAME and ARGUMENTS.\n\n"
    for heading, names in _sections(context):
        text += f"## {heading}\n\n"
        for name in names:
            command = program.get_command(context, name)
            assert command is not None
            text += _command(command, click.Context(command, info_name=name, parent=context))
    codes = re.findall(r"^    (\d[\d, ]*?)   +(.+)$", gaia_bridge_cli.__doc__ or "", re.MULTILINE)
    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in codes)
    return f"{text}## Exit codes\n\n| code | meaning |\n| --- | --- |\n{rows}{_WRITTEN}"


def _sections(context: click.Context) -> Iterator[tuple[str, list[str]]]:
    """The headings below which the program's help lists commands."""
    heading, names = "", list[str]()
    for line in program.get_help(context).partition("Options:")[2].splitlines()[3:]:
        if line and not line.startswith(" "):
            heading, names = line.removesuffix(":"), []
        elif found := re.match(r"  ([a-z-]+)  ", line):
            if heading:
                names.append(found[1])
        elif not line and names:
            yield heading, names
            names = []


def _command(command: click.Command, context: click.Context, heading: str = "###") -> str:
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    name = context.command_path.removeprefix("gaia-bridge ")
    text = f"{heading} {name}\n\n`{usage}`\n\n{_paragraphs(inspect.cleandoc(command.help or ''))}\n"
    options = [_option(parameter, context) for parameter in command.get_params(context)]
    rows = [row for row in options if row is not None]
    text += f"{_table(('option', 'meaning'), rows)}\n" if rows else ""
    of_it: Mapping[str, click.Command] = command.commands if isinstance(command, click.Group) else {}
    return text + "".join(
        _command(each, click.Context(each, info_name=name, parent=context), f"{heading}#")
        for name, each in sorted(of_it.items())
    )


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    if "--help" in parameter.opts:
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return None
    names, meaning = record
    if not meaning:
        return None  # an argument, which the usage has
    return f"`{names.replace('|', chr(92) + '|')}`", _cell(meaning)


def _paragraphs(text: str) -> str:
    """The help of a command: paragraphs, some of which are meant to keep their lines."""
    parts = text.split("\n\n")
    return "".join(
        f"{_lines(part)}\n\n" if part.startswith("\b") else f"{_prose(' '.join(part.split()))}\n\n" for part in parts
    ).rstrip() + "\n"  # fmt: skip


def _lines(part: str) -> str:
    return "<br>\n".join(_prose(line.strip()) for line in part.removeprefix("\b").strip().splitlines())


def _prose(text: str) -> str:
    """A text as it is, outside of tables; code stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<*\[\]])", r"\\\1", part) for part in parts)


# Configuration

_WAYS: Final[Mapping[str, tuple[str, type[Struct]]]] = {
    "command": ("A program", StdioServerSpec),
    "url": ("A server on the network", HttpServerSpec),
    "agent": ("An agent of the same process", AgentServerSpec),
    "openapi": ("An HTTP API", OpenApiServerSpec),
}
_FIELD_OF: Final[Mapping[str, str]] = {"openapi": "document", "grantType": "grant", "scopes": "scope"}
"""Keys whose fields are called otherwise; those of `oauth` are the fields in camel case."""

_TOLD: Final[Mapping[str, tuple[str, str]]] = {
    "type": ("text", "How the server is reached: `stdio` with `command`; `http` or `sse` with `url`. Rarely needed."),
    "openapi": ("text", "The URL, or the path, of its OpenAPI document."),
    "oauth": ("object, or `false`", "How to log in, if it asks for that; `false`: not at all. See [`oauth`](#oauth)."),
    "scopes": ("list of texts, or text", "Scopes to request if the server names none."),
    "tools": ("object", "How its tools are published, by their names at the server. See [`tools`](#tools)."),
    "arguments": ("object", "Changes of its arguments, by their names at the server."),
    "inherit_env": (
        "list of texts, or `true`",
        "Variables of the bridge's own environment that it gets beside [those that every program gets]"
        "(../trust.md#what-programs-see); `true`: all of them.",
    ),
}
"""Keys whose values in a file are not those of their field."""

_LIMIT_OF: Final[Mapping[str, str]] = {
    "timeout": "call_timeout",
    "startup_timeout": "connect_timeout",
    "idle_timeout": "idle_timeout",
    "max_concurrency": "max_concurrency",
}
"""Options whose default is a limit of all servers."""

_KINDS: Final[Mapping[str, str]] = {
    "str": "text", "str | None": "text", "float | None": "number", "int | None": "whole number",
    "bool": "`true` or `false`", "tuple[str, ...]": "list of texts", "tuple[str, ...] | None": "list of texts",
    "Mapping[str, str]": "object of texts", "Any": "any value",
    "str | Literal[False] | None": "text, or `false`",
}  # fmt: skip


def configuration() -> str:
    """The page of what an entry of `mcp_servers.json` may say."""
    text = "# Configuration\n\nAll keys of an entry in `mcp_servers.json`.\n\n"
    *ways, last = (f"`{way}`" for way in KEYS_OF)
    text += f"An entry has one of {', '.join(ways)} and {last}. Which file counts, what `${{...}}` is in\n"
    text += "values, and examples of all keys are in [the configuration file](../configuration-file.md);\n"
    text += "approvals of a project's own file are in [trust and safety](../trust.md#servers-of-a-project).\n\n"
    for way, keys in KEYS_OF.items():
        title, struct = _WAYS[way]
        text += f"## {title}: `{way}`\n\n{_keys(sorted(keys, key=lambda key: (key != way, key)), struct)}\n"
    text += f"## Any server\n\n{_keys(sorted(OPTION_KEYS), ServerOptions)}\n"
    text += f"## `oauth`\n\n{_keys(sorted(OAUTH_KEYS), OAuthOptions)}\n"
    text += f"## `tools`\n\nKeys of a tool:\n\n{_keys(sorted(TOOL_KEYS), ToolTransform)}\n"
    return f"{text}Keys of an argument:\n\n{_keys(sorted(ARGUMENT_KEYS), ArgumentTransform)}{_WRITTEN}"


def _keys(keys: Iterable[str], struct: type[Struct]) -> str:
    fields = {field.name: field for field in fields_of(struct)}
    return _table(("key", "value", "default", "meaning"), (_key(key, fields) for key in keys))


def _key(key: str, fields: Mapping[str, Field]) -> tuple[str, str, str, str]:
    snake = re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", key)
    field = fields.get(_FIELD_OF.get(key, snake), Field(key, "", "", ""))
    kind, meaning = _TOLD.get(key) or (_kind(field.kind), field.meaning.replace("`None`", "left out"))
    assert meaning, f"{key} has no docstring"
    return f"`{key}`", kind, _default(key, field.default), meaning.replace("|", r"\|")


def _kind(annotation: str) -> str:
    if choices := re.findall(r"'([^']*)'", annotation):
        return " or ".join(f'`"{choice}"`' for choice in choices)
    return _KINDS[annotation]


def _default(key: str, default: str) -> str:
    if key in _LIMIT_OF:
        return next(
            _number(field.default) for field in fields_of(settings.UpstreamLimits) if field.name == _LIMIT_OF[key]
        )
    if default in ("True", "False"):
        return f"`{default.lower()}`"
    return f'`"{default[1:-1]}"`' if default.startswith("'") else ""


# Settings


def settings_page() -> str:
    """The page of limits."""
    text = "# Settings\n\nLimits and deadlines, each with its reason.\n\n"
    text += (
        "These values hold for `gaia-bridge`. An entry of the [configuration](configuration.md#any-server) can change\n"
    )
    text += "some for its server; a program can pass others to its `Bridge`: see [limits](../guide.md#limits).\n\n"
    parts = {kind: name for name, kind, *_ in fields_of(settings.Settings)}
    parts |= {kind: f"upstream.{name}" for name, kind, *_ in fields_of(settings.UpstreamLimits)}
    for name in ("Settings", *sorted(set(settings.__all__) - {"Limits", "Settings"})):
        struct: type[Struct] = getattr(settings, name)
        inside = f"`Settings.{parts[name]}`. " if name in parts else ""
        told = inspect.cleandoc(struct.__doc__ or "").replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n\n")
        text += f"## {name}\n\n{inside}{told}\n\n"
        rows = [
            (f"`{field.name}`", _number(field.default), field.meaning.replace("|", r"\|"))
            for field in fields_of(struct)
            if field.kind not in settings.__all__
        ]
        text += _table(("name", "default", "meaning"), rows) + "\n"
    return f"{text.rstrip()}\n{_WRITTEN}"


def _number(default: str) -> str:
    """A default as people write it: `16 * MIB` is 16 MiB."""
    default = str(getattr(constants, default, default))
    size = re.fullmatch(r"(?:(\d+) \* )?(KIB|MIB)", default)
    if size:
        return f"{size[1] or 1} {size[2][:2]}B".replace("KI", "Ki").replace("MI", "Mi")
    try:
        return f"{ast.literal_eval(default):,}".removesuffix(".0")
    except (ValueError, TypeError):
        return f"`{default}`"


# Editors


def editors_page() -> str:
    """The page of editors, with its two tables as the program has them."""
    page = (DOCS / "editors.md").read_text("utf-8")
    files = [
        (f"`{each.name}`", each.title, _files_of(each, FileScope.USER), _files_of(each, FileScope.WORKSPACE))
        for each in EDITORS
    ]
    page = _with_table(page, "## Editors\n\n", ("EDITOR", "is", "for all folders", "`--workspace`"), files)
    return _with_table(
        page,
        "The command shows the last step in the editor:\n\n",
        ("editor", "then"),
        [(each.title, each.then) for each in EDITORS],
    )


def _files_of(editor: Editor, scope: FileScope) -> str:
    paths = [f"{place.folder}/{place.names[0]}" for place in editor.places if place.scope is scope]
    return ", ".join(
        f"`{path.removeprefix('./').replace('{config}', '~/.config').replace('{data}', '~/.local/share')}`"
        for path in paths
    )


def _with_table(page: str, before: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a page with another table behind some words, which have to be there."""
    beginning, words, rest = page.partition(before)
    assert words, f"the page does not say {before!r}"
    after = rest.partition("\n\n")[2]
    return f"{beginning}{before}{_table(head, rows)}\n{after}"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands.md": commands,
    "configuration.md": configuration,
    "settings.md": settings_page,
    "../editors.md": editors_page,
}
"""What each page has to say."""


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, write in PAGES.items():
        path = Path(FOLDER, name)
        path.write_text(write(), "utf-8")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
