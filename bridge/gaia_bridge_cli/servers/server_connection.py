"""Connects to a server for one command: what it waits for and says is shown meanwhile, and failures are one line.

While a launcher downloads a server, that is shown, with for how long already.
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
"""Seconds before a download is told of: what is there already has mostly started by then."""

_LOOK: Final = 0.2
"""Seconds between two looks at how the start is."""

_EVERY: Final = 30
"""Seconds between two lines of it where there is no terminal."""


class LauncherProgress:
    """What one start of a server waits for, until the server is there.

    Args:
        spec: The server.
        limits: How long its start may take.
        shown: Where it is said.
    """

    def __init__(self, spec: ServerSpec, limits: UpstreamLimits, shown: Activity) -> None:
        self._name = spec.name
        self._launcher = launcher_in((spec.command, *spec.args)) if isinstance(spec, StdioServerSpec) else ""
        self._limits = limits
        self._shown = shown
        self._last = ""

    def heard(self, line: str) -> None:
        """A line of error output came."""
        self._last = line
        if not is_of_launcher(line):
            self._launcher = ""
        if not self._launcher:
            self._shown.doing(f"{self._name}: {line}")

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show it to the end of the block."""
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
"""Lines of error output that are kept in case that the server fails."""


class LoginNeededError(ServerUnavailableError):
    """The server is there, and wants to know who we are first."""


Ask = Callable[[Transport, UpstreamLimits, Activity], Awaitable[T]]
"""What to do with a server, given how to reach it, its limits, and where to say what is being done."""


def reach(
    spec: ServerSpec,
    ask: Ask[T],
    *,
    limits: UpstreamLimits | None = None,
    interaction: Callable[[Callable[[str], None]], UserInteraction] | None = None,
    show_all: bool = False,
    agents: Mapping[str, Publishable] | None = None,
) -> T:
    """Ask a server something, on a loop of its own.

    What it writes to its error output is shown from the moment on that it is connected; what came before, mostly about
    downloads and about the question for its era, only if it comes to nothing.

    Args:
        spec: The server.
        ask: What to do.
        limits: Bounds; what the entry says comes on top of them.
        interaction: How the user is asked to log in, given what shows a line to the user.
        show_all: Show the whole error output at once.
        agents: Agents of this process, if the server is one of them, by its name; or all that they offer.

    Raises:
        ServerUnavailableError: It cannot be reached, or does not answer as it should.
    """
    bounds = limits_for(limits or UpstreamLimits(), spec)
    secretless = Redactor(secrets_of(spec))

    async def main() -> T:
        user = interaction(shown.say) if interaction else None
        published = None if agents is None else _published(spec.name, agents, bounds)
        transport = transport_for(spec, bounds, show, user) if published is None else published
        async with waiting.shown():
            return await ask(_Announced(transport, begin), bounds, shown)

    def begin() -> None:
        starts.append(deque(maxlen=_HELD))

    def show(line: str) -> None:
        said.append(line)
        if show_all or shown.is_connected:
            shown.say(f"{spec.name}: {line}")
        else:
            starts[-1].append(line)
            waiting.heard(line)

    starts: list[deque[str]] = [deque()]
    said: deque[str] = deque(maxlen=_HELD)
    with activity(f"connecting to {spec.name}") as shown:
        waiting = LauncherProgress(spec, bounds, shown)
        try:
            with _told_in_one_line(spec, secretless, starts):
                found = anyio.run(main)
        except BaseException as error:
            if not shown.is_connected:
                lines = _told_once(starts)
                if lines and str(error).endswith(lines[-1]):  # the error quotes it
                    lines.pop()
                for line in lines:
                    shown.say(f"{spec.name}: {line}")
            raise
        if show_all and (note := era_note(said)):
            shown.say(note)
        return found


class _Announced:
    """A way to a server that says when a connection begins.

    Args:
        transport: The way.
        begin: Told before each connection.
    """

    def __init__(self, transport: Transport, begin: Callable[[], None]) -> None:
        self._transport = transport
        self._begin = begin

    def connect(self, receiver: Receiver) -> AbstractAsyncContextManager[Link]:
        """Open a link."""
        self._begin()
        return self._transport.connect(receiver)


def _told_once(starts: Sequence[Sequence[str]]) -> list[str]:
    """The error output of all starts: a server may be started twice, to find out its era. Without repetitions."""
    told = list(starts[0])
    for lines in starts[1:]:
        told += () if list(lines) == told else lines
    return told


@contextmanager
def _told_in_one_line(spec: ServerSpec, secretless: Redactor, starts: Sequence[Sequence[str]]) -> Generator[None]:
    """Make one line, without secrets, of what went wrong with a server to the end of the block."""
    try:
        yield
    except ProtocolError as error:
        message = printable(secretless(error.message))
        if isinstance(spec, AgentServerSpec):  # of which nobody has to know that it is spoken to in a protocol
            raise ServerUnavailableError(spec.name, message, "agent") from None
        raise ServerUnavailableError(spec.name, f"it answered with an error: {message} ({error.code})") from None
    except LoginRequiredError as error:
        raise LoginNeededError(spec.name, secretless(f"it {error}")) from None
    except UpstreamError as error:
        problem = "; ".join(filter(None, (secretless(f"it {error}"), _explanation(spec, error, _told_once(starts)))))
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
    """A way to agents that may use each other: one of them, or all, is reached once each has what it waits for.

    Args:
        name: The one that is meant; `None` for all.
        agents: The agents, by their names.
        limits: How long is waited.
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
    """Why it went wrong, as far as its error output, which is redacted, says that."""
    from gaia_bridge.config.launching.failure_causes import cause_for  # most servers do not fail

    late = isinstance(error, StartTimeoutError)
    if (cause := cause_for(spec, lines, os.environ, timed_out=late)) is not None:
        return str(cause)
    if not lines:
        return ""
    if late:
        return f"it was still saying: {lines[-1]}"
    return f"its last line of error output: {lines[-1]}" if isinstance(error, ConnectionLostError) else ""
