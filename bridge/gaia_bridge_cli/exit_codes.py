"""Exit codes. The table for readers is in `gaia_bridge_cli`."""

from __future__ import annotations

import errno
from enum import IntEnum
from typing import Final

from gaia_bridge.errors import AgentLoadError, ConfigError, ListenError, PublishError, ServerUnavailableError

_OUTPUT_ERRORS: Final = frozenset((errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC))
"""What writing fails with where nobody takes it; a reader that is gone (`EPIPE`) ends a command quietly."""


class ExitCode(IntEnum):
    """What the process ends with; names and numbers after sysexits.h."""

    OK = 0
    TOOL_FAILED = 1
    WARNINGS = 1
    USAGE = 64
    NO_AGENT = 66
    UNAVAILABLE = 69
    SOFTWARE = 70
    OUTPUT = 74
    CONFIG = 78
    INTERRUPTED = 130


_CODES: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (AgentLoadError, ExitCode.NO_AGENT),
    (PublishError, ExitCode.NO_AGENT),
    (ListenError, ExitCode.UNAVAILABLE),
    (ServerUnavailableError, ExitCode.UNAVAILABLE),
    (ConfigError, ExitCode.CONFIG),
)


def is_of_output(error: BaseException) -> bool:
    """Whether standard output could not be written. What else is written says which file it was."""
    return isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS and error.filename is None


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code that an error leads to; whatever is not the user's to change is an error of ours."""
    if is_of_output(error):
        return ExitCode.OUTPUT
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.SOFTWARE)
