"""JSON values as Python types, and the two questions that type checkers cannot answer by themselves."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["JSON", "is_array", "is_object"]

JSON = dict[str, Any]
"""A JSON object as plain Python: what crosses the core between the guard and the far side."""


def is_object(value: object) -> TypeGuard[JSON]:
    """Whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded JSON value is an array."""
    return isinstance(value, list)
