"""Connects to a server for one command: its error output is shown while that lasts, and failures are one line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import anyio
import click

from gaia_bridge.errors import ProtocolError, ServerUnavailableError
from gaia_bridge.outbound.reaching import limits_for, transport_for
from gaia_bridge.outbound.transport import Transport, UpstreamError
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    from gaia_bridge.model import ServerSpec
    from gaia_bridge.outbound.oauth.interaction import UserInteraction

__all__ = ["reach"]

T = TypeVar("T")


def reach(
    spec: ServerSpec,
    ask: Callable[[Transport, UpstreamLimits], Awaitable[T]],
    *,
    limits: UpstreamLimits | None = None,
    interaction: UserInteraction | None = None,
) -> T:
    """Ask a server something, on a loop of its own.

    Args:
        spec: The server.
        ask: What to do, given how to reach it and its limits.
        limits: Bounds; what the entry says comes on top of them.
        interaction: How the user is asked to log in.

    Raises:
        ServerUnavailableError: It cannot be reached, or does not answer as it should.
    """
    bounds = limits_for(limits or UpstreamLimits(), spec.options)

    def show(line: str) -> None:
        click.echo(f"{spec.name}: {line}", err=True)

    async def main() -> T:
        return await ask(transport_for(spec, bounds, show, interaction), bounds)

    try:
        return anyio.run(main)
    except ProtocolError as error:
        raise ServerUnavailableError(spec.name, f"it answered with an error: {error.message} ({error.code})") from None
    except UpstreamError as error:
        raise ServerUnavailableError(spec.name, f"it {error}") from None
