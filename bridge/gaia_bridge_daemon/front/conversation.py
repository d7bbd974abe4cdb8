"""The state of a conversation between a client and its bridge, with which another bridge can continue it. Pure.

A bridge keeps, of each client: its handshake, its log level, its subscriptions. When it is gone, the next one is sent
all of that; requests that change nothing are sent again, and for the others the client gets an error.
"""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeGuard

LOST = -32000
"""The code of the error for a request that was lost with its bridge: the SDKs use it for a connection that closed."""

_REPEATABLE = frozenset(
    (
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "skills/get",
        "skills/list",
        "tools/list",
    )
)
"""Requests that mean the same to the next bridge, and do nothing if they are made twice."""

_LAST_OF_TASKS = ("tasks/result", "tasks/cancel")
_ENDED = ("failed", "cancelled")
_LISTEN = "subscriptions/listen"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_LISTS = ("tools", "prompts", "resources")

_REMEMBERED = frozenset(("initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
"""Requests that are repeated to the next bridge, if they were granted."""

_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)"')
"""The beginning of an answer, as our bridges write it: the rest, which may be large, is not parsed."""

_ASKS = b'"resultType":"input_required"'
"""Part of an answer that asks something: the client sends a new request with its reply, which the bridge awaits."""

_TASK = b'"taskId":"'
"""Part of an answer that names a task: the client comes back for its result."""

_WAITED_FOR = 100
"""Questions and tasks that are remembered; a client need not come back for them."""

_NOTICE = re.compile(rb'\{"jsonrpc":"2\.0","method":"notifications/(?!cancelled"|subscriptions/ack)')
"""A notification that changes nothing in this state."""


class Conversation:
    """The conversation of one client."""

    def __init__(self) -> None:
        self._open: dict[int | str, tuple[str, bytes]] = {}
        """Requests of the client that are not answered: their methods, and their lines, if they may be made again."""
        self._handshake: dict[str, Any] | None = None
        self._told: dict[str, Any] = {}
        """The capabilities that the client got in its handshake."""
        self._initialized: bytes | None = None
        self._level: dict[str, Any] | None = None
        self._subscribed: dict[str, dict[str, Any]] = {}
        self._listens: dict[int | str, bytes] = {}
        """Requests to listen for notifications, by their ids: they are open until one side ends them."""
        self._confirmed: dict[int | str, dict[str, Any]] = {}
        """The notifications that were confirmed to the client, by the ids of these requests."""
        self._repeated: set[int | str] = set()
        """Requests that a bridge before confirmed, and this one has not confirmed yet."""
        self._questions: set[int] = set()
        """The ids of the requests of the bridge that the client has not answered."""
        self._waited_for: dict[str, None] = {}
        """Request states and ids of tasks with which the client may come back, the oldest first."""
        self._ours: set[str] = set()
        self._name = f"gaia-bridge-front-{os.urandom(8).hex()}"
        """The beginning of the ids of our own requests; no client has such ids."""
        self.has_begun = False
        """Whether a bridge has answered the client."""
        self.last_asked = 0
        """The largest id of a request of the bridge: the next one goes on from there, so that no answer is taken for
        another's."""

    @property
    def is_open(self) -> bool:
        """Whether the client waits for an answer, or the bridge for one of the client."""
        return bool(self._open or self._questions)

    @property
    def is_quiet(self) -> bool:
        """Whether another bridge could take over now without any loss."""
        return not (self.is_open or self._waited_for)

    # The lines of both sides.

    def from_client(self, line: bytes) -> None:
        """Process a line of the client."""
        for message, own in _messages(line):
            method, identifier = message.get("method"), message.get("id")
            if not isinstance(method, str):
                if _is_identifier(identifier):
                    self._questions.discard(identifier)
            elif "id" not in message:
                self._noticed(method, _params_of(message), own)
            elif _is_identifier(identifier):
                self._requested(identifier, method, _params_of(message), own)

    def from_bridge(self, line: bytes) -> bool:
        """Process a line of the bridge.

        Returns:
            Whether the line is for the client.
        """
        if (found := _ANSWER.match(line)) is not None:
            try:
                return self._answered(json.loads(found[1]), line)
            except ValueError:  # no client of ours has such an id
                return True
        if _NOTICE.match(line) is not None:
            return True
        told = [self._said(message, own) for message, own in _messages(line)]
        return all(told)

    # The loss of a bridge, and its consequences.

    def unsent(self, lines: bytes) -> None:
        """Mark requests that the bridge has not received: they can be sent again, whatever they are.

        Args:
            lines: Whole lines, after the rest of one whose beginning was sent.
        """
        for line in lines.split(b"\n"):
            for message, own in _messages(line):
                method, identifier = message.get("method"), message.get("id")
                if isinstance(method, str) and _is_identifier(identifier) and identifier in self._open:
                    self._open[identifier] = (method, own)

    def lost(self, why: str) -> Iterator[bytes]:
        """Yield messages to the client after a loss: errors for requests in progress, and cancelled bridge requests.

        Args:
            why: The reason, as a sentence.
        """
        for identifier, (method, line) in list(self._open.items()):
            if not line:
                del self._open[identifier]
                yield _error(identifier, f"{method}: {why}")
        yield from self._taken_back(why)
        self._ours.clear()
        self._waited_for.clear()

    def refused(self, why: str) -> Iterator[bytes]:
        """Yield errors to the client if there is no bridge just now. Its confirmed subscriptions wait for the next one.

        Args:
            why: The reason, as a sentence.
        """
        new = [identifier for identifier in self._listens if identifier not in self._confirmed]
        for identifier in (*self._open, *new):
            yield _error(identifier, why)
        self._open.clear()
        for identifier in new:
            self._forget_listening(identifier)

    def ended(self, why: str) -> Iterator[bytes]:
        """Yield errors to the client if there will be no other bridge.

        Args:
            why: The reason, as a sentence.
        """
        for identifier in (*self._open, *self._listens):
            yield _error(identifier, why)
        for kept in (self._open, self._listens, self._confirmed):
            kept.clear()

    def replay(self) -> Iterator[bytes]:
        """Yield the first messages for the next bridge."""
        if self._handshake is not None:
            yield self._request("initialize", self._handshake)
            if self._initialized is not None:
                yield self._initialized
        if self._level is not None:
            yield self._request("logging/setLevel", self._level)
        for params in self._subscribed.values():
            yield self._request("resources/subscribe", params)
        self._repeated = set(self._confirmed)
        yield from self._listens.values()
        for method, line in self._open.values():
            yield line
            if method == "initialize" and self._initialized is not None:  # sent early, before the answer
                yield self._initialized

    def resumed(self) -> Iterator[bytes]:
        """Yield notifications for the client after the replay: all lists and resources may have changed."""
        for kind in _LISTS:
            if _object(self._told.get(kind)).get("listChanged"):
                yield _notification(f"notifications/{kind}/list_changed")
        for uri in self._subscribed:
            yield _notification("notifications/resources/updated", {"uri": uri})
        for identifier, promised in self._confirmed.items():
            meta = {"_meta": {_SUBSCRIPTION: identifier}}
            for kind in _LISTS:
                if promised.get(f"{kind}ListChanged"):
                    yield _notification(f"notifications/{kind}/list_changed", meta)
            for uri in promised.get("resourceSubscriptions") or ():
                yield _notification("notifications/resources/updated", {"uri": uri, **meta})

    def _requested(self, identifier: int | str, method: str, params: dict[str, Any], line: bytes) -> None:
        if method == _LISTEN:
            self._forget_listening(identifier)  # an older request of the same id has ended
            self._listens[identifier] = line
        else:
            self._open[identifier] = (method, line if method in _REPEATABLE else b"")
            for key in ("requestState", *(["taskId"] if method in _LAST_OF_TASKS else ())):
                self._waited_for.pop(str(params.get(key)), None)

    def _noticed(self, method: str, params: dict[str, Any], line: bytes) -> None:
        if method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled" and _is_identifier(identifier := params.get("requestId")):
            self._open.pop(identifier, None)
            self._forget_listening(identifier)

    def _answered(self, identifier: int | str, line: bytes) -> bool:
        if identifier in self._ours:
            self._ours.discard(str(identifier))
            return False
        self._forget_listening(identifier)
        self.has_begun = True
        method, request = self._open.pop(identifier, ("", b""))
        if method in _REMEMBERED:
            result = _object(json.loads(line)).get("result")
            if isinstance(result, dict):
                self._granted(method, _params_of(json.loads(request)), _object(result))
        elif _ASKS in line or _TASK in line:
            self._comes_back(_object(_object(json.loads(line)).get("result")))
        return True

    def _granted(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        uri = str(params.get("uri"))
        if method == "initialize":
            self._handshake = params
            self._told = _object(result.get("capabilities"))
        elif method == "logging/setLevel":
            self._level = params
        elif method == "resources/subscribe":
            self._subscribed[uri] = params
        else:
            self._subscribed.pop(uri, None)

    def _comes_back(self, result: dict[str, Any]) -> None:
        """Remember a question or task for which the client may come back to the same bridge; forget a finished task."""
        task = result if result.get("resultType") == "task" else _object(result.get("task"))
        key = result.get("requestState") if result.get("resultType") == "input_required" else task.get("taskId")
        if isinstance(key, str):
            self._waited_for[key] = None
            if len(self._waited_for) > _WAITED_FOR:
                del self._waited_for[next(iter(self._waited_for))]
        elif "taskId" in result and ("result" in result or result.get("status") in _ENDED):
            self._waited_for.pop(str(result["taskId"]), None)

    def _forget_listening(self, identifier: int | str) -> None:
        self._listens.pop(identifier, None)
        self._confirmed.pop(identifier, None)
        self._repeated.discard(identifier)

    def _said(self, message: dict[str, Any], line: bytes) -> bool:
        method, identifier = message.get("method"), message.get("id")
        params = _params_of(message)
        if method is None:
            return not _is_identifier(identifier) or self._answered(identifier, line)
        if isinstance(identifier, int):
            self._questions.add(identifier)
            self.last_asked = max(self.last_asked, identifier)
        elif method == "notifications/cancelled":
            if isinstance(number := params.get("requestId"), int):
                self._questions.discard(number)
        elif method == _ACKNOWLEDGED:
            subscription = _object(params.get("_meta")).get(_SUBSCRIPTION)
            if _is_identifier(subscription) and subscription in self._listens:
                is_news = subscription not in self._repeated
                self._repeated.discard(subscription)
                self._confirmed[subscription] = _object(params.get("notifications"))
                return is_news
        return True

    def _taken_back(self, why: str) -> Iterator[bytes]:
        for number in self._questions:
            yield _notification("notifications/cancelled", {"requestId": number, "reason": why})
        self._questions.clear()

    def _request(self, method: str, params: dict[str, Any]) -> bytes:
        identifier = f"{self._name}-{len(self._ours)}"
        self._ours.add(identifier)
        return _line({"id": identifier, "method": method, "params": params})


def _messages(line: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """Return the messages in a line, each with a line of its own: one, those of a batch, or none if it is not valid."""
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


def _is_identifier(value: Any) -> TypeGuard[int | str]:
    """Return whether a value is an id of MCP. To Python, `True` is a number as well."""
    return type(value) is int or type(value) is str


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _error(identifier: int | str, text: str) -> bytes:
    return _line({"id": identifier, "error": {"code": LOST, "message": text}})


def _notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    return _line({"method": method} | ({"params": params} if params else {}))


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":")).encode()
