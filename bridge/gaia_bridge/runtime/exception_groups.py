"""Groups of exceptions, which task groups make even of a single one."""

from __future__ import annotations

__all__ = ["innermost"]


def innermost(error: BaseException) -> BaseException:
    """The one error in the groups that task groups wrap around it; a group of several is returned as it is."""
    match error:
        case BaseExceptionGroup(exceptions=[BaseException() as only]):
            return innermost(only)
        case _:
            return error
