"""Serves one agent to the editor that has started this process, over the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from acp.core import Connection
from msgspec.structs import replace

from gaia_bridge.bridge import Bridge
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.server.transports.stdio import ClaimedStdio, claim_stdio, stdio_streams
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.sources.composition.composed import innermost
from gaia_bridge.text.json_types import is_array, is_object
from gaia_bridge_doors.acp.editor import Editor
from gaia_bridge_doors.acp.wire import Wire
from gaia_bridge_doors.conversation.models import Model
from gaia_bridge_doors.conversation.turn import ANSWER_METHODS, can_answer

_MODALITIES: Final = "input_modalities"
"""What models take, in what an agent says of its model."""


def check_agent(agent: object, reference: str) -> None:
    """Refuse an agent that nobody can converse with.

    Args:
        agent: It.
        reference: What the person wrote.

    Raises:
        AgentLoadError: It has no method that answers.
    """
    if not can_answer(agent):
        methods = " nor ".join(f"{name}()" for name in ANSWER_METHODS)
        hint = "derive it from gaia.agents.base.Agent, or add one of them"
        raise AgentLoadError(reference, f"nobody can converse with it: it has neither {methods}", hint)


async def serve_acp(bridge: Bridge, claimed: ClaimedStdio | None = None, *, images: bool = False) -> None:
    """Serve the one agent of a bridge on standard input and output, until the editor closes our input.

    Args:
        bridge: The bridge, entered.
        claimed: What `claim_stdio()` returned, where it was called before the agent was loaded.
        images: Whether its model takes pictures; also if it says so itself (`get_model_info()["input_modalities"]`).
    """
    async with stdio_streams(claimed or claim_stdio()) as (reader, write):
        await serve_editor(bridge, reader, write, images=images)


async def serve_editor(
    bridge: Bridge, reader: asyncio.StreamReader, write: Callable[[bytes], Awaitable[bool]], *, images: bool = False
) -> None:
    """The same on other streams.

    Args:
        bridge: As `serve_acp`.
        reader: What the editor writes.
        write: Writes to the editor, and returns whether it is there.
        images: As `serve_acp`.
    """
    settings = bridge.settings
    source = next(own for it in bridge.sources if isinstance(own := innermost(it), AgentSource))
    limits = replace(settings.chats, turn_timeout=settings.acp.turn_timeout, turns=settings.acp.sessions)
    model = Model(source.name, {}, source, limits)
    images = images or await _takes_images(source)
    async with anyio.create_task_group() as tasks:
        editor = Editor(model, bridge, images, tasks)
        wire = Wire(reader, write, settings.acp.line_bytes, settings.stdio_grace, editor.answered)
        editor.connection = connection = Connection(editor.handle, wire, listening=False)
        try:
            await _until(wire.gone, connection.main_loop)
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()
            model.leave()
            tasks.cancel_scope.cancel()


async def _until(gone: anyio.Event, listen: Callable[[], Awaitable[None]]) -> None:
    """Listen until the editor closes our input, or reads no more."""
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await gone.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        await listen()
        tasks.cancel_scope.cancel()


async def _takes_images(source: AgentSource) -> bool:
    info = await source.ask("get_model_info")
    modalities = info.get(_MODALITIES) if is_object(info) else None
    return is_array(modalities) and "image" in modalities
