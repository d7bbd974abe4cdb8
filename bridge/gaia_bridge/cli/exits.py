"""Exit codes. The table for readers is in `gaia_bridge.cli`."""

from __future__ import annotations

from enum import IntEnum

from gaia_bridge.errors import AgentLoadError, ConfigError, ListenError, PublishError, ServerUnavailableError

__all__ = ["ExitCode", "exit_code_of"]


class ExitCode(IntEnum):
    """What the process ends with; names and numbers after sysexits.h."""

    OK = 0
    TOOL_FAILED = 1
    USAGE = 64
    NO_AGENT = 66
    UNAVAILABLE = 69
    SOFTWARE = 70
    CONFIG = 78
    INTERRUPTED = 130


_CODES: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (AgentLoadError, ExitCode.NO_AGENT),
    (PublishError, ExitCode.NO_AGENT),
    (ListenError, ExitCode.UNAVAILABLE),
    (ServerUnavailableError, ExitCode.UNAVAILABLE),
    (ConfigError, ExitCode.CONFIG),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code that an error leads to; whatever is not the user's to change is an error of ours."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.SOFTWARE)
