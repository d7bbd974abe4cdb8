"""Connects to a server for one command: its steps and output are shown meanwhile, and failures are one line.

While a launcher downloads a server, this is shown with the time since its start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

from gaia_bridge.client.oauth.errors import LoginRequiredError
from gaia_bridge.client.transport import (
    ConnectionLostError,
    Link,
    Receiver,
    StartTimeoutError,
    Transport,
    UpstreamError,
)
from gaia_bridge.client.transport_factory import limits_for, secrets_of, transport_for
from gaia_bridge.config.launching.launchers import is_of_launcher, launcher_in
from gaia_bridge.errors import ProtocolError, ServerUnavailableError
from gaia_bridge.model import AgentServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_cli.servers.common import Activity, activity, era_note

if TYPE_CHECKING:
    from gaia_bridge.client.oauth.interaction import UserInteraction
    from gaia_bridge.contract import Publishable

_FIRST: Final = 5
"""Seconds before a download is reported: a server that needs none has mostly started by then."""

_LOOK: Final = 0.2
"""Seconds between two checks of the start."""

_EVERY: Final = 30
"""Seconds between two lines about a download where there is no terminal."""


class LauncherProgress:
    """Shows the progress of a server's start, until the server is connected.

    Args:
        spec: The server.
        limits: The limits for its start.
        shown: The display.
    """

    def __init__(self, spec: ServerSpec, limits: UpstreamLimits, shown: Activity) -> None:
        self._name = spec.name
        self._launcher = launcher_in((spec.command, *spec.args)) if isinstance(spec, StdioServerSpec) else ""
        self._limits = limits
        self._shown = shown
        self._last = ""

    def heard(self, line: str) -> None:
        """Process a line of error output."""
        self._last = line
        if not is_of_launcher(line):
            self._launcher = ""
        if not self._launcher:
            self._shown.doing(f"{self._name}: {line}")

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show the progress during the block."""
        failure: BaseException | None = None
        starting = asyncio.current_task()
        assert starting is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tick, starting)
            try:
                yield
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                failure = error  # raised again below, not in the task group, which would wrap it
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _tick(self, starting: asyncio.Task[object]) -> None:
        began = anyio.current_time()
        most = round(self._limits.start_timeout)
        due = _FIRST
        stopping = False
        while self._launcher and not self._shown.is_connected:
            was_stopping, stopping = stopping, bool(starting.cancelling())  # by Ctrl-C, or because its time is over
            if was_stopping and stopping:  # a program that has exited is put away between two looks
                self._shown.doing("stopping")
                self._shown.say(f"Stopping: waiting for {self._launcher} to remove its unfinished download")
                return
            seconds = round(anyio.current_time() - began)
            if seconds >= _FIRST:  # a terminal shows the seconds itself
                text = f"{self._launcher} is downloading {self._name}"
                self._shown.doing(f"{text}: {self._last}" if self._last else text)
                if seconds >= due and not self._shown.is_live:
                    due += _EVERY
                    self._shown.say(f"{text} ({seconds} s); it has up to {most} s, Ctrl-C stops it")
            await anyio.sleep(_LOOK)


logger = logging.getLogger(__name__)
T = TypeVar("T")

_HELD = 100
"""Lines of error output that are kept in case the server fails."""


class LoginNeededError(ServerUnavailableError):
    """The server answers, and wants a login first.

    Args:
        name: The server's name.
        problem: The problem.
        with_token: The remedy with a token, where the server may want one that no login gives; empty otherwise.
    """

    def __init__(self, name: str, problem: str, with_token: str = "") -> None:
        super().__init__(name, problem)
        self.with_token = with_token


Ask = Callable[[Transport, UpstreamLimits, Activity], Awaitable[T]]
"""A function that uses a server, given its transport, its limits, and the display."""


def reach(
    spec: ServerSpec,
    ask: Ask[T],
    *,
    limits: UpstreamLimits | None = None,
    interaction: Callable[[Callable[[str], None]], UserInteraction] | None = None,
    show_all: bool = False,
    agents: Mapping[str, Publishable] | None = None,
) -> T:
    """Run a function that uses a server, on a loop of its own.

    The server's error output is shown once it is connected; earlier lines, mostly about downloads and the question for
    its era, only if the connection fails.

    Args:
        spec: The server.
        ask: The function.
        limits: Limits; those of the entry override them.
        interaction: Makes the way to ask the user to log in, given a function that shows a line.
        show_all: Whether to show the whole error output at once.
        agents: Agents of this process by their names, if the server is one of them, or all of them.

    Raises:
        ServerUnavailableError: The server cannot be reached, or violates the protocol.
    """
    bounds = limits_for(limits or UpstreamLimits(), spec)
    secretless = Redactor(secrets_of(spec))

    async def main() -> T:
        user = interaction(shown.say) if interaction else None
        published = None if agents is None else _published(spec.name, agents, bounds)
        transport = transport_for(spec, bounds, show, user) if published is None else published
        async with waiting.shown():
            return await ask(_AnnouncingTransport(transport, begin), bounds, shown)

    def begin() -> None:
        starts.append(deque(maxlen=_HELD))

    def show(line: str) -> None:
        output.append(line)
        if show_all or shown.is_connected:
            shown.say(f"{spec.name}: {line}")
        else:
            starts[-1].append(line)
            waiting.heard(line)

    starts: list[deque[str]] = [deque()]
    output: deque[str] = deque(maxlen=_HELD)
    with activity(f"connecting to {spec.name}") as shown:
        waiting = LauncherProgress(spec, bounds, shown)
        try:
            with _errors_in_one_line(spec, secretless, starts):
                result = anyio.run(main)
        except BaseException as error:
            if not shown.is_connected:
                lines = _output_once(starts)
                if lines and str(error).endswith(lines[-1]):  # the error quotes it
                    lines.pop()
                for line in lines:
                    shown.say(f"{spec.name}: {line}")
            raise
        if show_all and (note := era_note(output)):
            shown.say(note)
        return result


class _AnnouncingTransport:
    """A transport that reports the beginning of each connection.

    Args:
        transport: The transport.
        begin: Called before each connection.
    """

    def __init__(self, transport: Transport, begin: Callable[[], None]) -> None:
        self._transport = transport
        self._begin = begin

    def connect(self, receiver: Receiver) -> AbstractAsyncContextManager[Link]:
        """Open a link."""
        self._begin()
        return self._transport.connect(receiver)


def _output_once(starts: Sequence[Sequence[str]]) -> list[str]:
    """Return the error output of all starts without repetitions: a server may be started twice to find out its era."""
    output = list(starts[0])
    for lines in starts[1:]:
        output += () if list(lines) == output else lines
    return output


@contextmanager
def _errors_in_one_line(spec: ServerSpec, secretless: Redactor, starts: Sequence[Sequence[str]]) -> Generator[None]:
    """Turn an error of a server during the block into one line, without secrets."""
    try:
        yield
    except ProtocolError as error:
        message = printable(secretless(error.message))
        if isinstance(spec, AgentServerSpec):  # the protocol is a detail that users of an agent need not see
            raise ServerUnavailableError(spec.name, message, "agent") from None
        raise ServerUnavailableError(spec.name, f"it answered with an error: {message} ({error.code})") from None
    except LoginRequiredError as error:
        raise LoginNeededError(spec.name, secretless(f"it {error}"), error.with_token) from None
    except UpstreamError as error:
        problem = "; ".join(filter(None, (secretless(f"it {error}"), _explanation(spec, error, _output_once(starts)))))
        kind = "agent" if isinstance(spec, AgentServerSpec) else "server"
        raise ServerUnavailableError(spec.name, problem, kind) from None


def _published(name: str, agents: Mapping[str, Publishable], limits: UpstreamLimits) -> Transport:
    from gaia_bridge.bridge import Bridge
    from gaia_bridge.bridge.chaining import BridgeTransport, PublishedAgent
    from gaia_bridge.bridge.discovery.classes import is_mcp_server

    if len(agents) > 1:
        return _PublishedTogether(name if name in agents else None, agents, limits)
    [agent] = agents.values()
    if isinstance(agent, Bridge):
        return BridgeTransport(agent)
    if is_mcp_server(agent):
        from gaia_bridge.bridge.chaining.sdk_transport import SdkServerTransport

        return SdkServerTransport(agent, name)
    return PublishedAgent(name, lambda: agent)


class _PublishedTogether:
    """A transport to agents that may use each other: one or all are reached once each has the agents that it waits for.

    Args:
        name: The agent; `None` for all.
        agents: The agents, by their names.
        limits: The limits for the wait.
    """

    def __init__(self, name: str | None, agents: Mapping[str, Publishable], limits: UpstreamLimits) -> None:
        self._name = name
        self._agents = agents
        self._limits = limits

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Publish the agents, and open a link."""
        from gaia_bridge.bridge import Bridge
        from gaia_bridge.bridge.chaining import BridgeTransport
        from gaia_bridge.sources.agent.registry import LOCAL_AGENTS

        bridge = Bridge()
        async with bridge:
            refused = await bridge.add_agents(self._agents)
            if self._name in refused or len(refused) == len(self._agents):
                raise UpstreamError(f"cannot be published: {next(iter(refused.values()))}")
            for error in refused.values():
                logger.warning("left out: %s", error)
            await anyio.to_thread.run_sync(LOCAL_AGENTS.settle, self._limits.connect_timeout)
            async with BridgeTransport(bridge, self._name).connect(receiver) as link:
                yield link


def _explanation(spec: ServerSpec, error: UpstreamError, lines: Sequence[str]) -> str:
    """Return the reason of a failure, as far as the error output, which is redacted, gives it."""
    from gaia_bridge.config.launching.failure_causes import cause_for  # most servers do not fail

    late = isinstance(error, StartTimeoutError)
    if (cause := cause_for(spec, lines, os.environ, timed_out=late)) is not None:
        return str(cause)
    if not lines:
        return ""
    if late:
        return f"it was still saying: {lines[-1]}"
    return f"its last line of error output: {lines[-1]}" if isinstance(error, ConnectionLostError) else ""
