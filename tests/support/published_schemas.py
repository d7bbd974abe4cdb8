"""Published schemas of forms in which servers are described: `tests/desk/bundles/schemas` says where each is from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

__all__ = ["problems", "schema"]

_FOLDER: Final = Path(__file__).parents[1] / "desk" / "bundles" / "schemas"


def schema(name: str) -> dict[str, Any]:
    """A schema, as published."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def problems(name: str, value: object, definition: str = "") -> list[str]:
    """What a schema says against a value.

    Args:
        name: The file, without `.json`.
        value: The value.
        definition: Which of its definitions; all of it, if not given.
    """
    whole = schema(name)
    if definition:
        whole |= {"$ref": f"#/$defs/{definition}"}
    errors = jsonschema_rs.validator_for(whole, validate_formats=True).iter_errors(value)
    return [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in errors]
