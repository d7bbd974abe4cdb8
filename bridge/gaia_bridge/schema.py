"""JSON Schema: compiled validators for tool arguments and results, and error texts a model can act on. All pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs

__all__ = ["SchemaError", "SchemaValidator", "json_pointer", "preview"]

_SHOWN_ERRORS = 5
_SHOWN_VALUE = 80


class SchemaError(ValueError):
    """A schema that cannot be compiled: not a schema, an unknown dialect, or a reference that leads nowhere."""


class SchemaValidator:
    """A compiled schema.

    References are resolved inside the schema only, never over the network or from files (S-30), and patterns run on
    an engine without catastrophic backtracking.

    Args:
        schema: A JSON Schema of any draft; 2020-12 unless `$schema` says otherwise.

    Raises:
        SchemaError: It does not compile; says why.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), offline=True, mask="the value")
        except jsonschema_rs.ValidationError as error:
            raise SchemaError(_problem(error)) from error
        except (ValueError, TypeError, RecursionError) as error:
            message = str(error).partition("\n")[0].strip() or type(error).__name__
            raise SchemaError(message) from error

    def errors(self, value: Any) -> str | None:
        """Say what is wrong with `value`, or return `None` if nothing is.

        Each error is a line with the JSON pointer (RFC 6901), what came, and what was expected; at most five.
        """
        try:
            if self._validator.is_valid(value):
                return None
            lines = [f"- {_problem(error)}" for error in islice(self._validator.iter_errors(value), _SHOWN_ERRORS + 1)]
        except ValueError as error:  # lone surrogates, which no schema can judge (F-105)
            lines = [f"- at (root): got {preview(value)}; expected JSON: {error}"]
        if len(lines) > _SHOWN_ERRORS:
            lines[_SHOWN_ERRORS:] = ["- and more"]
        return "\n".join(lines)


def json_pointer(path: Sequence[str | int]) -> str:
    """The RFC 6901 pointer to `path`, with the whole document shown as `(root)`."""
    if not path:
        return "(root)"
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def preview(value: Any) -> str:
    """`value` as a reader would recognise it, short enough for an error line."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_VALUE else f"{shown[: _SHOWN_VALUE - 3]}..."


def _problem(error: jsonschema_rs.ValidationError) -> str:
    problem = f"at {json_pointer(error.instance_path)}: got {preview(error.instance)}; {error.message}"
    return " ".join(problem.splitlines())  # names of properties can hold line ends
