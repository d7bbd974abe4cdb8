"""Asks on a terminal for required arguments that were not typed, by the schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_cli.servers.arguments import ArgumentsError, resolved, tool_arguments
from gaia_bridge_cli.servers.common import Activity
from gaia_bridge_cli.servers.form_fields import FieldError, FormField
from gaia_bridge_cli.servers.terminal_lines import NoLineError, TerminalLines, say

_SIMPLE: Final = frozenset(("string", "boolean", "number", "integer"))

_SECRET: Final = re.compile(
    r"pass(word|wd|phrase)?|pwd|secret|(api|access|auth|private)[_-]?(key|token)|token|credentials?", re.IGNORECASE
)


async def arguments_for(words: Sequence[str], schema: Mapping[str, Any], *, activity: Activity, asks: bool) -> JSON:
    """Return the arguments of a tool or prompt: those that were typed, and required ones that the user is asked for.

    Args:
        words: The words that were typed; one JSON object is taken as it is.
        schema: The schema of the arguments.
        activity: The display, which is paused while the user types.
        asks: Whether the user can be asked. If not, the server reports missing arguments.

    Raises:
        ArgumentsError: The words are no arguments, or the user gave no answer.
    """
    given = tool_arguments(words, schema)
    properties, required = schema.get("properties"), schema.get("required")
    if not asks or (len(words) == 1 and words[0].lstrip().startswith("{")) or not is_object(properties):
        return given
    missing = [key for key in (required if is_array(required) else ()) if key in properties and key not in given]
    if not missing:
        return given
    lines = TerminalLines()
    with activity.paused():
        for key in missing:
            try:
                given[key] = await _argument(key, schema, lines)
            except NoLineError:
                raise ArgumentsError(f"{key!r} is required, and was not typed; expected {key}=VALUE") from None
    return given


def refuse_no_arguments(words: Sequence[str]) -> None:
    """Refuse words that no schema allows, before a server is started.

    Raises:
        click.UsageError: The words are no arguments.
    """
    try:
        tool_arguments(words, {})
    except ArgumentsError as error:
        raise click.UsageError(str(error)) from None


def prompt_schema(definition: Mapping[str, Any]) -> JSON:
    """Return the arguments of a prompt, which are texts, as a tool's schema."""
    listed = definition.get("arguments")
    arguments = [item for item in (listed if is_array(listed) else ()) if is_object(item)]
    named = [item for item in arguments if isinstance(item.get("name"), str)]
    return {
        "type": "object",
        "properties": {
            item["name"]: {"type": "string", "description": str(item.get("description") or "")} for item in named
        },
        "required": [item["name"] for item in named if item.get("required") is True],
    }


def is_secret(key: str, schema: Mapping[str, Any]) -> bool:
    """Return whether a value must not be shown, by its schema or its name."""
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", key)
    parts = re.split(r"[^A-Za-z0-9]+", words)
    pairs = [f"{first}_{second}" for first, second in zip(parts, parts[1:], strict=False)]
    return any(_SECRET.fullmatch(part) for part in (*parts, *pairs)) and schema.get("type") in ("string", None)


async def _argument(key: str, schema: Mapping[str, Any], lines: TerminalLines) -> Any:
    part = resolved(schema["properties"].get(key), dict(schema))
    about = part if is_object(part) else {}
    hidden = is_secret(key, about)
    # The field's own default is for servers that fill it in; a required argument has to be sent.
    field = FormField(key, {name: value for name, value in about.items() if name != "title"}, required=True)
    simple = about.get("type") in _SIMPLE or "enum" in about
    prompt = field.prompt if simple else f"{one_line(key, 100)} (JSON): "
    say(*field.lines)
    while True:
        text = await lines.line(prompt, hidden=hidden)
        if not text and field.has_default:
            return field.default
        try:
            return field.read(text) if simple else tool_arguments([f"{key}={text}"], schema)[key]
        except (FieldError, ArgumentsError) as error:
            say(f"error: {'it is not what is expected' if hidden else error}")
