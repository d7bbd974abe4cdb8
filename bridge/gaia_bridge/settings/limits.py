"""Numbers that bound what is used, checked when they are made."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Numbers that bound what is used, each with a default and its reason.

    Raises:
        ValueError: A value is not of the type of its default, or is a number that is negative or not finite. The
            message names the class, the field, the value and what was expected.
    """

    def __post_init__(self) -> None:
        """Check every field."""
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value = getattr(self, name)
            if value is default:
                continue
            if (problem := _unmet(value, default)) is not None:
                raise ValueError(f"{type(self).__name__}.{name} is {value!r:.100}; expected {problem}")


def _unmet(value: Any, default: object) -> str | None:
    """What was expected instead of the value; `None` if it is as expected."""
    kind = type(default)
    if kind is int:
        is_met = type(value) is int and value >= 0
        return None if is_met else "a whole number, 0 or more"
    if kind is float:
        is_met = type(value) in (int, float) and 0 <= value < math.inf
        return None if is_met else "a number, 0 or more and finite"
    return None if isinstance(value, kind) else f"a value of the type {kind.__name__}"
