"""A transport that is not ours: what comes in through it is made what the wires of this package let in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from gaia_bridge.client.transport import Link, Receiver, Transport
from gaia_bridge.text.json_text import valid_json
from gaia_bridge.text.json_types import JSON


class ForeignTransport:
    """Carries the messages of another transport. Implements `transport.Transport`.

    Ours read JSON that cannot say a lone surrogate; objects that somebody made can hold anything.

    Args:
        transport: Does the work.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Open a link; see `Transport.connect`."""
        async with self._transport.connect(_Receiver(receiver)) as link:
            yield _Link(link)


class _Receiver:
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def message(self, message: JSON, during: int | None) -> None:
        self._receiver.message(valid_json(message), during)

    def ended(self, reason: str) -> None:
        self._receiver.ended(reason)


class _Link:
    def __init__(self, link: Link) -> None:
        self._link = link
        self.notify = link.notify
        self.agree = link.agree

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        response: JSON = valid_json(await self._link.request(message, headers))
        return response

    @property
    def last_words(self) -> str:
        return self._link.last_words
