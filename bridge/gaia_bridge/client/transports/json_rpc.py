"""JSON-RPC messages as bytes, and the rules of which response belongs to which request."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from gaia_bridge.calls.cancellation import cancel_reason
from gaia_bridge.calls.in_flight import own_id
from gaia_bridge.client.transport import Link, Receiver, Transport, UpstreamError
from gaia_bridge.text.escaping import one_line, printable, without_hidden
from gaia_bridge.text.json_text import from_json, valid_json
from gaia_bridge.text.json_types import JSON, is_array, is_object

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_QUICK_ENCODER: Final = msgspec.json.Encoder()
_RESPONSE: Final = frozenset({"result", "error"})
_BARE_RESPONSE: Final = _RESPONSE | {"id"}
_BATCH: Final = 1_000
"""Messages of one batch. They are taken in without a pause, and a message of ours is never answered with so many."""


class NoMessageError(UpstreamError):
    """The server wrote something that is no JSON object, and so no message."""


def encoded(message: JSON) -> bytes:
    """A message as UTF-8, on one line. A lone surrogate, which UTF-8 cannot carry, becomes a question mark.

    Raises:
        UpstreamError: It cannot be said in JSON, such as NaN.
    """
    try:
        written = _QUICK_ENCODER.encode(message)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return _unusual(message)
    return _unusual(message) if b"null" in written else written  # which a number may stand for that JSON has not


def _unusual(message: JSON) -> bytes:
    try:
        text = _ENCODER.encode(message)
    except (ValueError, TypeError, RecursionError) as error:
        raise UpstreamError(f"cannot be sent a value that JSON does not have: {printable(str(error), 100)}") from None
    return text.encode("utf-8", "replace")


def messages(content: bytes | str) -> list[JSON]:
    """The messages in what a server sent at once: one, or those of a batch in their order.

    A server of 2024-11-05 may batch, as JSON-RPC 2.0, section 6, has it, and 2025-03-26 demands that a client takes
    batches; later revisions have none. They are taken whatever was agreed: the answer to `initialize` comes before
    that, and there is nothing else that they could mean. What of a batch is no object is left out.

    Bytes that are no UTF-8 are replaced, and so are lone surrogates, which the strict reader takes for an
    error. NaN and the infinities, which JSON does not have and some servers write all the same, become null.

    Raises:
        NoMessageError: There is no JSON object.
        UpstreamError: There are too many.
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
    found = [message for message in batch if is_object(message)]
    if not found:
        raise NoMessageError("sent JSON that is no object, and so no JSON-RPC message")
    return found


def _leniently(content: bytes | str, error: ValueError) -> Any:
    text = content if isinstance(content, str) else content.decode("utf-8-sig", "replace")
    try:
        return valid_json(json.loads(text, parse_constant=lambda _: None))
    except (ValueError, RecursionError):
        raise NoMessageError(f"sent what is no JSON: {printable(str(error), 100)}") from None


def is_message(value: JSON) -> bool:
    """Whether an object is a JSON-RPC message, where other things are written between the messages.

    Lines of a log in JSON have methods, ids and results as well, so `jsonrpc` has to be there. Servers of few lines
    forget it in their responses; such a response has nothing beside what belongs to one.
    """
    if value.get("jsonrpc") == "2.0":
        return "id" in value or isinstance(value.get("method"), str)
    return "id" in value and not _RESPONSE.isdisjoint(value) and value.keys() <= _BARE_RESPONSE


def is_response(message: JSON) -> bool:
    """Whether it answers a request; otherwise it is a request or a notification. Some servers write every field."""
    return not isinstance(message.get("method"), str)


def is_complete(response: JSON) -> bool:
    """Whether a response has what a response has: a result, or an error that is an object."""
    return "result" in response or is_object(response.get("error"))


def response_to(request_id: int, message: JSON) -> JSON:
    """The message, as the response to a request that had a channel of its own.

    An error without an id is meant for it: JSON-RPC 2.0, section 5, has servers answer so if they could not read one.

    Raises:
        UpstreamError: It is something else.
    """
    if not is_response(message) or not is_complete(message):
        raise UpstreamError(f"answered with what is no JSON-RPC response{error_words(message.get('error'))}")
    answered = message.get("id")
    if answered is None and is_object(message.get("error")):
        return {**message, "id": request_id}
    if own_id(answered) != request_id:
        raise UpstreamError(f"answered another request than was made (id {printable(repr(answered), 40)})")
    return message


def error_words(error: object) -> str:
    """What an error says that is none of JSON-RPC, to be added to a sentence; empty if it says nothing."""
    said = error.get("message") if is_object(error) else error
    return f": {one_line(without_hidden(said), 300)}" if isinstance(said, str) and said.strip() else ""


def cancellation(request_id: int) -> JSON:
    """The notification that nobody waits for a response any more, with the reason of whoever asked for it first."""
    params = {"requestId": request_id, "reason": cancel_reason("nobody waits for the answer any more")}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


class ForeignTransport:
    """Carries the messages of another transport. Implements `transport.Transport`.

    Ours read JSON that cannot say a lone surrogate; objects that somebody made can hold anything.
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
