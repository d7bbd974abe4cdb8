"""What is sent to clients of a revision that says things in another way than 2026-07-28."""

from __future__ import annotations

import json

from gaia_bridge.protocol.messages import encoded
from gaia_bridge.protocol.revisions import Revision
from gaia_bridge.server.connection import Channel


def written(revision: Revision, body: bytes, method: str | None = None) -> bytes:
    """A message as a revision says it.

    Args:
        revision: The revision.
        body: The message in the terms of 2026-07-28.
        method: Of a response, the method of its request.
    """
    message = json.loads(body)
    return encoded(revision.written(message, method or message["method"]))


class TranslatingChannel:
    """Implements `gaia_bridge.server.connection.Channel` for notifications about one request.

    Args:
        channel: Carries them.
        revision: What they are said in.
    """

    def __init__(self, channel: Channel, revision: Revision) -> None:
        self._channel, self._revision = channel, revision

    @property
    def can_ask(self) -> bool:
        """Whether the client's answers to what it is asked on it come back."""
        return self._channel.can_ask

    async def send(self, message: bytes) -> None:
        """Send one message."""
        await self._channel.send(written(self._revision, message))

    def end(self) -> None:
        """Close the stream where the client can resume it."""
        self._channel.end()
