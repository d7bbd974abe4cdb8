"""Forms of MCP, of every revision, in the narrower shape that editors take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from acp.schema import ElicitationSchema
from pydantic import ValidationError

from gaia_bridge.errors import AnswerError
from gaia_bridge.text.json_types import JSON, is_array, is_object

_NAMES: Final = "enumNames"
"""What the options of a choice were called, before they had titles."""


def form_for_editors(schema: JSON) -> JSON:
    """The schema of a form: every option has a title, as editors insist on.

    Raises:
        AnswerError: It has something that editors do not show.
    """
    fields: JSON = schema.get("properties") or {}
    form = {**schema, "type": "object", "properties": {name: _field(about) for name, about in fields.items()}}
    try:
        ElicitationSchema.model_validate(form)
    except ValidationError as error:
        names = sorted({str(item["loc"][1]) for item in error.errors() if len(item["loc"]) > 1}) or ["all of it"]
        raise AnswerError(f"editors cannot show this form: {', '.join(names)} is no field that they have") from None
    return form


def _field(about: Any) -> Any:
    if not is_object(about):
        return about
    field = dict(about)
    names, values = field.pop(_NAMES, None), field.get("enum")
    if is_array(names) and is_array(values) and len(names) == len(values):
        del field["enum"]
        field["oneOf"] = [{"const": value, "title": str(name)} for value, name in zip(values, names, strict=True)]
    if is_array(field.get("oneOf")):
        field["oneOf"] = _titled(field["oneOf"])
    items = field.get("items")
    if is_object(items) and is_array(items.get("anyOf")):
        field["items"] = {**items, "anyOf": _titled(items["anyOf"])}
    return field


def _titled(options: Sequence[Any]) -> list[Any]:
    return [{"title": str(it.get("const")), **it} if is_object(it) else it for it in options]
