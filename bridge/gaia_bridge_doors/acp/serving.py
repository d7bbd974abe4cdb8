"""Serves one agent over the Agent Client Protocol to the editor that started this process.

A `Transport` of the protocol's package turns the editor's lines into JSON-RPC messages, and ours into lines. A line
that is no message is answered here, so that the package does not see it: it would end the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from acp.core import Connection
from msgspec.structs import replace

from gaia_bridge.bridge import Bridge
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.protocol.codes import INVALID_REQUEST
from gaia_bridge.protocol.framing import LineFramer, OversizedLine
from gaia_bridge.protocol.messages import Refusal, decoded, encoded_error, is_request, message_problem, oversized
from gaia_bridge.server.transports.stdio import ClaimedStdio, claim_stdio, stdio_streams
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.sources.composition.composed import innermost
from gaia_bridge.text.json_text import to_json, valid_json
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.acp.editor import EditorClient
from gaia_bridge_doors.conversation.models import Model
from gaia_bridge_doors.conversation.turn import ANSWER_METHODS, can_answer

logger = logging.getLogger(__name__)

_CHUNK: Final = 256 * 1024


class Wire:
    """The connection to the editor. Implements `acp.connection.Transport`.

    Args:
        reader: The stream of the editor's lines.
        write: Writes to the editor, and returns whether it still reads.
        line_bytes: The longest line that is read.
        grace: Seconds after the end of input in which open requests are still answered.
        on_result: Called with every result, once it is written.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        write: Callable[[bytes], Awaitable[bool]],
        line_bytes: int,
        grace: float,
        on_result: Callable[[JSON], None],
    ) -> None:
        self._reader = reader
        self._write = write
        self._grace = grace
        self._on_result = on_result
        self._framer = LineFramer(line_bytes)
        self._lines = deque[bytes | OversizedLine]()
        self._has_ended = False
        self._owed: set[int | str] = set()
        self._none_owed = anyio.Event()
        self._order = anyio.Lock()
        self.gone = anyio.Event()
        """Set once the editor reads no more."""

    async def receive(self) -> JSON | None:
        """Return the next message; after the end of input `None`, once open requests are answered or take too long."""
        while True:
            while self._lines:
                if (message := await self._message(self._lines.popleft())) is not None:
                    return message
            if self._has_ended:
                with anyio.move_on_after(self._grace):
                    await self._wait_until_answered()
                return None
            chunk = await self._reader.read(_CHUNK)
            self._has_ended = not chunk
            self._lines.extend(self._framer.feed(chunk) if chunk else self._framer.end())

    async def send(self, message: JSON) -> None:
        """Write a message; wait for an editor that reads slowly. If the editor is gone, write nothing."""
        try:
            line = to_json(message)
        except ValueError:  # a lone surrogate, which UTF-8 cannot encode
            line = to_json(valid_json(message))
        await self._put(line)
        if "method" not in message:
            self._owed.discard(message["id"])
            self._none_owed.set()
            if "result" in message:
                self._on_result(message["result"])

    async def close(self) -> None:
        """Do nothing: the opener of the streams closes them."""

    async def _wait_until_answered(self) -> None:
        while self._owed:
            self._none_owed = anyio.Event()
            await self._none_owed.wait()

    async def _message(self, line: bytes | OversizedLine) -> JSON | None:
        """Return the message of a line; `None` if the line is none and was answered."""
        content: Any = oversized(line) if isinstance(line, OversizedLine) else decoded(line)
        if is_object(content) and "method" not in content and content.get("result", "") is None:
            content["result"] = {}  # an empty result, which is null in ACP, and an object in MCP
        refusal = _problem(content)
        if refusal is None:
            if is_request(content):
                self._owed.add(content["id"])
            message: JSON = content
            return message
        logger.warning("the editor sent what is no message: %s", refusal.message)
        if is_object(content) and "method" not in content and isinstance(content.get("id"), int):
            # The caller that waits for this answer gets an error, instead of waiting for ever.
            return {"id": content["id"], "error": {"code": refusal.code, "message": refusal.message}}
        await self._put(encoded_error(refusal))
        return None

    async def _put(self, line: bytes) -> None:
        async with self._order:
            if not self.gone.is_set() and not await self._write(line + b"\n"):
                self.gone.set()


def _problem(content: Any) -> Refusal | None:
    """Return the reason why a line is no message; `None` if it is one."""
    if isinstance(content, Refusal):
        return content
    if is_array(content):
        return Refusal(INVALID_REQUEST, "A batch came; expected one message in each line")
    return message_problem(content)


_MODALITIES: Final = "input_modalities"
"""The field of an agent's model info that lists the model's inputs."""


def check_agent(agent: object, reference: str) -> None:
    """Refuse an agent that has no method to converse.

    Args:
        agent: The agent.
        reference: The person's reference to it.

    Raises:
        AgentLoadError: The agent has no method that answers.
    """
    if not can_answer(agent):
        methods = " nor ".join(f"{name}()" for name in ANSWER_METHODS)
        hint = "derive it from gaia.agents.base.Agent, or add one of them"
        raise AgentLoadError(reference, f"nobody can converse with it: it has neither {methods}", hint)


async def serve_acp(bridge: Bridge, claimed: ClaimedStdio | None = None, *, images: bool = False) -> None:
    """Serve the one agent of a bridge on standard input and output, until the editor closes our input.

    Args:
        bridge: The bridge, entered.
        claimed: The result of `claim_stdio()`, if it was called before the agent was loaded.
        images: Whether its model accepts pictures; also if its info states it (`get_model_info()["input_modalities"]`).
    """
    async with stdio_streams(claimed or claim_stdio()) as (reader, write):
        await serve_editor(bridge, reader, write, images=images)


async def serve_editor(
    bridge: Bridge, reader: asyncio.StreamReader, write: Callable[[bytes], Awaitable[bool]], *, images: bool = False
) -> None:
    """Serve the one agent of a bridge on other streams.

    Args:
        bridge: As for `serve_acp`.
        reader: The stream of the editor's lines.
        write: Writes to the editor, and returns whether it still reads.
        images: As for `serve_acp`.
    """
    settings = bridge.settings
    source = next(own for it in bridge.sources if isinstance(own := innermost(it), AgentSource))
    limits = replace(settings.chats, turn_timeout=settings.acp.turn_timeout, turns=settings.acp.sessions)
    model = Model(source.name, {}, source, limits)
    images = images or await _can_take_images(source)
    async with anyio.create_task_group() as tasks:
        editor = EditorClient(model, bridge, images, tasks)
        wire = Wire(reader, write, settings.acp.line_bytes, settings.stdio_grace, editor.mark_announced)
        editor.connection = connection = Connection(editor.handle, wire, listening=False)
        try:
            await _listen_until(wire.gone, connection.main_loop)
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()
            model.end_turns()
            tasks.cancel_scope.cancel()


async def _listen_until(gone: anyio.Event, listen: Callable[[], Awaitable[None]]) -> None:
    """Listen until the editor closes our input or stops reading."""
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await gone.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        await listen()
        tasks.cancel_scope.cancel()


async def _can_take_images(source: AgentSource) -> bool:
    info = await source.ask("get_model_info")
    modalities = info.get(_MODALITIES) if is_object(info) else None
    return is_array(modalities) and "image" in modalities
