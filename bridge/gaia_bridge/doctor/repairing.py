"""What `--fix` does: only what is safe, only to what is ours, and each after another look."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from gaia_bridge.doctor.findings import Finding, NothingDoneError
from gaia_bridge.protocol.json_types import JSON

__all__ = ["Outcome", "narrow", "repair_all"]


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


def narrow(path: Path, mode: int) -> None:
    """Take rights away; what is a link leads elsewhere, and is left alone.

    Args:
        path: A file or folder.
        mode: The rights that may be left.

    Raises:
        NothingDoneError: It is not the file that it was.
    """
    about = os.lstat(path)
    if stat.S_ISLNK(about.st_mode):
        raise NothingDoneError("it is a link")
    if about.st_uid != os.getuid():
        raise NothingDoneError("it belongs to somebody else")
    os.chmod(path, mode & stat.S_IMODE(about.st_mode))
