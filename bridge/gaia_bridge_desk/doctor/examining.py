"""Has all checks done side by side, each within its time, and puts together what they found."""

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
"""Of what programs are told: it counts up when something in it changes its meaning, or is gone."""

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
"""What may be found of any subject."""

SUBJECTS: Final = (
    *(PYTHON, PROGRAMS, CERTIFICATES, PROXIES),
    *(FILES, RESOURCES, CONFIGURATION, TRUST),
    *(SOCKETS, DAEMONS, PORTS, EDITOR_FILES, SERVERS),
)
"""In the order in which they are shown."""


class Examined(Struct, frozen=True):
    """What was found.

    Args:
        subjects: The findings of each subject, by its title.
        servers: What was seen of each server.
        clients: The titles of the editors that the table is about, by their names.
        crossing: Which feature of the servers reaches which of them.
    """

    subjects: dict[str, list[Finding]]
    servers: list[JSON]
    clients: dict[str, str]
    crossing: list[JSON]

    @property
    def findings(self) -> list[Finding]:
        """All of them."""
        return [finding for findings in self.subjects.values() for finding in findings]

    def number(self, level: Level) -> int:
        """How many there are.

        Args:
            level: Of which level.
        """
        return sum(finding.level is level for finding in self.findings)

    def as_json(self) -> JSON:
        """As programs are told."""
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
    """Look at everything.

    Args:
        config: The file of servers that stands alone, if one is named.
        server: The one server that is wanted, if not all.
        offline: Whether no server is started, and nothing on the network asked.
        limits: How long anything may take.
        subjects: What is looked at.
        doing: Told what is still being looked at.
    """
    limits = limits or DoctorLimits()
    found: dict[str, list[Finding]] = {subject.title: [] for subject in subjects}
    look = partial(look_around, config, server, offline=offline, limits=limits)
    at: Surroundings | None = await _bounded(look, limits.check_timeout)
    if at is None:  # a keyring waits for its user, or the file lies on a network that is away
        found[CONFIGURATION.title] = [_late(CONFIGURATION.title, limits.check_timeout)]
        at = await _bounded(partial(look, references=False), limits.connect_timeout)
        subjects = [subject for subject in subjects if subject not in (CONFIGURATION, TRUST, SERVERS)]
    if at is None:
        return Examined(found, [], {}, [])
    around = at
    waiting = [subject.title for subject in subjects]

    async def check(subject: Subject) -> None:
        found[subject.title] = await _checked(subject, around)
        waiting.remove(subject.title)
        doing(", ".join(waiting).lower())

    async with anyio.create_task_group() as tasks:
        for subject in subjects:
            tasks.start_soon(check, subject)
    editors: list[Editor] = await _bounded(clients_here, limits.check_timeout) or []
    offers = {report["name"]: report["features"] for report in around.reports if report["state"] == "works"}
    rows = crossing(offers, editors)
    return Examined(found, around.reports, {editor.name: editor.title for editor in editors}, rows)


async def examine_again(before: Examined, config: Path | None = None, server: str | None = None) -> Examined:
    """Look once more, after something was mended; servers are not started again, of which nothing was.

    Args:
        before: What was found.
        config: As it was.
        server: As it was.
    """
    others = [subject for subject in SUBJECTS if subject is not SERVERS]
    found = await examine(config, server, offline=True, subjects=others)
    return replace(before, subjects={**before.subjects, **found.subjects})


async def _checked(subject: Subject, at: Surroundings) -> list[Finding]:
    """What is found of one subject, whatever becomes of the check."""
    seconds: float = getattr(at.limits, subject.patience)
    try:
        with anyio.move_on_after(seconds):
            if inspect.iscoroutinefunction(subject.check):
                found: Any = await subject.check(at)
            else:
                found = await in_thread(partial(subject.check, at))
            return list(found)
    except Exception as error:
        cause = only_error_in(error)
        return [_FAILED.found(f"{subject.title}: {type(cause).__name__}: {cause}", subject.title)]
    return [_late(subject.title, seconds)]


def _late(title: str, seconds: float) -> Finding:
    return _LATE.found(f"{title}: it took longer than {seconds:g} s", title)


async def _bounded(function: Callable[[], Any], seconds: float) -> Any:
    """What a function returns that may wait for a file system; `None` if that takes too long."""
    with anyio.move_on_after(seconds):
        return await in_thread(function)
    return None
