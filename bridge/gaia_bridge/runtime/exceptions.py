"""Reduces exceptions to the parts that matter to people: the single one in a group, and the agent's traceback."""

from __future__ import annotations

from types import TracebackType

from gaia_bridge.constants import OWN_PACKAGES


def only_error_in(error: BaseException) -> BaseException:
    """Unwrap an error from the groups that task groups put around it; return a group of several as it is."""
    match error:
        case BaseExceptionGroup(exceptions=[BaseException() as only]):
            return only_error_in(only)
        case _:
            return error


def traceback_of_agent(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception from the first frame that is not ours; all of it, if all frames are ours."""
    traceback = error.__traceback__
    while traceback is not None and _package(traceback) in OWN_PACKAGES:
        traceback = traceback.tb_next
    return traceback or error.__traceback__


def _package(traceback: TracebackType) -> str:
    return str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
