"""The values that a server of the registry asks for: given on the command line, or typed on a terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import click

from gaia_bridge.config.expansion import has_reference
from gaia_bridge.config.paths import current_folder
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.likeness import did_you_mean
from gaia_bridge.text.redaction import redacted
from gaia_bridge_cli.servers.asked_arguments import is_secret as is_secret_name
from gaia_bridge_cli.servers.form_fields import Field, FieldError
from gaia_bridge_cli.servers.terminal_lines import NoLineError, TerminalLines, say
from gaia_bridge_desk.server_registry.documents import Input
from gaia_bridge_desk.server_registry.slots import Asked, plain


def given_answers(asked: Sequence[Asked], pairs: Iterable[tuple[str, str]], *, strict: bool) -> dict[str, list[str]]:
    """The values of a command line, by the names of what is asked.

    Args:
        asked: What is asked.
        pairs: What was given.
        strict: Whether a name that is not asked is refused; if not, it is left out.

    Raises:
        click.UsageError: A name or a value is none.
    """
    known = {each.name: each for each in asked}
    found: dict[str, list[str]] = {}
    for name, text in pairs:
        each = known.get(name) or known.get(name.lstrip("-"))
        if each is None:
            if strict:
                raise click.UsageError(f"--set {printable(name)!r}: {_unknown(name, known)}")
            continue
        try:
            found.setdefault(each.name, []).append(_read(each, text))
        except FieldError as error:
            shown = "" if is_hidden(each, text) else f" {printable(text, 100)!r}:"
            raise click.UsageError(f"{_shown(each.name)}:{shown} {error}") from None
        if len(found[each.name]) > 1 and not each.repeated:
            raise click.UsageError(f"{_shown(each.name)} was given twice, and takes one value")
    return found


def complete(asked: Sequence[Asked], given: dict[str, list[str]]) -> dict[str, list[str]]:
    """The values, with the defaults of those that were not given.

    Raises:
        click.UsageError: Some are required; names them all.
    """
    missing = [each for each in asked if each.required and not given.get(each.name) and each.default is None]
    if missing:
        lines = "; ".join(_told(each) for each in missing)
        raise click.UsageError(f"nothing was added: it needs values: {lines}; give each with --set NAME=VALUE")
    defaults = {each.name: [each.default] for each in asked if each.default is not None}
    return {**defaults, **{name: values for name, values in given.items() if values}}


async def typed_answers(asked: Sequence[Asked], given: dict[str, list[str]]) -> dict[str, list[str]]:
    """The values, those that were not given asked for on the terminal.

    Raises:
        click.Abort: Somebody typed Ctrl-D.
    """
    lines = TerminalLines()
    found = dict(given)
    for each in asked:
        if each.name in found:
            continue
        try:
            found[each.name] = await _typed(each, lines)
        except NoLineError:
            raise click.Abort from None
    return found


def is_hidden(asked: Asked, value: str = "") -> bool:
    """Whether a value is shown to nobody.

    Args:
        asked: What was asked for.
        value: The value; a reference is no secret.
    """
    if value and has_reference(value):
        return False
    if asked.about.is_secret or is_secret_name(asked.name, {"type": "string"}):
        return True
    return redacted(value) != value


async def _typed(asked: Asked, lines: TerminalLines) -> list[str]:
    field = _field(asked)
    say(*field.lines)
    values: list[str] = []
    while True:
        prompt = field.prompt if not values else f"{_shown(asked.name)}, one more (optional): "
        text = await lines.line(prompt, hidden=is_hidden(asked))
        if not text.strip():
            if values or asked.default is not None or not asked.required:
                return values
            say("error: it is required")
            continue
        try:
            values.append(_read(asked, text))
        except FieldError as error:
            say(f"error: {'it is not what is expected' if is_hidden(asked) else error}")
            continue
        if not asked.repeated:
            return values


def _field(asked: Asked) -> Field:
    about = asked.about
    schema = _schema(about)
    said = [about.description, f"such as {about.placeholder}" if about.placeholder else ""]
    schema["description"] = "; ".join(filter(None, said))
    if asked.default is not None:
        schema["default"] = _decoded(asked.default) if schema["type"] in ("number", "boolean") else asked.default
    return Field(asked.name, schema, required=asked.required)


def _schema(about: Input) -> dict[str, Any]:
    if about.choices:
        return {"type": "string", "enum": [plain(choice) for choice in about.choices]}
    return {"type": about.format if about.format in ("number", "boolean") else "string"}


def _read(asked: Asked, text: str) -> str:
    """A value as it is passed on.

    Raises:
        FieldError: It is none.
    """
    if "\0" in text:
        raise FieldError("no value has a zero byte in it")
    if has_reference(text):
        return text
    if not text and asked.required:
        raise FieldError("it is required, and empty")
    about = asked.about
    value: Any = Field(asked.name, _schema(about), required=asked.required).read(text)
    if about.choices:
        return str(value)
    if about.format == "filepath":
        return os.path.abspath(os.path.join(current_folder(), os.path.expanduser(text.strip())))
    return plain(value) if isinstance(value, bool) else text if isinstance(value, str) else text.strip()


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # the field then has no default


def _told(asked: Asked) -> str:
    about = asked.about
    choices = ", ".join(one_line(plain(choice), 40) for choice in about.choices[:20])
    said = [one_line(about.description, 100), f"one of {choices}" if choices else ""]
    told = "; ".join(filter(None, said))
    return f"{_shown(asked.name)}{f' ({told})' if told else ''}"


def _unknown(name: str, known: Iterable[str]) -> str:
    names = [_shown(each) for each in known]
    if not names:
        return "it asks for nothing"
    return did_you_mean(name, names) or f"it asks for {', '.join(names[:20])}"


def _shown(name: str) -> str:
    return one_line(name, 100)
