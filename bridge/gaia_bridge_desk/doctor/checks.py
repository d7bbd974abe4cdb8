"""The parts of checks and their results: kinds of findings, each with an id that stays, and findings of a kind.

Several checks run a program for its version, and look programs up.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct

from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import redacted
from gaia_bridge_desk.doctor.surroundings import Surroundings


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    """Everything is as it should be."""
    INFO = "info"
    """Good to know; nothing is wrong."""
    WARNING = "warning"
    """Something does not work for some users, or will stop working one day."""
    ERROR = "error"
    """Something that the user has set up does not work."""


NOTHING: Final = "nothing is to be done"
"""The remedy of a finding without a problem."""


class NothingDoneError(Exception):
    """A repair was not made, because the situation has changed since the check; the message describes the new one."""


class Repair(Struct, frozen=True):
    """A repair that `--fix` makes for a finding.

    Args:
        text: Describes the repair to the user; continues "it would ...".
        apply: Makes the repair, after another look.
    """

    text: str
    apply: Callable[[], None]


class Finding(Struct, frozen=True):
    """One result of a check.

    Args:
        kind: The sort of finding.
        message: The problem, here.
        remedy: How to solve it, here.
        about: The subject: a file, a program, a server.
        repair: The repair that `--fix` makes, if there is one.
    """

    kind: Kind
    message: str
    remedy: str
    about: str = ""
    repair: Repair | None = None

    @property
    def level(self) -> Level:
        """The finding's severity."""
        return self.kind.level

    def as_json(self) -> JSON:
        """Return the finding as JSON for other programs."""
        return {
            "id": self.kind.id,
            "level": self.level.value,
            "about": self.about,
            "message": redacted(self.message),
            "why": self.kind.why,
            "remedy": self.remedy,
            "fixable": self.repair is not None,
        }


class Kind(Struct, frozen=True):
    """A sort of findings.

    Args:
        id: The permanent identifier: the subject, and a word for the problem.
        level: The severity.
        matter: The problem, in general.
        why: Why the problem matters.
        remedy: How to solve it, in general.
        is_repairable: Whether `--fix` repairs such findings in files of the bridge.
    """

    id: str
    level: Level
    matter: str
    why: str
    remedy: str = NOTHING
    is_repairable: bool = False

    def finding(
        self, message: str, about: str = "", remedy: str | None = None, repair: Repair | None = None
    ) -> Finding:
        """Return a finding of this kind.

        Args:
            message: The problem, here.
            about: The subject.
            remedy: How to solve it here, where that is more than the general remedy.
            repair: The repair that `--fix` makes.
        """
        return Finding(self, message, self.remedy if remedy is None else remedy, about, repair)


T = TypeVar("T")

_VERSION_BYTES: Final = 4_096
"""Bytes of a program's answer to `--version`; more is cut off, and the program ended."""

_DESKTOP: Final = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The `PATH` of programs that are started from a desktop: of launchd on macOS, of systemd's user manager on Linux.
Folders that a shell adds in its own files (`~/.bashrc`, `~/.zshrc`) are not in it."""


class Subject(Struct, frozen=True):
    """A group of checks that belong together.

    Args:
        title: The title.
        kinds: The possible findings.
        check: The check: a function, which is called in a thread, or a coroutine.
        patience: The name of the setting that limits its time.
    """

    title: str
    kinds: tuple[Kind, ...]
    check: Callable[[Surroundings], list[Finding] | Awaitable[list[Finding]]]
    patience: str = "check_timeout"


class VersionAnswer(Struct, frozen=True):
    """A program's answer to a question for its version.

    Args:
        text: Its first line, or the first of its errors.
        problem: Why it does not work, if it does not.
    """

    text: str
    problem: str = ""


async def ask_version(words: Sequence[str], seconds: float, environ: Mapping[str, str]) -> VersionAnswer:
    """Run a program that reports its version, and ends. If it does not end, it is killed with its children.

    It is run in the root folder: `python -m` and the shims of version managers read files of the current folder,
    which strangers may have written.

    Args:
        words: Its command line.
        seconds: The time limit.
        environ: Its environment.
    """
    try:
        with anyio.fail_after(seconds):
            async with await anyio.open_process(
                words,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                cwd=os.sep,
                env=environ,
                start_new_session=True,
            ) as process:
                code: int | None = None
                try:
                    text, has_ended = await _beginning(process)
                    code = await process.wait() if has_ended else None
                finally:
                    if code is None:  # with its children, which are in its group
                        with suppress(OSError):
                            os.killpg(process.pid, signal.SIGKILL)
    except TimeoutError:
        return VersionAnswer("", f"it did not answer within {seconds:g} s")
    except OSError as error:
        return VersionAnswer("", f"it cannot be started: {error.strerror or error}")
    line = one_line(next(iter(text.strip().splitlines()), ""), 200)
    if code:
        return VersionAnswer(line, f"it ends with code {code}" + (f": {line}" if line else ""))
    return VersionAnswer(line)


async def _beginning(process: anyio.abc.Process) -> tuple[str, bool]:
    """Return the first output of a process, and whether that was all of it."""
    assert process.stdout is not None
    output = b""
    while len(output) < _VERSION_BYTES:
        try:
            output += await process.stdout.receive(_VERSION_BYTES)
        except anyio.EndOfStream:
            return output.decode(errors="replace"), True
    return output.decode(errors="replace"), False


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function that may wait for a file system. A thread that hangs is left behind, and ends with the process.

    Args:
        function: The function.
    """
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)


def search_path(at: Surroundings) -> str:
    """Return the `PATH` in which the shell looks for programs."""
    return at.environ.get("PATH", os.defpath)


def servers_path(path: str) -> str:
    """Return where a bridge looks for servers' programs: also in a terminal's `PATH`, and where installers put them.

    Args:
        path: The `PATH` that it is started with.
    """
    from gaia_bridge.config.launching.search_path import search_path as with_remembered

    return with_remembered({"PATH": path})


def editor_path(at: Surroundings) -> str:
    """Return where an editor that is started from the desktop looks for programs."""
    return _DESKTOP.get(at.platform, _DESKTOP["linux"])


def looked_up(spec: ServerSpec | None) -> str:
    """Return a server's program that is looked up where the bridge looks; empty if there is none, or `env` sets `PATH`.

    Args:
        spec: The server.
    """
    return spec.command if isinstance(spec, StdioServerSpec) and "PATH" not in spec.env else ""


def is_missing(command: str, at: Surroundings) -> bool:
    """Return whether a program is missing, which is one finding for all servers that need it.

    Args:
        command: Its name, or its path.
        at: The surroundings of the examination.
    """
    return found_program(command, servers_path(search_path(at))) is None


def found_program(name: str, path: str) -> str | None:
    """Return the path of a program; folders that depend on the current one are not searched.

    Args:
        name: Its name, or its path.
        path: The `PATH` to search.
    """
    folders = os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))
    return shutil.which(name, path=folders or os.sep + "nowhere")
