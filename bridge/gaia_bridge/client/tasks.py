"""Calls tools that a server runs as tasks only (MCP 2025-11-25, tasks), for callers that wait for a plain result.

The task is created, its status polled at the server's interval, and its result fetched. Questions of the server
meanwhile come on the stream of that last request; cancelling the call cancels the task.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import anyio

from gaia_bridge.calls.deadlines import Deadline
from gaia_bridge.client.json_rpc_peer import JsonRpcPeer
from gaia_bridge.client.transport import ConnectionLostError, SessionExpiredError, UpstreamError
from gaia_bridge.client.types import OnProgress, RequestTimeoutError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.protocol.meta import RELATED_TASK_KEY, without_key
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON, is_object, value_at

_CALL: Final = "tools/call"
_MILLISECONDS: Final = 1_000


class Tasks:
    """The tools of one connection that run as tasks only."""

    def __init__(self, peer: JsonRpcPeer, capabilities: JSON, limits: UpstreamLimits) -> None:
        self._peer = peer
        self._limits = limits
        self._patience = Deadline(limits.list_timeout, limits.list_timeout)
        self._served = value_at(capabilities, "tasks", "requests", "tools", "call") is not None
        self.tools: set[str] = set()
        """The names of the tools, for which a request has to be `play`ed; see `needed`."""

    def learn(self, tools: list[Any]) -> None:
        """Remember the tools of the whole list that run as tasks only."""
        needing = (tool for tool in tools if value_at(tool, "execution", "taskSupport") == "required")
        self.tools = {name for tool in needing if isinstance(name := tool.get("name"), str)} if self._served else set()

    def needed(self, method: str, params: JSON | None) -> bool:
        """Whether a request has to create a task, and the caller did not ask for a task itself."""
        if method != _CALL or params is None or "task" in params:
            return False
        name = params.get("name")
        return isinstance(name, str) and name in self.tools

    async def play(self, params: JSON, deadline: Deadline, on_progress: OnProgress | None, number: int | None) -> JSON:
        """Call a tool by way of a task; arguments, result and exceptions are those of `Connection.request`."""
        number = self._peer.new_id() if number is None else number
        reports = _Reports(on_progress, self._limits.notes)
        began = anyio.current_time()
        asked = {**params, "task": {"ttl": int(deadline.cap * _MILLISECONDS)}}
        hear = None if on_progress is None else reports.hear
        made = await self._peer.request(_CALL, asked, deadline, on_progress=hear, number=number)
        task = made.get("task")
        if not is_object(task) or not isinstance(identifier := task.get("taskId"), str):
            return made
        peer = self._peer
        peer.origins[identifier] = number
        peer.progress[number] = reports.add
        over = False
        try:
            with anyio.move_on_after(max(0.0, began + deadline.cap - anyio.current_time())):
                result = await self._result(identifier, task, reports, deadline)
                over = True
                return result
            raise RequestTimeoutError(_CALL, deadline.cap)
        except SessionExpiredError as error:  # converted, or the caller would repeat the call as one that never began
            over = True
            raise UpstreamError(f"{error}; whether it did the work is unknown") from None
        except (ProtocolError, ConnectionLostError):
            over = True
            raise
        finally:
            peer.origins.pop(identifier, None)  # may be gone: a server may have given two calls the same id
            del peer.progress[number]
            if not over:
                await self._cancel(identifier)

    async def _result(self, identifier: str, task: JSON, reports: _Reports, deadline: Deadline) -> JSON:
        failures = 0
        while task.get("status") not in ("completed", "failed", "input_required"):
            if task.get("status") == "cancelled":
                raise UpstreamError(f"cancelled the task that it made of {_CALL}")
            await reports.tell(task.get("statusMessage"))
            await reports.pause(self._pause(task))
            try:
                task = await self._peer.request("tasks/get", {"taskId": identifier}, self._patience)
                failures = 0
            except (ConnectionLostError, SessionExpiredError):
                raise
            except UpstreamError:
                failures += 1
                if failures > self._limits.read_retries:
                    raise
        if task.get("status") == "input_required":
            await reports.tell(task.get("statusMessage"))
        number = self._peer.new_id()
        self._peer.origins[number] = self._peer.origins[identifier]
        try:
            until_it_is_done = Deadline(deadline.cap, deadline.cap)
            params = {"taskId": identifier}
            result = await self._peer.request("tasks/result", params, until_it_is_done, number=number)
            return without_key(result, RELATED_TASK_KEY)  # the caller does not know of a task
        finally:
            del self._peer.origins[number]

    def _pause(self, task: JSON) -> float:
        wanted = task.get("pollInterval")
        if isinstance(wanted, bool) or not isinstance(wanted, int | float):
            return self._limits.poll_interval
        # Bounded before it is divided: an integer in JSON may be beyond any float.
        least, most = self._limits.poll_floor * _MILLISECONDS, self._limits.poll_cap * _MILLISECONDS
        return min(max(wanted, least), most) / _MILLISECONDS

    async def _cancel(self, identifier: str) -> None:
        """Cancel a task on the server, also while this coroutine is being cancelled."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._limits.farewell):
            try:
                await self._peer.request("tasks/cancel", {"taskId": identifier}, self._patience)
            except (ProtocolError, UpstreamError):
                pass  # it is over, or the server is gone


class _Reports:
    """Reports on a task: the server's progress; or, while there is none, its status message."""

    def __init__(self, on_progress: OnProgress | None, waiting: int) -> None:
        self._on_progress = on_progress
        self._waiting: deque[Progress] = deque(maxlen=waiting)
        self._news = anyio.Event()
        self._progresses = False
        self._status: object = None
        self._number = 0

    async def hear(self, report: Progress) -> None:
        """Pass on progress, as it comes before the task exists."""
        self._progresses = True
        if self._on_progress is not None:
            await self._on_progress(report)

    def add(self, report: Progress) -> None:
        """Queue progress, which `pause` passes on."""
        self._waiting.append(report)
        self._news.set()

    async def tell(self, status: object) -> None:
        """Report a new status message as progress, unless the server reports progress itself."""
        if self._progresses or self._on_progress is None or not isinstance(status, str) or status == self._status:
            return
        self._status = status
        self._number += 1
        await self._on_progress(Progress(self._number, message=status))

    async def pause(self, seconds: float) -> None:
        """Wait, and pass on progress that comes meanwhile."""
        with anyio.move_on_after(seconds):
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                while self._waiting:
                    await self.hear(self._waiting.popleft())
