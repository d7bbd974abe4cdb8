"""A definition as its source has it for clients of 2026-07-28, and for those of the handshake era: often the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Listed = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""Both definitions; `None` for clients that do not see it."""
_D = TypeVar("_D", bound=Mapping[str, Any])


def either(listed: Listed) -> Mapping[str, Any]:
    """Return a definition that any clients see."""
    return listed[0] or listed[1] or {}


def in_both_eras(listed: Listed, change: Callable[[Mapping[str, Any]], _D]) -> tuple[_D | None, _D | None]:
    """Return both definitions changed; the same object where they are the same."""
    new, old = listed
    modern = None if new is None else change(new)
    return modern, modern if old is new else None if old is None else change(old)
