"""The conversations that MCP clients have with one agent by its tool `ask`: their owners, and their turns.

A conversation is continued by its id, which the bridge makes up, and which nobody can guess. A name that a client
makes up stands for a conversation of the client's own session, and of no other: two clients that both send "main"
have two conversations. Where each request stands alone (2026-07-28 over HTTP), a name can only begin one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from msgspec import Struct, field

from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.chat_types import ASK_SESSION
from gaia_bridge.errors import ToolError

_SECRET_BYTES: Final = 16
_ID: Final = re.compile(rf"{ASK_SESSION}[A-Za-z0-9_-]{{22}}")
"""The bytes of a secret, in base64."""
_GAVE_WAY: Final = (
    "This question was given up: it waited for an answer of its client when another came in the same conversation."
)


class Conversation(Struct, frozen=True):
    """The conversation that a client's `session` argument stands for."""

    id: str
    must_exist: bool
    """Whether the client sent an id, which only an existing conversation has."""
    is_named: bool
    """Whether the value that the client sent continues the conversation the next time as well."""


def conversation_of(session: str, session_key: str | None) -> Conversation:
    """Return the conversation that a client refers to.

    Args:
        session: The client's value: an id, or a name of its own.
        session_key: The secret of the client's session, if it has one.
    """
    if _ID.fullmatch(session):
        return Conversation(session, must_exist=True, is_named=True)
    if session_key is None:
        return Conversation(_id(secrets.token_bytes(_SECRET_BYTES)), must_exist=False, is_named=False)
    name = session.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(name, key=session_key.encode(), digest_size=_SECRET_BYTES).digest()
    return Conversation(_id(digest), must_exist=False, is_named=True)


def _id(secret: bytes) -> str:
    return ASK_SESSION + urlsafe_b64encode(secret).decode().rstrip("=")


class _Turn(Struct, eq=False):
    request: RequestContext
    scope: anyio.CancelScope


class _Turns(Struct, eq=False):
    """The questions of one conversation that wait or are being answered, in their order."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    turns: list[_Turn] = field(default_factory=list[_Turn])


class Conversations:
    """The questions of clients that are being answered now. Only on the agent's own event loop."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turns] = {}

    @asynccontextmanager
    async def turn(self, conversation: Conversation, request: RequestContext) -> AsyncGenerator[None]:
        """Wait for the turn of one question, and hold it while the question is answered.

        Questions of one conversation are answered one after the other. One that waits for its client gives way to the
        next: a client that could not answer, or did not want to, never comes back, and asks something else.

        Raises:
            ToolError: The question gave way to a later one.
        """
        held = self._turns.setdefault(conversation.id, _Turns())
        for earlier in held.turns:
            if earlier.request.is_parked:
                earlier.scope.cancel()
        with anyio.CancelScope() as scope:
            held.turns.append(turn := _Turn(request, scope))
            try:
                async with held.lock:
                    yield
            finally:
                held.turns.remove(turn)
                if not held.turns:
                    del self._turns[conversation.id]
        if scope.cancelled_caught:
            raise ToolError(_GAVE_WAY)
