"""The conversations that MCP clients have with one agent by its tool `ask`: whose they are, and who has the word.

A conversation is continued by its id, which the bridge makes up, and which nobody can guess. A name that a client
makes up means a conversation of the client's own session, and nobody else's: two clients that both say "main" do not
hear of each other. Where each request stands alone (2026-07-28 over HTTP), a name can only begin one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio
from msgspec import Struct

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
    """What a client means by what it calls a conversation."""

    id: str
    is_known: bool
    """Whether it says that the conversation is there already."""
    is_named: bool
    """Whether the name that it gave will do the next time as well."""


def conversation_of(said: str, session_key: str | None) -> Conversation:
    """The conversation that a client means.

    Args:
        said: What the client says: an id, or a name of its own.
        session_key: The secret of the client's session, if it has one.
    """
    if _ID.fullmatch(said):
        return Conversation(said, is_known=True, is_named=True)
    if session_key is None:
        return Conversation(_id(secrets.token_bytes(_SECRET_BYTES)), is_known=False, is_named=False)
    name = said.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(name, key=session_key.encode(), digest_size=_SECRET_BYTES).digest()
    return Conversation(_id(digest), is_known=False, is_named=True)


def _id(secret: bytes) -> str:
    return ASK_SESSION + urlsafe_b64encode(secret).decode().rstrip("=")


class _Turn(Struct, eq=False):
    request: RequestContext
    scope: anyio.CancelScope


class Conversations:
    """The questions that are being answered. Only on the agent's own event loop."""

    def __init__(self) -> None:
        self._turns: dict[str, list[_Turn]] = {}

    @contextmanager
    def turn(self, conversation: Conversation, request: RequestContext) -> Generator[None]:
        """Answer a question.

        Questions of one conversation are answered one after the other. One that waits for its client gives way to the
        next: a client that could not answer, or did not want to, never comes back, and asks something else.

        Args:
            conversation: Where it was asked.
            request: Of whom.

        Raises:
            ToolError: It gave way.
        """
        turns = self._turns.setdefault(conversation.id, [])
        for earlier in turns:
            if earlier.request.is_parked:
                earlier.scope.cancel()
        with anyio.CancelScope() as scope:
            turns.append(turn := _Turn(request, scope))
            try:
                yield
            finally:
                turns.remove(turn)
                if not turns and self._turns.get(conversation.id) is turns:
                    del self._turns[conversation.id]
        if scope.cancelled_caught:
            raise ToolError(_GAVE_WAY)
