"""Runs all checks side by side, each within its time limit, and collects their findings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.runtime.exceptions import only_error_in
from gaia_bridge.settings import DoctorLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge.version import __version__
from gaia_bridge_desk.doctor.checks import Finding, Kind, Level, Subject, in_thread
from gaia_bridge_desk.doctor.configuration import CONFIGURATION, TRUST
from gaia_bridge_desk.doctor.daemons import DAEMONS
from gaia_bridge_desk.doctor.editors import EDITOR_FILES
from gaia_bridge_desk.doctor.files import FILES, RESOURCES
from gaia_bridge_desk.doctor.network import CERTIFICATES, PROXIES
from gaia_bridge_desk.doctor.ports import PORTS
from gaia_bridge_desk.doctor.programs import PROGRAMS, PYTHON
from gaia_bridge_desk.doctor.servers import SERVERS, clients_here, crossing
from gaia_bridge_desk.doctor.sockets import SOCKETS
from gaia_bridge_desk.doctor.surroundings import Surroundings, look_around
from gaia_bridge_desk.editors.table import Editor

FORMAT: Final = 1
"""Version of the JSON report: it counts up when something in the report changes its meaning, or is removed."""

_LATE = Kind(
    "doctor.late",
    Level.WARNING,
    "a check was given up, because it took too long",
    "what it would have found is not known; what hangs there may hang for the bridge as well",
    "look whether the machine is busy, a file lies on a network, or the keyring waits for you; try again",
)
_FAILED = Kind(
    "doctor.failed",
    Level.ERROR,
    "a check failed",
    "what it would have found is not known; this is an error of the bridge itself",
    "report it, with this line",
)
OF_THE_DOCTOR: Final = (_LATE, _FAILED)
"""The findings that are possible in any subject."""

SUBJECTS: Final = (
    *(PYTHON, PROGRAMS, CERTIFICATES, PROXIES),
    *(FILES, RESOURCES, CONFIGURATION, TRUST),
    *(SOCKETS, DAEMONS, PORTS, EDITOR_FILES, SERVERS),
)
"""All subjects, in the order in which they are shown."""


class Examined(Struct, frozen=True):
    """The result of an examination.

    Args:
        subjects: The findings of each subject, by its title.
        servers: A report about each server.
        clients: The titles of the editors in the table, by their names.
        crossing: The rows of the table: which features of the servers reach which editors.
    """

    subjects: dict[str, list[Finding]]
    servers: list[JSON]
    clients: dict[str, str]
    crossing: list[JSON]

    @property
    def findings(self) -> list[Finding]:
        """All findings."""
        return [finding for findings in self.subjects.values() for finding in findings]

    def number(self, level: Level) -> int:
        """Count the findings of a level.

        Args:
            level: The level.
        """
        return sum(finding.level is level for finding in self.findings)

    def as_json(self) -> JSON:
        """Return the result as JSON for other programs."""
        return {
            "format": FORMAT,
            "version": __version__,
            "summary": {level.value: self.number(level) for level in Level},
            "findings": [
                {"subject": title, **finding.as_json()}
                for title, findings in self.subjects.items()
                for finding in findings
            ],
            "servers": self.servers,
            "clients": self.clients,
            "crossing": self.crossing,
        }


async def examine(
    config: Path | None = None,
    server: str | None = None,
    *,
    offline: bool = False,
    limits: DoctorLimits | None = None,
    subjects: Sequence[Subject] = SUBJECTS,
    doing: Callable[[str], None] = lambda _: None,
) -> Examined:
    """Run all checks.

    Args:
        config: The file of servers that stands alone, if one is named.
        server: The one server to examine, if not all.
        offline: Whether to start no server, and to ask nothing on the network.
        limits: The time limits.
        subjects: The subjects to examine.
        doing: Called with the titles of the subjects that are still being examined.
    """
    limits = limits or DoctorLimits()
    findings: dict[str, list[Finding]] = {subject.title: [] for subject in subjects}
    look = partial(look_around, config, server, offline=offline, limits=limits)
    at: Surroundings | None = await _run_bounded(look, limits.check_timeout)
    if at is None:  # a keyring waits for its user, or the file lies on a network that is away
        findings[CONFIGURATION.title] = [_late(CONFIGURATION.title, limits.check_timeout)]
        at = await _run_bounded(partial(look, references=False), limits.connect_timeout)
        subjects = [subject for subject in subjects if subject not in (CONFIGURATION, TRUST, SERVERS)]
    if at is None:
        return Examined(findings, [], {}, [])
    around = at
    waiting = [subject.title for subject in subjects]

    async def check(subject: Subject) -> None:
        findings[subject.title] = await _run(subject, around)
        waiting.remove(subject.title)
        doing(", ".join(waiting).lower())

    async with anyio.create_task_group() as tasks:
        for subject in subjects:
            tasks.start_soon(check, subject)
    editors: list[Editor] = await _run_bounded(clients_here, limits.check_timeout) or []
    offers = {report["name"]: report["features"] for report in around.reports if report["state"] == "works"}
    rows = crossing(offers, editors)
    return Examined(findings, around.reports, {editor.name: editor.title for editor in editors}, rows)


async def examine_again(before: Examined, config: Path | None = None, server: str | None = None) -> Examined:
    """Examine everything again after a repair; servers are not started again, because no repair concerns them.

    Args:
        before: The result before the repair.
        config: As for `examine`.
        server: As for `examine`.
    """
    others = [subject for subject in SUBJECTS if subject is not SERVERS]
    result = await examine(config, server, offline=True, subjects=others)
    return replace(before, subjects={**before.subjects, **result.subjects})


async def _run(subject: Subject, at: Surroundings) -> list[Finding]:
    """Return the findings of one subject; a check that fails or takes too long is a finding, too."""
    seconds: float = getattr(at.limits, subject.patience)
    try:
        with anyio.move_on_after(seconds):
            if inspect.iscoroutinefunction(subject.check):
                findings: Any = await subject.check(at)
            else:
                findings = await in_thread(partial(subject.check, at))
            return list(findings)
    except Exception as error:
        cause = only_error_in(error)
        return [_FAILED.finding(f"{subject.title}: {type(cause).__name__}: {cause}", subject.title)]
    return [_late(subject.title, seconds)]


def _late(title: str, seconds: float) -> Finding:
    return _LATE.finding(f"{title}: it took longer than {seconds:g} s", title)


async def _run_bounded(function: Callable[[], Any], seconds: float) -> Any:
    """Call a function that may wait for a file system; return `None` if that takes too long."""
    with anyio.move_on_after(seconds):
        return await in_thread(function)
    return None
