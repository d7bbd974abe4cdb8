"""A client of any revision on an endpoint of this process, which keeps every message and judges none."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY
from gaia_bridge.protocol.revisions import is_modern
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.transports.streams import DuplexClient
from gaia_bridge.text.json_types import JSON
from tests.support.waiting import Changing

__all__ = ["ANSWERS", "DECLARED", "RevisionClient", "client_of_revision", "envelope"]

_FIRST: Final[JSON] = {"sampling": {}, "roots": {"listChanged": True}}
_SINCE_ELICITATION: Final[JSON] = {**_FIRST, "elicitation": {}}
_ALL: Final[JSON] = {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {"tools": {}, "context": {}}}
DECLARED: Final[dict[str, JSON]] = {
    "2024-11-05": _FIRST,
    "2025-03-26": _FIRST,
    "2025-06-18": _SINCE_ELICITATION,
    "2025-11-25": _ALL,
    "2026-07-28": _ALL,
}
"""All that a client of each revision can be asked."""
ANSWERS: Final[dict[str, JSON]] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "roots/list": {"roots": [{"uri": "file:///home", "name": "home"}]},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Hm"}, "model": "m"},
}
"""What it answers."""
_INFO: Final[JSON] = {"name": "client", "version": "1"}


def envelope(revision: str) -> JSON:
    """The `_meta` of a request that stands alone, with all that a client can be asked."""
    return {
        PROTOCOL_VERSION_KEY: revision,
        CLIENT_INFO_KEY: _INFO,
        CLIENT_CAPABILITIES_KEY: DECLARED[revision],
        LOG_LEVEL_KEY: "debug",
    }


class RevisionClient(Changing):
    """A client. Implements `gaia_bridge.server.connection.Channel`.

    Args:
        endpoint: Its server.
        revision: What it speaks.
    """

    can_ask = True

    def __init__(self, endpoint: Dispatcher, revision: str) -> None:
        super().__init__()
        self.revision = revision
        self.modern = is_modern(revision)
        self.messages: list[JSON] = []
        """All that came, in order."""
        self.asked: list[JSON] = []
        """The requests of the server, in whatever way they came."""
        self.answers: Mapping[str, JSON] = ANSWERS
        """What it answers, by method."""
        self._numbers = itertools.count(1)
        self._client = DuplexClient(endpoint, self)

    async def send(self, message: bytes) -> None:
        """Take what the server says."""
        self.messages.append(json.loads(message))
        self._changed()

    def end(self) -> None:
        """Its stream cannot be resumed."""

    def close(self) -> None:
        """Leave."""
        self._client.close()

    @property
    def notifications(self) -> list[JSON]:
        """What was told it."""
        return [message for message in self.messages if "method" in message and "id" not in message]

    async def begin(self, method: str, params: JSON | None = None, number: str | None = None) -> str:
        """Send a request, and do not wait for its answer; the id, which is a new one if not given."""
        number = number or f"c{next(self._numbers)}"
        told = {**(params or {})}
        if self.modern:
            told["_meta"] = {**envelope(self.revision), **told.get("_meta", {})}
        await self._client.take({"jsonrpc": "2.0", "id": number, "method": method, "params": told})
        return number

    async def response(self, method: str, params: JSON | None = None) -> JSON:
        """The response to a request; what the server asks meanwhile is answered."""
        number = await self.begin(method, params)
        seen = len(self.messages)

        def spoke() -> bool:
            return len(self.messages) > seen

        while not (found := [message for message in self.messages if message.get("id") == number]):
            await self.until(spoke)
            for message in self.messages[seen:]:
                seen += 1
                if "method" in message and "id" in message:
                    self.asked.append(message)
                    answer = {"jsonrpc": "2.0", "id": message["id"], "result": self.answers[message["method"]]}
                    await self._client.take(answer)
        return found[0]

    async def until_answered(self, number: str, answers: int = 1) -> JSON:
        """Wait until a request was answered so many times; the last of the answers."""

        def found() -> list[JSON]:
            return [message for message in self.messages if message.get("id") == number and "method" not in message]

        await self.until(lambda: len(found()) >= answers)
        return found()[-1]

    async def result(self, method: str, params: JSON | None = None) -> JSON:
        """The result of a request."""
        response = await self.response(method, params)
        assert "result" in response, response
        result: JSON = response["result"]
        return result

    async def finished(self, method: str, params: JSON) -> tuple[JSON, JSON]:
        """The first result of a request, and the last: it is made again with the answers that a result asks for."""
        first = result = await self.result(method, params)
        while result.get("resultType") == "input_required":
            more: JSON = {"inputResponses": {}}
            for key, question in result.get("inputRequests", {}).items():
                self.asked.append(question)
                more["inputResponses"][key] = self.answers[question["method"]]
            if "requestState" in result:
                more["requestState"] = result["requestState"]
            result = await self.result(method, {**params, **more})
        return first, result

    async def notify(self, method: str) -> None:
        """Tell the server something."""
        await self._client.take({"jsonrpc": "2.0", "method": method})

    async def introduce(self) -> JSON:
        """Play the handshake, or discover; what the server says of itself."""
        if self.modern:
            return await self.result("server/discover")
        told: JSON = {"protocolVersion": self.revision, "capabilities": DECLARED[self.revision], "clientInfo": _INFO}
        result = await self.result("initialize", told)
        await self.notify("notifications/initialized")
        return result


@asynccontextmanager
async def client_of_revision(endpoint: Any, revision: str) -> AsyncGenerator[RevisionClient]:
    """A client that left at the end of the block."""
    client = RevisionClient(endpoint, revision)
    try:
        yield client
    finally:
        client.close()
