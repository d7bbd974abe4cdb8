"""Connects to a server for one command: what it waits for and says is shown meanwhile, and failures are one line."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio

from gaia_bridge.cli.servers.common import Activity, activity, era_note
from gaia_bridge.cli.servers.launcher_progress import LauncherProgress
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
from gaia_bridge.errors import ProtocolError, ServerUnavailableError
from gaia_bridge.sanitize.escaping import printable
from gaia_bridge.sanitize.redaction import Redactor
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    from gaia_bridge.client.oauth.interaction import UserInteraction
    from gaia_bridge.contract import Publishable
    from gaia_bridge.model import ServerSpec

__all__ = ["Ask", "LoginNeededError", "reach"]

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
    agent: Publishable | None = None,
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
        agent: The agent of this process that is the server, if it is one.

    Raises:
        ServerUnavailableError: It cannot be reached, or does not answer as it should.
    """
    bounds = limits_for(limits or UpstreamLimits(), spec)
    secretless = Redactor(secrets_of(spec))

    async def main() -> T:
        user = interaction(shown.say) if interaction else None
        transport = transport_for(spec, bounds, show, user) if agent is None else _published(spec.name, agent)
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
    with _told_in_one_line(spec, secretless, starts), activity(f"connecting to {spec.name}") as shown:
        waiting = LauncherProgress(spec, bounds, shown)
        try:
            found = anyio.run(main)
        except BaseException:
            if not shown.is_connected:
                for line in _told_once(starts):
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
        problem = f"it answered with an error: {printable(secretless(error.message))} ({error.code})"
        raise ServerUnavailableError(spec.name, problem) from None
    except LoginRequiredError as error:
        raise LoginNeededError(spec.name, secretless(f"it {error}")) from None
    except UpstreamError as error:
        problem = "; ".join(filter(None, (secretless(f"it {error}"), _explanation(spec, error, _told_once(starts)))))
        raise ServerUnavailableError(spec.name, problem) from None


def _published(name: str, agent: Publishable) -> Transport:
    from gaia_bridge.bridge import Bridge
    from gaia_bridge.chaining import BridgeTransport, PublishedAgent
    from gaia_bridge.discovery.classes import is_mcp_server

    if isinstance(agent, Bridge):
        return BridgeTransport(agent)
    if is_mcp_server(agent):
        from gaia_bridge.chaining.sdk_transport import SdkServerTransport

        return SdkServerTransport(agent, name)
    return PublishedAgent(name, lambda: agent)


def _explanation(spec: ServerSpec, error: UpstreamError, lines: Sequence[str]) -> str:
    """Why it went wrong, as far as its error output, which is redacted, says that."""
    from gaia_bridge.config.failure_causes import cause_for  # most servers do not fail

    late = isinstance(error, StartTimeoutError)
    if (cause := cause_for(spec, lines, os.environ, timed_out=late)) is not None:
        return str(cause)
    if not lines:
        return ""
    if late:
        return f"it was still saying: {lines[-1]}"
    return f"its last line of error output: {lines[-1]}" if isinstance(error, ConnectionLostError) else ""
