"""What checks are made of and what they find: kinds of findings, each with an id that stays, and findings of a kind.

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
    """How bad a finding is."""

    OK = "ok"
    """As it should be."""
    INFO = "info"
    """Good to know; nothing is wrong."""
    WARNING = "warning"
    """Something does not work for somebody, or will not one day."""
    ERROR = "error"
    """Something that is set up does not work."""


NOTHING: Final = "nothing is to be done"
"""The remedy of what is as it should be."""


class NothingDoneError(Exception):
    """A repair was not made, because things are no longer as they were found; says how they are."""


class Repair(Struct, frozen=True):
    """What `--fix` does about a finding.

    Args:
        text: What that is, for whoever is asked; continues "it would ...".
        apply: Does it, after it has looked again.
    """

    text: str
    apply: Callable[[], None]


class Finding(Struct, frozen=True):
    """One thing that was found.

    Args:
        kind: What sort of thing.
        message: What it is, here.
        remedy: What to do about it, here.
        about: What it is about: a file, a program, a server.
        repair: What `--fix` does about it, if it does.
    """

    kind: Kind
    message: str
    remedy: str
    about: str = ""
    repair: Repair | None = None

    @property
    def level(self) -> Level:
        """How bad it is."""
        return self.kind.level

    def as_json(self) -> JSON:
        """As programs are told."""
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
        id: What it is called for ever: its subject, and a word for it.
        level: How bad it is.
        matter: What is the matter, in general.
        why: Why that matters.
        remedy: What to do about it, in general.
        mended: Whether `--fix` mends such, where they are ours.
    """

    id: str
    level: Level
    matter: str
    why: str
    remedy: str = NOTHING
    mended: bool = False

    def found(self, message: str, about: str = "", remedy: str | None = None, repair: Repair | None = None) -> Finding:
        """One of them.

        Args:
            message: What it is, here.
            about: What it is about.
            remedy: What to do about it here, where that is more than what is done in general.
            repair: What `--fix` does about it.
        """
        return Finding(self, message, self.remedy if remedy is None else remedy, about, repair)


T = TypeVar("T")

_SAID: Final = 4_096
"""Bytes of what a program says of its version; more is cut off, and the program ended."""

_DESKTOP: Final = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The `PATH` of programs that are started from a desktop: of launchd on macOS, of systemd's user manager on Linux.
What a shell adds in its own files (`~/.bashrc`, `~/.zshrc`) is not in it."""


class Subject(Struct, frozen=True):
    """What belongs together.

    Args:
        title: What it is called.
        kinds: What may be found.
        check: Finds it: a function, which is called in a thread, or a coroutine.
        patience: The setting that bounds it.
    """

    title: str
    kinds: tuple[Kind, ...]
    check: Callable[[Surroundings], list[Finding] | Awaitable[list[Finding]]]
    patience: str = "check_timeout"


class Said(Struct, frozen=True):
    """What a program said of its version.

    Args:
        text: Its first line, or the first of its errors.
        problem: Why it does not work, if it does not.
    """

    text: str
    problem: str = ""


async def what_it_says(words: Sequence[str], seconds: float, environ: Mapping[str, str]) -> Said:
    """Run a program that says its version, and ends. Nothing of it is left when it does not.

    It is run in the root folder: `python -m` and the shims of version managers heed what lies in the current one,
    which strangers may have written.

    Args:
        words: Its command line.
        seconds: How long that may take.
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
                    if code is None:  # what it has started is in its group
                        with suppress(OSError):
                            os.killpg(process.pid, signal.SIGKILL)
    except TimeoutError:
        return Said("", f"it did not answer within {seconds:g} s")
    except OSError as error:
        return Said("", f"it cannot be started: {error.strerror or error}")
    line = one_line(next(iter(text.strip().splitlines()), ""), 200)
    if code:
        return Said(line, f"it ends with code {code}" + (f": {line}" if line else ""))
    return Said(line)


async def _beginning(process: anyio.abc.Process) -> tuple[str, bool]:
    """What a process says at first, and whether it has said all."""
    assert process.stdout is not None
    said = b""
    while len(said) < _SAID:
        try:
            said += await process.stdout.receive(_SAID)
        except anyio.EndOfStream:
            return said.decode(errors="replace"), True
    return said.decode(errors="replace"), False


async def in_thread(function: Callable[[], T]) -> T:
    """Call what may wait for a file system. A thread that hangs is left behind, and ends with the process.

    Args:
        function: What is called.
    """
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)


def search_path(at: Surroundings) -> str:
    """Where the shell looks for programs."""
    return at.environ.get("PATH", os.defpath)


def servers_path(path: str) -> str:
    """Where a bridge looks for the programs of servers: also in what a terminal had, and where installers put them.

    Args:
        path: The `PATH` that it is started with.
    """
    from gaia_bridge.config.launching.search_path import search_path as with_remembered

    return with_remembered({"PATH": path})


def editor_path(at: Surroundings) -> str:
    """Where an editor that is started from the desktop looks for programs."""
    return _DESKTOP.get(at.platform, _DESKTOP["linux"])


def looked_up(spec: ServerSpec | None) -> str:
    """The program of a server that is looked for where the bridge looks; empty if there is none, or it says where.

    Args:
        spec: The server.
    """
    return spec.command if isinstance(spec, StdioServerSpec) and "PATH" not in spec.env else ""


def is_missing(command: str, at: Surroundings) -> bool:
    """Whether a program is not found, which is one finding for all servers that need it.

    Args:
        command: Its name, or its path.
        at: Where.
    """
    return found_program(command, servers_path(search_path(at))) is None


def found_program(name: str, path: str) -> str | None:
    """Where a program is; folders that depend on the current one are not looked into.

    Args:
        name: Its name, or its path.
        path: Where it is looked for.
    """
    folders = os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))
    return shutil.which(name, path=folders or os.sep + "nowhere")
