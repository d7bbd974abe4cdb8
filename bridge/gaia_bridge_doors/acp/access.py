"""Files and terminals of the editor, for the code of an agent: implements `calls.editor_access.EditorAccess`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import anyio
from acp import CLIENT_METHODS
from msgspec import Struct

from gaia_bridge.calls.editor_access import CommandEnd, RunningTool
from gaia_bridge.errors import AnswerError
from gaia_bridge.runtime.agent_runner import resting
from gaia_bridge.settings import AcpLimits
from gaia_bridge.text.json_types import JSON, is_object

_READ: Final = CLIENT_METHODS["fs_read_text_file"]
_WRITE: Final = CLIENT_METHODS["fs_write_text_file"]
_CREATE: Final = CLIENT_METHODS["terminal_create"]
_WAIT: Final = CLIENT_METHODS["terminal_wait_for_exit"]
_OUTPUT: Final = CLIENT_METHODS["terminal_output"]
_KILL: Final = CLIENT_METHODS["terminal_kill"]
_RELEASE: Final = CLIENT_METHODS["terminal_release"]

T = TypeVar("T")


class _EditorRequest(Protocol):
    async def __call__(self, method: str, params: JSON, patience: float | None = None) -> JSON:
        """Send the editor a request, and return its result, or raise `AnswerError`."""
        ...


class _TurnRunner(Protocol):
    def __call__(self, work: Callable[[RunningTool | None], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on the event loop, until the turn is over."""
        ...


class Workplace(Struct, frozen=True):
    """The files and terminals that an editor lets agents use in a conversation."""

    session_id: str
    folder: Path
    declared: Mapping[str, Any]
    """The editor's capabilities, in wire shape."""
    put: _EditorRequest
    start: Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
    """Starts a coroutine that may outlive a turn, and ends with the editor."""
    limits: AcpLimits

    @property
    def is_open(self) -> bool:
        """Whether the editor lets agents use anything."""
        return any(map(self.has, ("fs.readTextFile", "fs.writeTextFile", "terminal")))

    def has(self, name: str) -> bool:
        """Return whether the editor declares a capability.

        Args:
            name: `fs.readTextFile`, `fs.writeTextFile` or `terminal`.
        """
        value: Any = self.declared
        for part in name.split("."):
            value = value.get(part) if is_object(value) else None
        return value is True

    def path(self, text: str) -> str:
        """Return a path as the protocol requires it: absolute."""
        if "\0" in text or not text:
            raise AnswerError(f"{text!r:.120} is no path")
        return str(self.folder / text)

    async def ask(self, method: str, patience: float | None = None, **params: Any) -> JSON:
        """Send the editor a request in this conversation, and return its result."""
        told = {key: value for key, value in params.items() if value is not None}
        return await self.put(method, {"sessionId": self.session_id, **told}, patience)

    def insist(self, name: str, what: str) -> None:
        """Refuse an action that the editor does not let agents do.

        Raises:
            AnswerError: The editor does not declare the capability.
        """
        if not self.has(name):
            raise AnswerError(f"this editor does not let agents {what} (its capability {name} is not declared)")


class Access:
    """An agent's access to the editor in one turn.

    Args:
        workplace: The workplace of the conversation.
        do: Runs a coroutine on the event loop.
        show: Shows a terminal at a call, given the ids of both.
    """

    def __init__(self, workplace: Workplace, do: _TurnRunner, show: Callable[[str, str], Awaitable[None]]) -> None:
        self._at = workplace
        self._do = do
        self._show = show

    @property
    def can_read(self) -> bool:
        """Whether the editor lets agents read files."""
        return self._at.has("fs.readTextFile")

    @property
    def can_write(self) -> bool:
        """Whether the editor lets agents write files."""
        return self._at.has("fs.writeTextFile")

    @property
    def can_run(self) -> bool:
        """Whether the editor lets agents run commands in terminals."""
        return self._at.has("terminal")

    def read_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Return a file with the person's unsaved changes."""
        return _waited(self._do(partial(self._read, path, line, limit)))

    async def aread_text_file(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Read a file as `read_text_file` does, in a coroutine."""
        return await _awaited(self._do(partial(self._read, path, line, limit)))

    def write_text_file(self, path: str, content: str) -> None:
        """Write a file."""
        _waited(self._do(partial(self._write, path, content)))

    async def awrite_text_file(self, path: str, content: str) -> None:
        """Write a file as `write_text_file` does, in a coroutine."""
        await _awaited(self._do(partial(self._write, path, content)))

    def run(
        self,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> CommandEnd:
        """Run a command in a terminal that the person sees."""
        return _waited(self._do(partial(self._run, [command, *args], env or {}, cwd, timeout)))

    async def arun(
        self,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the command, which is killed
    ) -> CommandEnd:
        """Run a command as `run` does, in a coroutine."""
        return await _awaited(self._do(partial(self._run, [command, *args], env or {}, cwd, timeout)))

    # On the event loop.

    async def _read(self, path: str, line: int | None, limit: int | None, running: RunningTool | None) -> str:
        self._at.insist("fs.readTextFile", "read files")
        result = await self._at.ask(_READ, path=self._at.path(path), line=line, limit=limit)
        return _field(_READ, result, "content", str)

    async def _write(self, path: str, content: str, running: RunningTool | None) -> None:
        self._at.insist("fs.writeTextFile", "write files")
        await self._at.ask(_WRITE, path=self._at.path(path), content=content)

    async def _run(
        self,
        words: list[str],
        env: Mapping[str, str],
        cwd: str | None,
        wanted: float | None,
        running: RunningTool | None,
    ) -> CommandEnd:
        self._at.insist("terminal", "run commands")
        limits = self._at.limits
        seconds = limits.command_timeout if wanted is None else min(wanted, limits.command_timeout)
        terminal_id = await self._created(
            command=words[0],
            args=words[1:],
            env=[{"name": name, "value": value} for name, value in env.items()],
            cwd=self._at.path(cwd or "."),
            outputByteLimit=limits.command_output,
        )
        try:
            if running is not None:
                await self._show(running.call.id, terminal_id)
            return await self._end_of(terminal_id, seconds)
        finally:  # the release ends a running command; also where the turn was cancelled
            with anyio.CancelScope(shield=True), anyio.move_on_after(limits.release):
                await self._released(terminal_id)

    async def _created(self, **params: Any) -> str:
        """Return a new terminal. One that is created only after the turn was cancelled, or too late, is released."""
        opened: list[str] = []
        problems: list[Exception] = []
        answered = anyio.Event()
        has_left = False

        async def create() -> None:
            try:
                terminal = await self._at.ask(_CREATE, self._at.limits.turn_timeout, **params)
                opened.append(_field(_CREATE, terminal, "terminalId", str))
            except Exception as error:  # raised where it was asked: here it would end all conversations
                problems.append(error)
            answered.set()
            if has_left and opened:
                await self._released(opened[0])

        self._at.start(create)
        try:
            with anyio.fail_after(self._at.limits.terminal):
                await answered.wait()
        except BaseException as error:
            has_left = True
            if opened:  # at the same moment
                self._at.start(partial(self._released, opened[0]))
            if isinstance(error, TimeoutError):
                seconds = self._at.limits.terminal
                raise AnswerError(f"the editor did not answer {_CREATE} within {seconds:g} s") from None
            raise
        if problems:
            raise problems[0]
        return opened[0]

    async def _end_of(self, terminal_id: str, seconds: float) -> CommandEnd:
        has_timed_out = True
        ended: JSON = {}
        with anyio.move_on_after(seconds):
            ended = await self._at.ask(_WAIT, seconds + self._at.limits.release, terminalId=terminal_id)
            has_timed_out = False
        if has_timed_out:
            await self._at.ask(_KILL, terminalId=terminal_id)
        told = await self._at.ask(_OUTPUT, terminalId=terminal_id)
        status: JSON = told["exitStatus"] if is_object(told.get("exitStatus")) else ended
        code, signal = status.get("exitCode"), status.get("signal")
        return CommandEnd(
            _field(_OUTPUT, told, "output", str),
            None if has_timed_out or not isinstance(code, int) else code,
            signal if isinstance(signal, str) else None,
            told.get("truncated") is True,
            has_timed_out,
        )

    async def _released(self, terminal_id: str) -> None:
        try:
            await self._at.ask(_RELEASE, terminalId=terminal_id)
        except AnswerError:  # a terminal that cannot be released is left to the editor
            pass


def _waited(future: Future[T]) -> T:
    with resting():
        return future.result()


async def _awaited(future: Future[T]) -> T:
    with resting():
        return await asyncio.wrap_future(future)


def _field(method: str, result: JSON, name: str, kind: type[T]) -> T:
    value = result.get(name)
    if not isinstance(value, kind):
        raise AnswerError(f"the editor answered {method} with the {name} {value!r:.80}; expected a {kind.__name__}")
    return value
