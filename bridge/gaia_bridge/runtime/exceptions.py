"""What of an exception matters to people: the one in a group, and the traceback of the agent."""

from __future__ import annotations

from types import TracebackType

from gaia_bridge.constants import OWN_PACKAGES


def only_error_in(error: BaseException) -> BaseException:
    """The one error in the groups that task groups wrap around it; a group of several is returned as it is."""
    match error:
        case BaseExceptionGroup(exceptions=[BaseException() as only]):
            return only_error_in(only)
        case _:
            return error


def traceback_of_agent(error: BaseException) -> TracebackType | None:
    """The traceback of an exception from the first frame on that is not ours; all of it, if all frames are."""
    found = error.__traceback__
    while found is not None and _package(found) in OWN_PACKAGES:
        found = found.tb_next
    return found or error.__traceback__


def _package(traceback: TracebackType) -> str:
    return str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
