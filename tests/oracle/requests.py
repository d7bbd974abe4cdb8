"""Requests as they should be, and each of them changed in one place.

The label of a case says what was changed into a value of which kind, so that the table of differences can speak of
cases that nobody wrote down: `tools/call /params/name number`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.oracle.endpoints import HANDSHAKE, MODERN, hello, meta

__all__ = ["ANY_JSON", "Case", "cases", "changed", "generated", "kind_of"]

ABSENT: Final = object()

LARGE: Final = 2.0**63
"""The SDK takes larger numbers with a point for no integers."""

VALUES: Final[tuple[Any, ...]] = (ABSENT, None, True, 5, 5.0, 1e300, 1.5, "x", "", [], {})
"""One of each kind."""

FLAGS: Final[tuple[Any, ...]] = (0, 1, 1.0, "true", "no")
"""What a lenient reader takes for a flag."""


class Case(NamedTuple):
    """What is sent."""

    label: str
    content: object
    """JSON, or the bytes of a body."""
    headers: Mapping[str, str | None] = {}
    method: str = "POST"

    @property
    def is_line(self) -> bool:
        """Whether it can be sent as a line."""
        plain = not self.headers and self.method == "POST"
        return plain and not (isinstance(self.content, bytes) and (b"\n" in self.content or not self.content.strip()))


def kind_of(value: object) -> str:
    """The kind of a value, as labels name it."""
    match value:
        case None:
            return "null"
        case bool():
            return "flag"
        case int():
            return "number"
        case float():
            whole = "whole fraction" if abs(value) < LARGE else "large whole fraction"
            return whole if value.is_integer() else "fraction"
        case str():
            return "text" if value else "empty text"
        case _ if is_array(value):
            return "array" if value else "empty array"
        case _ if is_object(value):
            return "object" if value else "empty object"
        case _:
            return "absent"


_OF_EACH: Final[Mapping[str, JSON]] = {
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "tools/call": {"name": "echo", "arguments": {"text": "x"}},
    "prompts/get": {"name": "greet", "arguments": {"whom": "you"}},
    "resources/read": {"uri": "odd://one"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "whom", "value": "w"},
        "context": {"arguments": {"known": "v"}},
    },
}
_OF_ERA: Final[Mapping[str, Mapping[str, JSON]]] = {
    HANDSHAKE: {
        "ping": {},
        "logging/setLevel": {"level": "info"},
        "resources/subscribe": {"uri": "odd://one"},
        "resources/unsubscribe": {"uri": "odd://one"},
    },
    MODERN: {"server/discover": {}, "subscriptions/listen": {"notifications": {"toolsListChanged": True}}},
}
_OPTIONAL: Final[Mapping[str, tuple[str, ...]]] = {
    "tools/list": ("cursor",),
    "prompts/list": ("cursor",),
    "resources/list": ("cursor",),
    "resources/templates/list": ("cursor",),
    "tools/call": ("inputResponses", "requestState", "unknown"),
}
"""Fields that a valid request may have and the ones above have not."""


def _valid(revision: str) -> Iterator[JSON]:
    for method, params in {**_OF_EACH, **_OF_ERA[revision]}.items():
        told = {**params, "_meta": meta()} if revision == MODERN else params
        yield {"jsonrpc": "2.0", "id": 7, "method": method, "params": told}
    if revision == HANDSHAKE:
        yield hello()


def _places(value: Any, place: tuple[str, ...] = ()) -> Generator[tuple[str, ...]]:
    if is_object(value):
        for key, inner in value.items():
            yield (*place, key)
            yield from _places(inner, (*place, key))


def _at(message: JSON, place: tuple[str, ...]) -> object:
    value: Any = message
    for key in place:
        value = value.get(key)
    return value


def _put(message: JSON, place: tuple[str, ...], value: object) -> JSON:
    message = copy.deepcopy(message)
    at = message
    for key in place[:-1]:
        at = at[key]
    if value is ABSENT:
        at.pop(place[-1], None)
    else:
        at[place[-1]] = value
    return message


def _label(message: JSON, place: tuple[str, ...], value: object) -> str:
    return f"{message['method']} /{'/'.join(key.rpartition('/')[2] for key in place)} {kind_of(value)}"


def _changeable(revision: str) -> list[tuple[JSON, tuple[str, ...]]]:
    found: list[tuple[JSON, tuple[str, ...]]] = []
    for message in _valid(revision):
        found += [(message, place) for place in _places(message)]
        found += [(message, ("params", key)) for key in _OPTIONAL.get(message["method"], ())]
        found.append(
            (message, ("params", "_meta", "progressToken")) if revision == MODERN else (message, ("params", "_meta"))
        )
    return found


def changed(revision: str) -> Iterator[Case]:
    """Every valid request, and every one with one value of each kind in each place."""
    for message in _valid(revision):
        yield Case(f"{message['method']} valid", message)
    for message, place in _changeable(revision):
        is_flag = isinstance(_at(message, place), bool)
        for value in (*VALUES, *FLAGS) if is_flag else VALUES:
            yield Case(_label(message, place, value), _put(message, place, value))


_PLAIN: Final = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
_INNER: Final = _PLAIN | st.lists(_PLAIN, max_size=2) | st.dictionaries(st.text(max_size=5), _PLAIN, max_size=2)
ANY_JSON: Final = _INNER | st.lists(_INNER, max_size=2) | st.dictionaries(st.text(max_size=5), _INNER, max_size=2)
"""Whatever can be written."""


@st.composite
def generated(draw: st.DrawFn, revision: str) -> Case:
    """A valid request with anything in one place."""
    message, place = draw(st.sampled_from(_changeable(revision)))
    value = draw(ANY_JSON)
    return Case(_label(message, place, value), _put(message, place, value))


def _request(revision: str, method: str, request_id: object = 7, **params: Any) -> JSON:
    told = {**params, "_meta": meta()} if revision == MODERN else params
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": told}


def _named(revision: str) -> Iterator[Case]:
    """What is right in its form, and of which there is nothing."""
    ask = _request
    yield Case("unknown tool", ask(revision, "tools/call", name="none"))
    yield Case("a tool that fails", ask(revision, "tools/call", name="fail", arguments={}))
    yield Case("a tool without arguments", ask(revision, "tools/call", name="echo"))
    yield Case("unknown prompt", ask(revision, "prompts/get", name="none"))
    yield Case("a prompt without its argument", ask(revision, "prompts/get", name="greet"))
    yield Case("unknown resource", ask(revision, "resources/read", uri="none://there"))
    yield Case("a resource that its template does not find", ask(revision, "resources/read", uri="odd://5"))
    yield Case(
        "unknown reference",
        ask(
            revision,
            "completion/complete",
            ref={"type": "ref/prompt", "name": "none"},
            argument={"name": "x", "value": ""},
        ),
    )
    yield Case(
        "a reference to a template",
        ask(
            revision,
            "completion/complete",
            ref={"type": "ref/resource", "uri": "odd://{number}"},
            argument={"name": "number", "value": ""},
        ),
    )
    yield Case(
        "a reference of another kind",
        ask(revision, "completion/complete", ref={"type": "ref/new", "name": "x"}, argument={"name": "x", "value": ""}),
    )
    for method in (
        "no/such",
        "rpc.discover",
        "TOOLS/LIST",
        "tools/list ",
        "",
        "notifications/initialized",
        "sampling/createMessage",
        "roots/list",
        "elicitation/create",
        "tasks/get",
        "tasks/list",
        "ä/ö",
    ):
        yield Case(f"unknown method {method.encode('unicode_escape').decode()}", ask(revision, method))
    yield Case("tools/list /method text", ask(revision, "a\u0007b"))
    other = _OF_ERA[HANDSHAKE if revision == MODERN else MODERN]
    for method, params in other.items():
        yield Case(f"{method} of the other era", ask(revision, method, **params))
    yield Case("a parameter more", ask(revision, "tools/list", more=[1, {"x": None}]))
    for token in ("", 0, -1, 10**30, 5.0):
        message = ask(revision, "tools/list")
        message["params"]["_meta"] = {**message["params"].get("_meta", {}), "progressToken": token}
        yield Case(f"a progress token {token!r}", message)


IDS: Final = (0, -1, "", "x", "7", "ä", 2**53, 2**63, 10**30, 5.0, 1e300, "\ud83d")


def _envelopes(revision: str) -> Iterator[Case]:
    base = _request(revision, "tools/list")
    text = json.dumps(base)
    for request_id in IDS:
        yield Case(f"id {request_id!r}", {**base, "id": request_id})
    for version in ("1.0", "2", "2.0 ", 2):
        yield Case(f"jsonrpc {version!r}", {**base, "jsonrpc": version})
    yield Case("a request and a result", {**base, "result": {}})
    yield Case("a request and an error", {**base, "error": {"code": 1, "message": "x"}})
    yield Case("a member more", {**base, "more": 1})
    bodies = {
        "nothing": b"",
        "blank": b"  ",
        "null": b"null",
        "a number": b"5",
        "a text": b'"x"',
        "an empty object": b"{}",
        "no JSON": b"hello",
        "half": text[:-5].encode(),
        "two": (text + text).encode(),
        "something after it": (text + " x").encode(),
        "blanks around it": f" \t{text}\r\n".encode(),
        "NUL after it": text.encode() + b"\0",
        "no UTF-8": text.encode().replace(b'"2.0"', b'"2.0", "x": "\xff"'),
        "UTF-16": text.encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf" + text.encode(),
        "NaN": text.replace('"id": 7', '"id": 7, "x": NaN').encode(),
        "a control character": text.replace('"id": 7', '"id": 7, "x": "\x01"').encode(),
        "a leading zero": text.replace('"id": 7', '"id": 7, "x": 01').encode(),
        "an id twice": text.replace('"id": 7', '"id": 7, "id": 8').encode(),
        "a method twice": text.replace('"id": 7', '"id": 7, "method": "no/such"').encode(),
        "nested deeply": text.replace('"id": 7', '"id": 7, "x": ' + "[" * 100_000 + "]" * 100_000).encode(),
        "a very long number": text.replace('"id": 7', '"id": 7, "x": ' + "7" * 5000).encode(),
    }
    for name, body in bodies.items():
        yield Case(f"body: {name}", body)
    batches: Mapping[str, list[object]] = {
        "empty": [],
        "of one": [base],
        "of two": [base, {**base, "id": 8}],
        "of a notification": [{"jsonrpc": "2.0", "method": "notifications/new"}],
        "of junk": [1, None],
    }
    for name, batch in batches.items():
        yield Case(f"batch {name}", batch)


_CANCELLATIONS: Final[tuple[Any, ...]] = (
    ABSENT,
    {},
    {"requestId": 99},
    {"requestId": None},
    {"requestId": {}},
    {"requestId": 1.5},
)
_PROGRESS: Final[tuple[JSON, ...]] = (
    {"progressToken": 1, "progress": "x"},
    {"progressToken": {}, "progress": 1},
    {"progressToken": 1, "progress": 1},
)
_NO_PARAMS: Final[tuple[Any, ...]] = (None, [], 5, "x")
_ODD_IDS: Final[tuple[Any, ...]] = (7, "x", None, 1.5, True, {}, ABSENT)
_RESPONSES: Final[Mapping[str, JSON]] = {
    "result": {"result": {}},
    "error": {"error": {"code": 1, "message": "m"}},
    "both": {"result": {}, "error": {"code": 1, "message": "m"}},
    "odd result": {"result": 5},
    "odd error": {"error": {"code": "x"}},
}


def _one_way(revision: str) -> Iterator[Case]:
    """Notifications, and responses that nobody asked for."""
    told: JSON = {"_meta": meta()} if revision == MODERN else {}
    for method in (
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/new",
        "tools/list",
        "x",
    ):
        yield Case(f"notification {method}", {"jsonrpc": "2.0", "method": method, "params": told})
    for params in _CANCELLATIONS:
        message: JSON = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        yield Case(f"cancellation {'absent' if params is ABSENT else params}", _put(message, ("params",), params))
    for params in _PROGRESS:
        yield Case(f"progress {params}", {"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    for params in _NO_PARAMS:
        yield Case(
            f"notification with {kind_of(params)}", {"jsonrpc": "2.0", "method": "notifications/new", "params": params}
        )
    yield Case("notification of another JSON-RPC", {"jsonrpc": "1.0", "method": "notifications/new"})
    for request_id in _ODD_IDS:
        shown = kind_of(request_id)
        for name, part in _RESPONSES.items():
            yield Case(
                f"response, id {shown}, {name}", _put({"jsonrpc": "2.0", "id": request_id, **part}, ("id",), request_id)
            )


_ACCEPTS: Final = (
    None,
    "",
    "*/*",
    "application/json",
    "text/event-stream",
    "text/event-stream, application/json",
    "application/json;q=0.9, text/event-stream;q=0.1",
    "application/json, text/event-stream;q=0",
    "text/html",
    "application/*, text/*",
    "APPLICATION/JSON, TEXT/EVENT-STREAM",
    "application/jsonx, text/event-streamx",
)
_TYPES: Final = (
    None,
    "",
    "application/json; charset=utf-8",
    "application/json; charset=utf-16",
    "APPLICATION/JSON",
    "text/json",
    "text/plain",
    "application/jsonx",
)
_REVISIONS: Final = (
    None,
    "",
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    "1999-01-01",
    "2099-01-01",
    "latest",
)


def _over_http(revision: str) -> Iterator[Case]:
    base = _request(revision, "tools/list")
    note: JSON = {"jsonrpc": "2.0", "method": "notifications/new"}
    for accept in _ACCEPTS:
        yield Case(f"accept {accept}", base, {"accept": accept})
        yield Case(f"notification, accept {accept}", note, {"accept": accept})
    for kind in _TYPES:
        yield Case(f"content type {kind}", base, {"content-type": kind})
    for asked in _REVISIONS:
        yield Case(f"header revision {asked}", base, {"mcp-protocol-version": asked})
        yield Case(f"notification, header revision {asked}", note, {"mcp-protocol-version": asked})
    for session in (None, "", "x", "0" * 32):
        yield Case(f"session {session}", base, {"mcp-session-id": session})
        yield Case(f"notification, session {session}", note, {"mcp-session-id": session})
        yield Case(f"DELETE, session {session}", b"", {"mcp-session-id": session, "content-type": None}, "DELETE")
    for method in ("GET", "PUT", "PATCH", "OPTIONS", "HEAD"):
        yield Case(method, b"", {"content-type": None}, method)
    yield Case("GET, accept JSON", b"", {"accept": "application/json", "content-type": None}, "GET")
    for name, value in {"origin": "https://evil.example", "host": "evil.example"}.items():
        yield Case(f"{name} {value}", base, {name: value})
    yield Case("origin null", base, {"origin": "null"})
    yield Case("origin of this computer", base, {"origin": "http://127.0.0.1:8765"})
    yield Case("hello in a session", hello())
    yield Case("hello anew", hello(), {"mcp-session-id": None, "mcp-protocol-version": None})
    for asked in ("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28", "1999-01-01", "x"):
        fresh = {"mcp-session-id": None, "mcp-protocol-version": None, "mcp-method": None}
        yield Case(f"hello in {asked}", hello(protocolVersion=asked), fresh)


def _headers_and_body(revision: str) -> Iterator[Case]:
    """What the headers of 2026-07-28 say, against what the body says."""
    if revision != MODERN:
        return
    call = _request(revision, "tools/call", name="echo", arguments={"text": "x"})
    for value in (
        None,
        "",
        "tools/list",
        "TOOLS/CALL",
        "tools/call ",
        "tools/call, tools/call",
        "=?base64?dG9vbHMvY2FsbA==?=",
    ):
        yield Case(f"Mcp-Method {value!r}", call, {"mcp-method": value})
    for value in (None, "", "other", "ECHO", "echo ", "=?base64?ZWNobw==?=", "=?base64?!!?=", "=?base64?b3RoZXI=?="):
        yield Case(f"Mcp-Name {value!r}", call, {"mcp-name": value})
    yield Case("Mcp-Name where none belongs", _request(revision, "tools/list"), {"mcp-name": "echo"})
    for argument in (ABSENT, None, "eu", "ä", "", " x ", 5, True):
        arguments: JSON = {} if argument is ABSENT else {"region": argument}
        region = _request(revision, "tools/call", name="echo", arguments=arguments)
        shown = "absent" if argument is ABSENT else repr(argument)
        for value in (None, "", "eu", "us", "5", "true", "=?base64?ZXU=?=", "=?base64?w6Q=?=", "=?base64?!?="):
            yield Case(f"region {shown}, Mcp-Param-Region {value!r}", region, {"mcp-param-region": value})
    yield Case("Mcp-Param-Unknown", call, {"mcp-param-unknown": "x"})
    for asked in ("2025-11-25", "2099-01-01", "x"):
        message = copy.deepcopy(_request(revision, "tools/list"))
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = asked
        yield Case(f"revision {asked} in the body", message)
        yield Case(f"revision {asked} in both", message, {"mcp-protocol-version": asked})
    for capabilities in ({"sampling": 5}, {"elicitation": {"form": 5}}, {"new": 5}, {"extensions": {"a": 5}}):
        message = copy.deepcopy(_request(revision, "tools/list"))
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities
        yield Case(f"capabilities {capabilities}", message)
    for level in ("debug", "loud", "", 5):
        message = copy.deepcopy(_request(revision, "tools/list"))
        message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = level
        yield Case(f"log level {level!r}", message)


_TEXT: Final[JSON] = {"type": "text", "text": "x"}
_RESULTS: Final[Mapping[str, JSON]] = {
    "text": {"content": [_TEXT]},
    "no content": {"content": []},
    "structured": {"content": [_TEXT], "structuredContent": {"a": [1, None]}},
    "structured text": {"content": [_TEXT], "structuredContent": "x"},
    "structured null": {"content": [_TEXT], "structuredContent": None},
    "an error": {"content": [_TEXT], "isError": True},
    "odd isError": {"content": [_TEXT], "isError": "yes"},
    "metadata": {"content": [_TEXT], "_meta": {"a/b": 1}},
    "odd metadata": {"content": [_TEXT], "_meta": 5},
    "a field more": {"content": [_TEXT], "more": 1},
    "image": {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
    "image that is no Base64": {"content": [{"type": "image", "data": "!", "mimeType": "image/png"}]},
    "image without type": {"content": [{"type": "image", "data": "aGk="}]},
    "audio": {"content": [{"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]},
    "link": {"content": [{"type": "resource_link", "uri": "a://b", "name": "b"}]},
    "link without name": {"content": [{"type": "resource_link", "uri": "a://b"}]},
    "embedded": {"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "x"}}]},
    "embedded without text": {"content": [{"type": "resource", "resource": {"uri": "a://b"}}]},
    "annotations": {"content": [{**_TEXT, "annotations": {"audience": ["user"], "priority": 0.5}}]},
    "odd annotations": {"content": [{**_TEXT, "annotations": {"audience": ["nobody"], "priority": 5}}]},
    "text that is a number": {"content": [{"type": "text", "text": 5}]},
    "a block without type": {"content": [{"text": "x"}]},
    "a block of a new type": {"content": [{"type": "new", "x": 1}]},
    "content that is a text": {"content": "x"},
    "a block more": {"content": [{**_TEXT, "more": 1}]},
    "long integer": {"content": [], "structuredContent": {"n": 10**30}},
    "lone surrogate": {"content": [{"type": "text", "text": "\ud83d"}]},
}


def _results(revision: str) -> Iterator[Case]:
    """What a tool may return."""
    for name, result in _RESULTS.items():
        yield Case(f"result: {name}", _request(revision, "tools/call", name="return", arguments={"result": result}))


def cases(revision: str) -> Iterator[Case]:
    """The whole corpus."""
    for part in (changed, _named, _envelopes, _one_way, _over_http, _headers_and_body, _results):
        yield from part(revision)
