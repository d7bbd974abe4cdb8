"""Makes the repairs of `--fix`: only safe ones, only to our own files, and each after another look."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.doctor.checks import Finding, NothingDoneError

OF_OTHERS: Final = 0o077
"""The rights of everybody but the owner."""


class RepairOutcome(Struct, frozen=True):
    """The result of a repair.

    Args:
        finding: The finding.
        problem: Why nothing was done, if so.
    """

    finding: Finding
    problem: str = ""

    def as_json(self) -> JSON:
        """Return the outcome as JSON for other programs."""
        assert self.finding.repair is not None
        fields = {"id": self.finding.kind.id, "about": self.finding.about, "done": self.finding.repair.text}
        return fields if not self.problem else {**fields, "problem": self.problem}


def repair_all(
    findings: Sequence[Finding], is_wanted: Callable[[Finding], bool]
) -> tuple[list[RepairOutcome], list[RepairOutcome]]:
    """Make the repairs that are wanted.

    Args:
        findings: The findings.
        is_wanted: Asked before each repair.

    Returns:
        The repairs that were made, and those that failed.
    """
    done: list[RepairOutcome] = []
    failed: list[RepairOutcome] = []
    for finding in findings:
        if finding.repair is None or not is_wanted(finding):
            continue
        try:
            finding.repair.apply()
        except NothingDoneError as error:
            failed.append(RepairOutcome(finding, str(error)))
        except OSError as error:
            failed.append(RepairOutcome(finding, error.strerror or str(error)))
        else:
            done.append(RepairOutcome(finding))
    return done, failed


def _is_file_or_folder(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def narrow(path: str | Path, rights: int, is_expected: Callable[[int], bool] = _is_file_or_folder) -> None:
    """Take away some rights and leave all others; a link is left alone, because it leads elsewhere.

    Args:
        path: A file, a folder or a socket.
        rights: The rights to take away.
        is_expected: Takes the mode, and returns whether the file is still of the expected type.

    Raises:
        NothingDoneError: The file is no longer the one that was examined.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NothingDoneError("it is a link") from None
        _narrow_unopened(path, rights, is_expected)  # a socket, or a file that we may not read
        return
    try:
        os.fchmod(descriptor, _narrowed(os.fstat(descriptor), rights, is_expected))
    finally:
        os.close(descriptor)


def _narrow_unopened(path: str | Path, rights: int, is_expected: Callable[[int], bool]) -> None:
    mode = _narrowed(os.lstat(path), rights, is_expected)
    try:
        os.chmod(path, mode, follow_symlinks=False)  # the path may be a link by now
    except NotImplementedError:
        raise NothingDoneError("it cannot be changed without following links on this system") from None


def _narrowed(about: os.stat_result, rights: int, is_expected: Callable[[int], bool]) -> int:
    """Return the mode without some rights, if the file is still ours and of the expected type."""
    if stat.S_ISLNK(about.st_mode):
        raise NothingDoneError("it is a link")
    if about.st_uid != os.getuid():
        raise NothingDoneError("it belongs to somebody else")
    if not is_expected(about.st_mode):
        raise NothingDoneError("it is another kind of file by now")
    return stat.S_IMODE(about.st_mode) & ~rights
