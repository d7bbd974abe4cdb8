"""One field of a form that a server asks the user at a terminal to fill in (MCP elicitation). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.json_schema.parts import SchemaError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import is_array, is_object

_BOOLEANS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class FieldError(ValueError):
    """A typed text that is no value of the field; the message says why."""


class _Choice(Struct, frozen=True):
    value: Any
    title: str


class FormField:
    """A property of an elicitation's `requestedSchema`.

    Args:
        key: Its name.
        schema: The schema of its value.
        required: Whether a value is required.
    """

    def __init__(self, key: str, schema: Mapping[str, Any], *, required: bool) -> None:
        self.required = required
        """Whether a value is required."""
        self._key = key
        self._schema = schema
        self._many = schema.get("type") == "array"
        items = schema.get("items")
        self._choices = _choices(items if self._many and is_object(items) else schema)
        try:
            self._validator = SchemaValidator.tolerant(schema)
        except SchemaError:
            self._validator = SchemaValidator({})  # only the server validates then

    @property
    def has_default(self) -> bool:
        """Whether there is a default value."""
        return "default" in self._schema and self._validator.errors(self._schema["default"]) is None

    @property
    def default(self) -> Any:
        """The default value."""
        return self._schema["default"]

    @property
    def lines(self) -> list[str]:
        """The description of the field, and the choices."""
        description = one_line(str(self._schema.get("description") or ""))
        numbered = [f"  {number}) {choice.title}" for number, choice in enumerate(self._choices, 1)]
        return [description, *numbered] if description else numbered

    @property
    def prompt(self) -> str:
        """The question, with the default value."""
        name = one_line(str(self._schema.get("title") or self._key), 100)
        kind = ""
        if self._many:
            kind = " (several, with commas)"
        elif self._schema.get("type") == "boolean":
            kind = " (y/n)"
        default = f" [{self._as_typed(self.default)}]" if self.has_default else "" if self.required else " (optional)"
        return f"{name}{kind}{default}: "

    def read(self, text: str) -> Any:
        """Parse the text that the user typed.

        Raises:
            FieldError: The text is no value of the field.
        """
        if self._many:
            value: Any = [self._item(part) for part in text.split(",") if part.strip()]
        elif self._choices:
            value = self._chosen(text)
        else:
            value = self._plain(text)
        if (problem := self._validator.errors(value)) is not None:
            raise FieldError(one_line(problem.partition(": ")[2] or problem, 300))
        return value

    def _item(self, text: str) -> Any:
        return self._chosen(text) if self._choices else text.strip()

    def _chosen(self, text: str) -> Any:
        wanted = text.strip()
        for choice in self._choices:
            if wanted == choice.value or wanted.casefold() == choice.title.casefold():
                return choice.value
        if wanted.isdecimal() and 0 < int(wanted) <= len(self._choices):
            return self._choices[int(wanted) - 1].value
        raise FieldError(f"{one_line(repr(wanted), 80)} is no choice; expected 1 to {len(self._choices)}, or a name")

    def _plain(self, text: str) -> Any:
        match self._schema.get("type"):
            case "string":
                return text
            case "boolean":
                if (answer := _BOOLEANS.get(text.strip().lower())) is None:
                    raise FieldError("expected y or n")
                return answer
            case _:
                try:
                    return json.loads(text)
                except (ValueError, RecursionError):
                    return text  # no number; the validator reports that

    def _as_typed(self, value: Any) -> str:
        values: list[Any] = value if is_array(value) else [value]
        titles = [next((choice.title for choice in self._choices if choice.value == item), item) for item in values]
        if isinstance(value, bool):
            return "y" if value else "n"
        return one_line(", ".join(item if isinstance(item, str) else json.dumps(item) for item in titles), 100)


def _choices(schema: Mapping[str, Any]) -> list[_Choice]:
    """Return the choices, in each of the forms that exist: `enum`, with `enumNames`, and titled constants."""
    if is_array(values := schema.get("enum")):
        names = schema.get("enumNames")
        titles: list[Any] = names if is_array(names) and len(names) == len(values) else values
        return [_Choice(value, one_line(str(title), 200)) for value, title in zip(values, titles, strict=True)]
    for key in ("oneOf", "anyOf"):
        if is_array(options := schema.get(key)) and all(is_object(option) and "const" in option for option in options):
            return [_Choice(item["const"], one_line(str(item.get("title", item["const"])), 200)) for item in options]
    return []
