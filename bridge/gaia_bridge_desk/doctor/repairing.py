"""What `--fix` does: only what is safe, only to what is ours, and each after another look."""

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


class Outcome(Struct, frozen=True):
    """What became of a repair.

    Args:
        finding: What was found.
        problem: Why nothing was done, if so.
    """

    finding: Finding
    problem: str = ""

    def as_json(self) -> JSON:
        """As programs are told."""
        assert self.finding.repair is not None
        told = {"id": self.finding.kind.id, "about": self.finding.about, "done": self.finding.repair.text}
        return told if not self.problem else {**told, "problem": self.problem}


def repair_all(
    findings: Sequence[Finding], is_wanted: Callable[[Finding], bool]
) -> tuple[list[Outcome], list[Outcome]]:
    """Repair what can be.

    Args:
        findings: What was found.
        is_wanted: Asked before each.

    Returns:
        What was done, and what was not although it was wanted.
    """
    done: list[Outcome] = []
    failed: list[Outcome] = []
    for finding in findings:
        if finding.repair is None or not is_wanted(finding):
            continue
        try:
            finding.repair.apply()
        except NothingDoneError as error:
            failed.append(Outcome(finding, str(error)))
        except OSError as error:
            failed.append(Outcome(finding, error.strerror or str(error)))
        else:
            done.append(Outcome(finding))
    return done, failed


def _is_file_or_folder(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def narrow(path: str | Path, rights: int, is_meant: Callable[[int], bool] = _is_file_or_folder) -> None:
    """Take rights away, and leave all others; what is a link leads elsewhere, and is left alone.

    Args:
        path: A file, a folder or a socket.
        rights: Those that nobody shall have any more.
        is_meant: Tells by its mode whether it is still such a thing as was found.

    Raises:
        NothingDoneError: It is not the file that it was.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NothingDoneError("it is a link") from None
        _narrow_unopened(path, rights, is_meant)  # a socket, or a file that we may not read
        return
    try:
        os.fchmod(descriptor, _narrowed(os.fstat(descriptor), rights, is_meant))
    finally:
        os.close(descriptor)


def _narrow_unopened(path: str | Path, rights: int, is_meant: Callable[[int], bool]) -> None:
    mode = _narrowed(os.lstat(path), rights, is_meant)
    try:
        os.chmod(path, mode, follow_symlinks=False)  # it may be a link by now
    except NotImplementedError:
        raise NothingDoneError("it cannot be changed without following links on this system") from None


def _narrowed(about: os.stat_result, rights: int, is_meant: Callable[[int], bool]) -> int:
    """The mode without some rights, of what is still ours and what was meant."""
    if stat.S_ISLNK(about.st_mode):
        raise NothingDoneError("it is a link")
    if about.st_uid != os.getuid():
        raise NothingDoneError("it belongs to somebody else")
    if not is_meant(about.st_mode):
        raise NothingDoneError("it is another kind of file by now")
    return stat.S_IMODE(about.st_mode) & ~rights
