"""What a client and its bridge have said, as far as another bridge must know it to go on in its place. Pure.

A bridge keeps, of each client: its handshake, its log level, its subscriptions. When it is gone, the next one is told
all of that; requests that change nothing are asked again, and for the others the client is given an error.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["LOST", "Conversation"]

LOST = -32000
"""The code of the error for a request that was lost with its bridge: what the SDKs use for a connection that closed."""

_REPEATABLE = frozenset(
    (
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/list",
        "resources/list",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tools/list",
    )
)
"""Requests that mean the same to the next bridge, and do nothing if they are made twice."""

_LISTEN = "subscriptions/listen"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_LISTS = ("tools", "prompts", "resources")

_OURS = "gaia-bridge-front"
"""How the ids of our own requests begin."""

_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)"')
"""How an answer begins, as our bridges write them: the rest of it, which may be large, is not looked at."""

_NOTICE = re.compile(rb'\{"jsonrpc":"2\.0","method":"notifications/(?!cancelled"|subscriptions/ack)')
"""A notification that changes nothing here."""


class Conversation:
    """The conversation of one client."""

    def __init__(self) -> None:
        self._open: dict[int | str, tuple[str, bytes]] = {}
        """Requests of the client that are not answered: their methods and lines."""
        self._handshake: dict[str, Any] | None = None
        self._told: dict[str, Any] = {}
        """The capabilities that the client was told in its handshake."""
        self._initialized: bytes | None = None
        self._level: dict[str, Any] | None = None
        self._subscribed: dict[str, dict[str, Any]] = {}
        self._listens: dict[int | str, tuple[dict[str, Any], bytes]] = {}
        self._asked: set[int] = set()
        self._ours: set[str] = set()
        self._repeated: set[int | str] = set()
        self.last_asked = 0
        """The largest id of a request of the bridge: the next one goes on from there, so that no answer is taken for
        another's."""

    @property
    def is_open(self) -> bool:
        """Whether the client waits for an answer, or the bridge for one of the client."""
        return bool(self._open or self._asked)

    # What is said.

    def from_client(self, line: bytes) -> None:
        """A line came from the client."""
        for message, own in _messages(line):
            method, identifier = message.get("method"), message.get("id")
            if not isinstance(method, str):
                if isinstance(identifier, int):
                    self._asked.discard(identifier)
            elif "id" not in message:
                self._noticed(method, _params_of(message), own)
            elif isinstance(identifier, int | str):
                self._requested(identifier, method, _params_of(message), own)

    def from_bridge(self, line: bytes) -> bool:
        """A line came from the bridge.

        Returns:
            Whether it is for the client.
        """
        if (found := _ANSWER.match(line)) is not None:
            return self._answered(json.loads(found[1]), line)
        if _NOTICE.match(line) is not None:
            return True
        told = [self._said(message, own) for message, own in _messages(line)]
        return all(told)

    # What becomes of it when the bridge is gone.

    def lost(self, why: str) -> Iterator[bytes]:
        """What the client is told at once: errors for what was being done, and that no answers are wanted.

        Args:
            why: What happened, as a sentence.
        """
        for identifier, (method, _) in list(self._open.items()):
            if method not in _REPEATABLE:
                del self._open[identifier]
                yield _error(identifier, f"{method}: {why}")
        yield from self._taken_back(why)
        self._ours.clear()

    def ended(self, why: str) -> Iterator[bytes]:
        """What the client is told if there will be no other bridge.

        Args:
            why: What happened, as a sentence.
        """
        for identifier in (*self._open, *self._listens):
            yield _error(identifier, why)
        self._open.clear()
        self._listens.clear()

    def replay(self) -> Iterator[bytes]:
        """What the next bridge is told first."""
        if self._handshake is not None:
            yield self._request("initialize", self._handshake)
            if self._initialized is not None:
                yield self._initialized
        if self._level is not None:
            yield self._request("logging/setLevel", self._level)
        for params in self._subscribed.values():
            yield self._request("resources/subscribe", params)
        self._repeated = set(self._listens)
        for _, line in self._listens.values():
            yield line
        for _, line in self._open.values():
            yield line

    def resumed(self) -> Iterator[bytes]:
        """What the client is told once the next bridge was told: whatever it looked at may be otherwise now."""
        for kind in _LISTS:
            if _object(self._told.get(kind)).get("listChanged"):
                yield _notification(f"notifications/{kind}/list_changed")
        for uri in self._subscribed:
            yield _notification("notifications/resources/updated", {"uri": uri})
        for identifier, (wanted, _) in self._listens.items():
            meta = {"_meta": {_SUBSCRIPTION: identifier}}
            for kind in _LISTS:
                if wanted.get(f"{kind}ListChanged"):
                    yield _notification(f"notifications/{kind}/list_changed", meta)
            for uri in wanted.get("resourceSubscriptions") or ():
                yield _notification("notifications/resources/updated", {"uri": uri, **meta})

    def _requested(self, identifier: int | str, method: str, params: dict[str, Any], line: bytes) -> None:
        if method == _LISTEN:
            self._listens[identifier] = (_object(params.get("notifications")), line)
            return
        self._open[identifier] = (method, line if method in _REPEATABLE else b"")
        uri = params.get("uri")
        if method == "logging/setLevel":
            self._level = params
        elif method == "resources/subscribe" and isinstance(uri, str):
            self._subscribed[uri] = params
        elif method == "resources/unsubscribe" and isinstance(uri, str):
            self._subscribed.pop(uri, None)

    def _noticed(self, method: str, params: dict[str, Any], line: bytes) -> None:
        if method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled":
            identifier = params.get("requestId")
            if isinstance(identifier, int | str):
                self._open.pop(identifier, None)
                self._listens.pop(identifier, None)

    def _answered(self, identifier: int | str, line: bytes) -> bool:
        if identifier in self._ours:
            self._ours.discard(str(identifier))
            return False
        method, request = self._open.pop(identifier, ("", b""))
        self._listens.pop(identifier, None)
        if method == "initialize" and "result" in (answer := json.loads(line)):
            self._handshake = json.loads(request)["params"]
            self._told = _object(answer["result"].get("capabilities"))
        return True

    def _said(self, message: dict[str, Any], line: bytes) -> bool:
        method, identifier = message.get("method"), message.get("id")
        params = _params_of(message)
        if method is None:
            return not isinstance(identifier, int | str) or self._answered(identifier, line)
        if isinstance(identifier, int):
            self._asked.add(identifier)
            self.last_asked = max(self.last_asked, identifier)
        elif method == "notifications/cancelled":
            if isinstance(number := params.get("requestId"), int):
                self._asked.discard(number)
        elif method == _ACKNOWLEDGED:
            subscription = _object(params.get("_meta")).get(_SUBSCRIPTION)
            if isinstance(subscription, int | str) and subscription in self._repeated:
                self._repeated.discard(subscription)
                return False
        return True

    def _taken_back(self, why: str) -> Iterator[bytes]:
        for number in self._asked:
            yield _notification("notifications/cancelled", {"requestId": number, "reason": why})
        self._asked.clear()

    def _request(self, method: str, params: dict[str, Any]) -> bytes:
        identifier = f"{_OURS}-{len(self._ours)}"
        self._ours.add(identifier)
        return _line({"id": identifier, "method": method, "params": params})


def _messages(line: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """The messages in a line, each with a line of its own: one, those of a batch, or none, if it is not understood."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return []
    if isinstance(found, dict):
        return [(_object(found), line)]
    batch = map(_object, found) if isinstance(found, list) else ()  # pyright: ignore[reportUnknownArgumentType]
    return [(message, json.dumps(message).encode()) for message in batch]


def _params_of(message: dict[str, Any]) -> dict[str, Any]:
    return _object(message.get("params"))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _error(identifier: int | str, text: str) -> bytes:
    return _line({"id": identifier, "error": {"code": LOST, "message": text}})


def _notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    return _line({"method": method} | ({"params": params} if params else {}))


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":")).encode()
