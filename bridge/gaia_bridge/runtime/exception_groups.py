"""Groups of exceptions, which task groups make even of a single one."""

from __future__ import annotations


def only_error_in(error: BaseException) -> BaseException:
    """The one error in the groups that task groups wrap around it; a group of several is returned as it is."""
    match error:
        case BaseExceptionGroup(exceptions=[BaseException() as only]):
            return only_error_in(only)
        case _:
            return error
