"""One child process and its descendants: launched without a shell, and ended completely.

A child leads a process group of its own, so that Ctrl-C in a terminal reaches the bridge alone, and so that the whole
group can be ended. A mark in the environment, inherited by all descendants, finds those that left the group.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
import anyio.to_thread

from gaia_bridge.calls.process_ancestry import LINEAGE, LineageError
from gaia_bridge.client.transport import LaunchError, UpstreamError
from gaia_bridge.client.transports.children.guardian import MARK, marked
from gaia_bridge.client.transports.children.guardian_client import GUARDIAN
from gaia_bridge.config.fingerprints import digest, fingerprint
from gaia_bridge.config.launching.child_environment import PARTS_OF, child_environment
from gaia_bridge.config.launching.command_lines import is_program, split_command
from gaia_bridge.config.launching.launchers import launcher_in
from gaia_bridge.config.launching.search_path import search_path
from gaia_bridge.config.launching.workplaces import made_folder
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge.runtime.pipe_end import PipeEnd
from gaia_bridge.settings import UpstreamLimits

logger = logging.getLogger(__name__)

_LOOK: Final = 0.02
"""Seconds between two checks whether a process group is empty; the system has no event for that."""
_GONE: Final = 5.0
"""Seconds until a killed process is gone. That takes the system milliseconds, and seconds on a machine that is busy or
has much memory to clear. No setting, since it does not depend on the server."""
_SWEEPS: Final = 3
"""The most searches for descendants that left the group, repeated while there are some: they may start others."""
_PASSING: Final = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Temporary reasons for a failed launch."""
_ThreePipes = tuple[PipeEnd, PipeEnd, PipeEnd]
"""Standard input, output and error output."""


def exit_text(code: int) -> str:
    """Describe how a process ended; continues a sentence that begins with its name. A negative code is a signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


async def undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Run a bounded coroutine to its end even if this task is cancelled meanwhile; raise the cancellation afterwards.

    A shield of anyio protects from cancelled anyio scopes only. `asyncio.timeout`, `asyncio.TaskGroup` and Ctrl-C
    under `asyncio.run` cancel the task itself.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


@contextmanager
def _standard_pipes() -> Generator[tuple[_ThreePipes, _ThreePipes]]:
    """Open the pipes of a child that is launched in this block: its ends, which are closed afterwards, and ours."""
    opened: list[PipeEnd] = []
    try:
        for _ in range(3):
            opened += map(PipeEnd, os.pipe())
        stdin, to_child, from_child, stdout, errors_of_child, stderr = opened
        for end in (to_child, from_child, errors_of_child):
            FORKS.conceal(end.fileno())
        yield (stdin, stdout, stderr), (to_child, from_child, errors_of_child)
    except BaseException:
        for end in opened:
            end.close()
        raise
    for end in (stdin, stdout, stderr):
        end.close()


class Child:
    """A running child.

    Launching does not wait, so that it cannot be cancelled half-way through. The owner has to call `stop`, in every
    case.

    Raises:
        LaunchError: The child cannot be launched as it is configured.
        UpstreamError: The child cannot be launched right now.
    """

    pipes: _ThreePipes
    """Our ends, which the user of the pipes has to close."""

    def __init__(self, spec: StdioServerSpec) -> None:
        self._identity = secrets.token_hex(8)
        self._parent = os.getpid()
        environ = {**os.environ, "PATH": search_path(os.environ)}
        identity = digest([fingerprint(spec), os.path.abspath(spec.cwd or os.curdir)])
        try:
            lineage = LINEAGE.environment(spec.name, identity)
        except LineageError as error:
            raise LaunchError(f"cannot be started: {error}") from None
        environment = child_environment(spec, environ) | lineage | {MARK: self._identity}
        self._loop = asyncio.get_running_loop()
        self._exited = anyio.Event()
        self._is_asked = False
        self._on_exit: list[Callable[[int], None]] = []
        self.may_download = launcher_in((spec.command, *spec.args)) != ""
        """Whether the child is a launcher, without a sign yet that the server itself runs."""
        GUARDIAN.watch(self._identity)
        try:
            folder = made_folder(spec.cwd)
            with _standard_pipes() as (theirs, self.pipes):
                self._process = subprocess.Popen(
                    [spec.command, *spec.args],
                    stdin=theirs[0].fileno(),
                    stdout=theirs[1].fileno(),
                    stderr=theirs[2].fileno(),
                    cwd=folder,
                    env=environment,
                    start_new_session=True,
                )
        except (OSError, ValueError, TypeError) as error:
            GUARDIAN.leave(self._identity)
            raise _launch_error(spec, error) from None
        GUARDIAN.group(self._identity, self._process.pid)
        if self.may_download:
            GUARDIAN.pace(self._identity, "slow")
        try:
            self._stop_watching = self._watch()
        except RuntimeError as error:  # no thread can be started
            self._kill()
            for pipe in self.pipes:
                pipe.close()
            raise UpstreamError(f"cannot be started: {error}") from None

    @property
    def pid(self) -> int:
        """The process, and its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; `None` while the child runs."""
        return self._process.returncode

    def on_exit(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the exit code, on the loop, when the child has ended; soon if it has."""
        if self._exited.is_set():
            self._loop.call_soon(callback, self._process.returncode)
        else:
            self._on_exit.append(callback)

    def serves(self) -> None:
        """Note that the server itself runs, so that no download is in progress any more."""
        if self.may_download:
            self.may_download = False
            GUARDIAN.pace(self._identity, "quick")

    async def stop(self, limits: UpstreamLimits, on_stubborn: Callable[[], None]) -> None:
        """End the child and its descendants; its input was closed before. A cancellation takes effect only afterwards.

        Wait, then SIGTERM, wait, then SIGKILL; always for the whole group, because a child may end properly and leave
        others behind. A launcher that may be downloading has longer before SIGKILL. A fork of this process leaves the
        child alone.

        `on_stubborn` is called when the child goes on although its input was closed.
        """
        if os.getpid() == self._parent:
            await undisturbed(self._end(limits, on_stubborn))

    async def _end(self, limits: UpstreamLimits, on_stubborn: Callable[[], None]) -> None:
        try:
            if not await self._ends_within(limits.stop_grace):
                on_stubborn()
            grace = limits.rollback_grace if self.may_download else limits.terminate_grace
            if self._terminate() and not await self._group_ends_within(grace):
                logger.debug("process group %d is killed", self.pid)
                self._signal_group(signal.SIGKILL)
            await self._end_strays()
            if not await self._ends_within(_GONE):
                # It runs as another user, or hangs in the system. The guardian still has it on its list.
                logger.warning("process %d cannot be ended", self.pid)
                return
        except asyncio.CancelledError:  # the loop is being closed: there is no time for grace
            if self.may_download:
                self._terminate()  # the guardian does the rest
            else:
                self._kill()
            raise
        self._stop_watching()
        # Not in a `finally`: if the interpreter ends in the middle of this, the guardian has to finish it.
        GUARDIAN.leave(self._identity)

    def _terminate(self) -> bool:
        """Send SIGTERM to the group, once; return whether a process is left in it."""
        if self._is_asked:
            return self._signal_group(0)
        self._is_asked = True
        if self.may_download:
            GUARDIAN.pace(self._identity, "asked")
        return self._signal_group(signal.SIGTERM)

    def _kill(self) -> None:
        """End the child at once, without the loop."""
        self._signal_group(signal.SIGKILL)
        for pid in marked(self._identity, self.pid):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE)
        GUARDIAN.leave(self._identity)

    async def _ends_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._exited.wait()
        return self._exited.is_set()

    async def _group_ends_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            while self._signal_group(0):  # noqa: ASYNC110 - the system has no event for the end of a group
                await anyio.sleep(_LOOK)
            return True
        return False

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the group; return whether a process is left in it.

        When the child has ended and was waited for, its number is free as soon as the group is empty, but the system
        uses all others first. So the owner of a child has to stop it soon after its end.
        """
        try:
            os.killpg(self.pid, number)
        except PermissionError:  # a process has this number, but it is not ours any more
            return number == 0
        except ProcessLookupError:
            return False
        return True

    async def _end_strays(self) -> None:
        """End the descendants that left the group."""
        for _ in range(_SWEEPS):
            try:
                # A limiter of its own: all threads of the shared one may be taken, for ever.
                own = anyio.CapacityLimiter(1)
                strays = await anyio.to_thread.run_sync(marked, self._identity, self.pid, limiter=own)
            except RuntimeError:  # no thread can be started
                strays = marked(self._identity, self.pid)
            for pid in strays:
                logger.debug("process %d had left the group of its server; it is killed", pid)
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not strays:
                return

    def _watch(self) -> Callable[[], None]:
        """Watch for the child's end; return a function that stops that."""
        # Linux reports the end through a descriptor that the loop can wait for; elsewhere this takes a thread.
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return self._watch_in_thread()
        watching = [descriptor]

        def stop() -> None:
            if watching:
                self._loop.remove_reader(descriptor)
                os.close(watching.pop())

        def ended() -> None:
            stop()
            self._process.wait()  # does not block, since the process has ended
            self._tell()

        self._loop.add_reader(descriptor, ended)
        return stop

    def _watch_in_thread(self) -> Callable[[], None]:
        import threading

        def wait() -> None:
            self._process.wait()
            with suppress(RuntimeError):  # the loop is closed, so there are no callbacks left to call
                self._loop.call_soon_threadsafe(self._tell)

        threading.Thread(target=wait, name=f"child {self.pid}", daemon=True).start()
        return lambda: None

    def _tell(self) -> None:
        self._exited.set()
        callbacks, self._on_exit = self._on_exit, []
        for callback in callbacks:
            callback(self._process.returncode)


def _as_list(spec: StdioServerSpec) -> str:
    """Suggest the form of a command that was written as one line; empty if the command is one word."""
    if len(spec.command.split()) < 2:
        return ""
    try:
        program, *arguments = split_command(spec.command)
    except ValueError as error:
        return f"; {error}"
    further = ", ..." if spec.args else ""
    args = json.dumps(arguments, ensure_ascii=False)[:-1]
    command = json.dumps(program, ensure_ascii=False)
    return f'; if that is a program and its arguments, write "command": {command}, "args": {args}{further}]'


def _launch_error(spec: StdioServerSpec, error: OSError | ValueError | TypeError) -> UpstreamError:
    """Return the error of a failed launch, without arguments and environment, which may hold secrets."""
    if not isinstance(error, OSError):
        return LaunchError(
            "cannot be started: its launch line or environment has characters that cannot be passed to a program"
        )
    problem = error.strerror or type(error).__name__
    if spec.cwd is not None and error.filename == spec.cwd:
        return LaunchError(f"cannot be started in its working directory {spec.cwd!r}: {problem}")
    text = f"cannot be started: {spec.command!r}: {problem}"
    if isinstance(error, FileNotFoundError):
        text += _as_list(spec) or "; is it installed, and on the PATH?"
        if spec.command == "python" and is_program("python3", search_path(os.environ)):
            text += " There is a python3"
        if (source := PARTS_OF.get(os.path.basename(spec.command))) is not None:
            text += f" {spec.command} is a part of {source}"
    return UpstreamError(text) if error.errno in _PASSING else LaunchError(text)
