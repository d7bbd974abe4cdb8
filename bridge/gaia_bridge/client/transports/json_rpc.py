"""JSON-RPC messages as bytes, and the rules by which a response belongs to a request."""

from __future__ import annotations

import json
import math
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from gaia_bridge.calls.cancellation import cancel_reason
from gaia_bridge.calls.in_flight import own_id
from gaia_bridge.client.transport import Link, Receiver, Transport, UpstreamError
from gaia_bridge.protocol.framing import OversizedLine, identifier_of
from gaia_bridge.text.escaping import one_line, printable, without_hidden
from gaia_bridge.text.json_text import from_json, parse, valid_json
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.redaction import redacted

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_QUICK_ENCODER: Final = msgspec.json.Encoder()
_RESPONSE: Final = frozenset({"result", "error"})
_BARE_RESPONSE: Final = _RESPONSE | {"id"}
_BATCH: Final = 1_000
"""The most messages of one batch, which is processed without a pause; no message of ours has so many answers."""
_SHOWN: Final = 3
"""The most lines of garbage that are kept to be shown to people."""
_ANSWERS: Final = re.compile(rb'"(?:jsonrpc|result|error)"\s*:')
"""Keys near an end of each response, and seldom in a line of a log."""


class NoMessageError(UpstreamError):
    """The server wrote something that is no JSON object, and so no message."""


def encoded_message(message: JSON) -> bytes:
    """Encode a message as UTF-8, on one line; a lone surrogate becomes a question mark, NaN an `UpstreamError`."""
    try:
        written = _QUICK_ENCODER.encode(message)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return _unusual(message)
    return _unusual(message) if b"null" in written else written  # msgspec writes NaN and infinities as null


def _unusual(message: JSON) -> bytes:
    try:
        text = _ENCODER.encode(message)
    except (ValueError, TypeError, RecursionError) as error:
        raise UpstreamError(f"cannot be sent a value that JSON does not have: {printable(str(error), 100)}") from None
    return text.encode("utf-8", "replace")


def messages(content: bytes | str) -> list[JSON]:
    """Parse one message of a server, or the messages of a batch in their order.

    A server of 2024-11-05 may batch (JSON-RPC 2.0, section 6), and 2025-03-26 demands that a client accepts batches;
    later revisions have none. Batches are accepted in every revision: the answer to `initialize` comes before one is
    agreed on, and a batch has no other meaning. Items of a batch that are no objects are left out.

    Bytes that are no UTF-8 are replaced, and so are lone surrogates, which are errors for the strict parser. NaN and
    the infinities, which JSON does not have and some servers write nevertheless, become null.

    Raises:
        UpstreamError: There is no JSON object (`NoMessageError`), or too many.
    """
    try:
        value: Any = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        value = _leniently(content, error)
    if is_object(value):
        return [value]
    batch: list[Any] = value if is_array(value) else []
    if len(batch) > _BATCH:
        raise UpstreamError(f"sent {len(batch):,} messages in one batch; at most {_BATCH:,} are read")
    objects = [message for message in batch if is_object(message)]
    if not objects:
        raise NoMessageError("sent JSON that is no object, and so no JSON-RPC message")
    return objects


def _leniently(content: bytes | str, error: ValueError) -> Any:
    text = content if isinstance(content, str) else content.decode("utf-8-sig", "replace")
    try:
        return valid_json(json.loads(text, parse_constant=lambda _: None))
    except (ValueError, RecursionError):
        raise NoMessageError(f"sent what is no JSON: {printable(str(error), 100)}") from None


def is_message(value: JSON) -> bool:
    """Whether an object is a JSON-RPC message, and not another one between the messages.

    Lines of a log in JSON have methods, ids and results as well, so `jsonrpc` is required. Minimal servers forget it
    in their responses; such a response must have no other fields than a response has.
    """
    if value.get("jsonrpc") == "2.0":
        return "id" in value or isinstance(value.get("method"), str)
    return "id" in value and not _RESPONSE.isdisjoint(value) and value.keys() <= _BARE_RESPONSE


def messages_in_line(line: bytes) -> list[JSON]:
    """Parse the messages in one line of a child's standard output; none if it is no JSON-RPC."""
    try:
        return [message for message in messages(line) if is_message(message)]
    except UpstreamError:
        return []


def is_response(message: JSON) -> bool:
    """Whether a message is a response; otherwise it is a request or a notification. Some servers write every field."""
    return not isinstance(message.get("method"), str)


def is_complete(response: JSON) -> bool:
    """Whether a response has a result, or an error that is an object."""
    return "result" in response or is_object(response.get("error"))


def response_to(request_id: int, message: JSON) -> JSON:
    """Return a message as the response to a request that had a channel of its own; else raise `UpstreamError`.

    An error without an id counts as its response: servers answer so if they could not read it (JSON-RPC 2.0, 5).
    """
    if not is_response(message) or not is_complete(message):
        raise UpstreamError(f"answered with what is no JSON-RPC response{error_words(message.get('error'))}")
    answered = message.get("id")
    if answered is None and is_object(message.get("error")):
        return {**message, "id": request_id}
    if own_id(answered) != request_id:
        raise UpstreamError(f"answered another request than was made (id {printable(repr(answered), 40)})")
    return message


def plain_response(line: bytes) -> JSON | None:
    """Parse a line that is a response to a request with a number, and nothing unusual; `None` for all others."""
    try:
        message: Any = parse(line, allow_inf_nan=False)
        is_plain = type(message["id"]) is int and message["jsonrpc"] == "2.0" and "method" not in message
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return message if is_plain else None


def request_id_of(line: OversizedLine | bytes) -> int | None:
    """Return the id of the request that an unreadable response answers, if one of its ends has the id."""
    head, tail = (line.head, line.tail) if isinstance(line, OversizedLine) else (line, None)
    return own_id(identifier_of(head, tail, _ANSWERS))


def error_words(error: object) -> str:
    """Return the text of an error that is not a JSON-RPC error, to be added to a sentence; empty if it has none."""
    text = error.get("message") if is_object(error) else error
    return f": {one_line(without_hidden(text), 300)}" if isinstance(text, str) and text.strip() else ""


def cancellation(request_id: int) -> JSON:
    """Return the notification that a request is cancelled, with the reason of the first caller, if there is one."""
    params = {"requestId": request_id, "reason": cancel_reason("nobody waits for the answer any more")}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


class Garbage:
    """Counts the lines of a child that are no messages; at most `budget` within `window` seconds are tolerated."""

    def __init__(
        self, budget: int, window: float, now: Callable[[], float], secrets: Callable[[str], str] = redacted
    ) -> None:
        self._secrets = secrets
        self._window = window
        self._now = now
        self._times: deque[float] = deque(maxlen=budget + 1)
        self.count = 0
        """The number of lines in all."""
        self.first: list[str] = []
        """The first lines, made printable."""
        self.last = -math.inf
        """The time of the last one, by `time.monotonic`."""

    def add(self, line: bytes) -> bool:
        """Count a line; return whether that is still within the budget."""
        now = self._now()
        self.count += 1
        self.last = time.monotonic()
        self._times.append(now)
        if len(self.first) < _SHOWN:
            self.first.append(self.for_log(line[:400].decode("utf-8", "replace")))
        full = len(self._times) == self._times.maxlen
        return not (full and now - self._times[0] < self._window)

    def for_log(self, text: str) -> str:
        """Make text of the child fit for people: short, printable and without secrets."""
        return printable(self._secrets(text), 200)


class ForeignTransport:
    """Carries the messages of another transport. Implements `transport.Transport`.

    Our own transports parse JSON without lone surrogates; the objects of other transports may hold any text.
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
        self.ended = receiver.ended

    def message(self, message: JSON, during: int | None) -> None:
        self._receiver.message(valid_json(message), during)


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
