"""The rules of the specification for what clients send, one line each: what is sent as it is, and what must come back.

A section is named as its page on modelcontextprotocol.io is, or as a section of JSON-RPC 2.0 or an RFC. Where the
specification leaves open what is answered, the rule says what the bridge has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gaia_bridge.settings import HttpLimits, Settings
from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.probes.reaching import HANDSHAKE, MODERN, REVISIONS, Endpoint, Reply, hello, meta

__all__ = ["RULES", "Rule"]

BATCHING: Final = ("2024-11-05", "2025-03-26")
UNBATCHED: Final = ("2025-06-18", "2025-11-25", MODERN)
NAMED: Final = ("2025-06-18", "2025-11-25")
"""The revisions of the handshake in which HTTP requests say the revision."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION, LEGACY_NOT_FOUND = -32020, -32022, -32002
ONLY_ID: Final = "only"

Sent = Callable[[Endpoint], Any]
Check = Callable[[Reply, Endpoint], object]
"""Whether what came back is right; false or an `AssertionError` if not."""


@dataclass(frozen=True)
class Rule:
    """One rule.

    Args:
        name: What must be.
        section: Where that is said.
        sent: What is sent, after the handshake: bytes, JSON, or what makes it for an endpoint.
        check: What must come back.
        revisions: The revisions that it is of.
        transports: Where it can be probed.
        opened: Whether the handshake comes first.
        headers: HTTP headers that are different; `None` leaves one out.
        method: The HTTP method.
    """

    name: str
    section: str
    sent: Sent | JSON | bytes | list[Any]
    check: Check
    revisions: Sequence[str] = REVISIONS
    transports: Sequence[str] = ("http", "stdio")
    opened: bool = True
    headers: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    method: str = "POST"


# What is sent


def ask(method: str, request_id: Any = ONLY_ID, meta_: Any = ..., **params: Any) -> Sent:
    """A request; a modern one has its envelope, which `meta_` replaces. `$` in a text is the name of the source."""

    def make(endpoint: Endpoint) -> JSON:
        own = _named(params, endpoint.name)
        if meta_ is not ...:
            own["_meta"] = meta_
        elif endpoint.modern:
            own["_meta"] = meta()
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": own}

    return make


def tell(method: str, **params: Any) -> JSON:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def like(sent: Sent, **fields: Any) -> Sent:
    """A request with other members; `...` leaves one out."""

    def make(endpoint: Endpoint) -> JSON:
        return {name: value for name, value in (sent(endpoint) | fields).items() if value is not ...}

    return make


def _named(value: Any, name: str) -> Any:
    if is_object(value):
        return {key: _named(item, name) for key, item in value.items()}
    return value.replace("$", name) if isinstance(value, str) else value


# What must come back


def result(holds: Callable[[JSON], object] = lambda _: True, request_id: Any = ONLY_ID) -> Check:
    """One result, with the id of the request, of which something holds."""

    def check(reply: Reply, endpoint: Endpoint) -> object:
        [answer] = reply.answers
        assert answer["id"] == request_id and type(answer["id"]) is type(request_id), answer
        assert "error" not in answer, answer
        assert reply.status in (None, 200)
        return holds(answer["result"])

    return check


def streamed(reply: Reply, endpoint: Endpoint) -> object:
    """One result, at the end of an event stream."""
    return reply.headers["content-type"].startswith("text/event-stream") and result()(reply, endpoint)


def error(*codes: int, request_id: Any = ONLY_ID, status: int | None = None, modern: int | None = None) -> Check:
    """One error, with the id of the request, and over HTTP with a status; for clients of 2026-07-28 with theirs."""

    def check(reply: Reply, endpoint: Endpoint) -> object:
        [answer] = reply.answers
        assert "result" not in answer, answer
        assert answer["error"]["code"] in codes, answer
        assert isinstance(answer["error"]["message"], str)
        assert (answer.get("id", "none"), "id" in answer) == (request_id, True), answer
        wanted = modern if endpoint.modern and modern is not None else status
        assert wanted is None or reply.status in (None, wanted), reply.status
        return True

    return check


def unfit(said: str, *also: int) -> Check:
    """An invalid parameter, and which one it is; or another error, where something else was looked at before."""
    known = error(INVALID_PARAMS, *also)

    def check(reply: Reply, endpoint: Endpoint) -> object:
        known(reply, endpoint)
        [answer] = reply.answers
        return answer["error"]["code"] in also or said in answer["error"]["message"]

    return check


def refused(code: int, *, said_to: Any = None) -> Check:
    """An error that no session is needed for: 400 over HTTP."""
    return error(code, request_id=said_to, status=400)


def nothing(reply: Reply, endpoint: Endpoint) -> object:
    """Nothing but a receipt."""
    assert not reply.messages and reply.status in (None, 202), reply
    return reply.text == ""


def status(code: int) -> Check:
    """An HTTP status, whatever the body says."""
    return lambda reply, _: reply.status == code


def answers(*expected: Any) -> Check:
    """Results and errors by their ids, in any order: an id for a result, an id and a code for an error."""

    def check(reply: Reply, endpoint: Endpoint) -> object:
        came = [
            (answer["id"], answer["error"]["code"]) if "error" in answer else answer["id"] for answer in reply.answers
        ]
        assert sorted(map(str, came)) == sorted(map(str, expected)), reply.answers
        return reply.status in (None, 200)

    return check


def failed_tool(reply: Reply, endpoint: Endpoint) -> object:
    """A refusal, as an error of the protocol or of the tool."""
    [answer] = reply.answers
    return answer["id"] == ONLY_ID and (answer.get("error") or answer["result"]["isError"])


def missing(reply: Reply, endpoint: Endpoint) -> object:
    """The error for a resource that is not there, in the terms of each era."""
    [answer] = reply.answers
    return answer["error"]["code"] == (INVALID_PARAMS if endpoint.modern else LEGACY_NOT_FOUND)


def no_such_method(reply: Reply, endpoint: Endpoint) -> object:
    """The method is not known: 404 over HTTP since 2026-07-28."""
    return error(METHOD_NOT_FOUND, modern=404)(reply, endpoint)


def only_messages(reply: Reply, endpoint: Endpoint) -> object:
    """An event stream of which every event has data: no event without a message."""
    return all(line.removeprefix("data:").strip() for line in reply.text.splitlines() if line.startswith("data:"))


def visible(text: str) -> bool:
    return bool(text) and all(0x21 <= ord(character) <= 0x7E for character in text)


PING: Final = ask("ping")
LIST: Final = ask("tools/list")
ECHO: Final = ask("tools/call", name="$-echo", arguments={"text": "x"})
SURROGATE: Final = b'{"jsonrpc":"2.0","id":"cut","method":"tools/call","params":{"name":"x\\ud83d","arguments":{}}}'
DIGITS: Final = b'{"jsonrpc":"2.0","id":41,"method":"tools/list","params":{"x":' + b"7" * 5000 + b"}}"
TRUNCATED: Final = b'{"jsonrpc":"2.0","id":41,"method":"tools/list","params":{"x":'
LONG: Final = b'{"method":"tools/list","params":{"x":"' + b"x" * Settings().line_bytes + b'"},"jsonrpc":"2.0","id":41}'
DEEP: Final = b'{"jsonrpc":"2.0","id":41,"method":"tools/list","params":' + b'{"x":' * 5000 + b"1" + b"}" * 5001


def _capabilities_are_told(answer: JSON) -> bool:
    told = answer["capabilities"]
    return {"tools", "prompts", "resources", "completions", "logging"} >= told.keys() and all(
        map(is_object, told.values())
    )


def _info_is_told(answer: JSON) -> bool:
    info = answer["serverInfo"]
    return isinstance(info["name"], str) and isinstance(info["version"], str)


LIFECYCLE: Final = [
    Rule(
        "the revision that is asked for is agreed on",
        "basic/lifecycle#version-negotiation",
        lambda e: hello(e.revision),
        lambda r, e: r.answers[0]["result"]["protocolVersion"] == e.revision,
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "an unknown revision is answered with one that is served",
        "basic/lifecycle#version-negotiation",
        hello("1999-01-01"),
        result(lambda a: a["protocolVersion"] in HANDSHAKE, "hello"),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "2026-07-28 is nothing that a handshake leads to",
        "basic/lifecycle#version-negotiation",
        hello(MODERN),
        result(lambda a: a["protocolVersion"] in HANDSHAKE, "hello"),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "capabilities are told",
        "basic/lifecycle#initialization",
        hello(HANDSHAKE[-1]),
        result(_capabilities_are_told, "hello"),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "the server says who it is",
        "basic/lifecycle#initialization",
        hello(HANDSHAKE[-1]),
        result(_info_is_told, "hello"),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "a greeting carries nothing of 2026-07-28",
        "basic/lifecycle#initialization",
        hello(HANDSHAKE[-1]),
        result(
            lambda a: a.keys() <= {"protocolVersion", "capabilities", "serverInfo", "instructions", "_meta"}, "hello"
        ),
        HANDSHAKE,
        opened=False,
    ),
    *(
        Rule(
            f"a handshake without {name} is refused",
            "basic/lifecycle#initialization",
            hello(HANDSHAKE[-1], **{name: None}),
            error(INVALID_PARAMS, request_id="hello", status=400),
            HANDSHAKE,
            opened=False,
        )
        for name in ("protocolVersion", "capabilities", "clientInfo")
    ),
    Rule(
        "a revision that is no text is refused",
        "basic/lifecycle#initialization",
        hello(HANDSHAKE[-1], protocolVersion=5),
        error(INVALID_PARAMS, request_id="hello", status=400),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "capabilities that are no object are refused",
        "basic/lifecycle#initialization",
        hello(HANDSHAKE[-1], capabilities=[]),
        error(INVALID_PARAMS, request_id="hello", status=400),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "capabilities that nobody has heard of are taken",
        "basic/lifecycle#capability-negotiation",
        hello(HANDSHAKE[-1], capabilities={"new": {"x": 1}, "experimental": {"y": {}}}),
        result(request_id="hello"),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "unknown parameters of a handshake are taken",
        "basic/lifecycle#initialization",
        hello(HANDSHAKE[-1], new=[1]),
        result(request_id="hello"),
        HANDSHAKE,
        opened=False,
    ),
    Rule(
        "a handshake of an unreasonable size is refused",
        "our own bound",
        hello(HANDSHAKE[-1], capabilities={"experimental": {"x": {"y": "x" * HttpLimits().handshake_bytes}}}),
        error(INVALID_PARAMS, request_id="hello", status=400),
        HANDSHAKE,
        ("http",),
        opened=False,
    ),
    Rule(
        "a ping may come before the handshake",
        "basic/lifecycle#initialization",
        PING,
        result(lambda a: a == {}),
        HANDSHAKE,
        ("stdio",),
        opened=False,
    ),
    Rule(
        "a request before the handshake is an error",
        "basic/lifecycle#initialization",
        LIST,
        error(INVALID_REQUEST, INVALID_PARAMS),
        HANDSHAKE,
        ("stdio",),
        opened=False,
    ),
    Rule(
        "a second handshake is refused",
        "basic/lifecycle#initialization",
        lambda e: hello(e.revision),
        error(INVALID_REQUEST, request_id="hello"),
        HANDSHAKE,
    ),
    Rule("a ping is answered with nothing in it", "basic/utilities/ping", PING, result(lambda a: a == {}), HANDSHAKE),
]

MESSAGES: Final = [
    *(
        Rule(f"an id that is {what} is refused", "basic#requests", like(LIST, id=value), refused(INVALID_REQUEST))
        for what, value in (
            ("null", None),
            ("an object", dict[str, Any]()),
            ("a fraction", 1.5),
            ("true", True),
            ("an array", [1]),
        )
    ),
    *(
        Rule(f"an id that is {what} comes back", "basic#requests", like(LIST, id=value), result(request_id=value))
        for what, value in (
            ("zero", 0),
            ("negative", -7),
            ("large", 2**53),
            ("empty text", ""),
            ("text", 'ä\n"ö'),
            ("digits", "1"),
        )
    ),
    Rule(
        "a message without jsonrpc is refused",
        "JSON-RPC 2.0, 4",
        like(LIST, jsonrpc=...),
        refused(INVALID_REQUEST, said_to=ONLY_ID),
    ),
    Rule(
        "JSON-RPC 1.0 is refused",
        "JSON-RPC 2.0, 4",
        like(LIST, jsonrpc="1.0"),
        refused(INVALID_REQUEST, said_to=ONLY_ID),
    ),
    Rule(
        "a version that is a number is refused",
        "JSON-RPC 2.0, 4",
        like(LIST, jsonrpc=2.0),
        refused(INVALID_REQUEST, said_to=ONLY_ID),
    ),
    Rule(
        "a method that is a number is refused",
        "JSON-RPC 2.0, 4",
        like(LIST, method=5),
        refused(INVALID_REQUEST, said_to=ONLY_ID),
    ),
    Rule(
        "parameters in an array are refused",
        "basic#requests",
        like(LIST, params=[1]),
        refused(INVALID_REQUEST, said_to=ONLY_ID),
    ),
    Rule(
        "parameters in a text are refused",
        "JSON-RPC 2.0, 4.2",
        like(LIST, params="x"),
        refused(INVALID_REQUEST, said_to=ONLY_ID),
    ),
    Rule("a request without a method is refused", "JSON-RPC 2.0, 4", like(LIST, method=...), refused(INVALID_REQUEST)),
    Rule("unknown members of a request are ignored", "JSON-RPC 2.0, 4", like(LIST, new=1), result()),
    Rule("an unknown method is said to be unknown", "JSON-RPC 2.0, 5.1", ask("no/such"), no_such_method),
    Rule("a reserved method is unknown", "JSON-RPC 2.0, 4", ask("rpc.discover"), no_such_method),
    Rule("an empty method is unknown", "JSON-RPC 2.0, 4", ask(""), no_such_method),
    Rule("an unknown notification is ignored", "JSON-RPC 2.0, 4.1", tell("notifications/new", x=1), nothing),
    Rule(
        "a malformed notification is ignored",
        "JSON-RPC 2.0, 4.1",
        tell("notifications/cancelled", requestId={}),
        nothing,
    ),
    Rule(
        "the cancellation of an unknown request is ignored",
        "basic/utilities/cancellation",
        tell("notifications/cancelled", requestId=99),
        nothing,
    ),
    Rule(
        "progress on nothing is ignored",
        "basic/utilities/progress",
        tell("notifications/progress", progressToken="x", progress=1),
        nothing,
    ),
    Rule(
        "a notification of the end of a handshake changes nothing",
        "basic/lifecycle",
        tell("notifications/initialized"),
        nothing,
    ),
    *(
        Rule(f"{what} is no JSON", "JSON-RPC 2.0, 5.1", content, refused(PARSE_ERROR))
        for what, content in (
            ("half a message", b'{"jsonrpc": "2.0", "id"'),
            ("a word", b"hello"),
            ("two commas", b'{"a":1,,}'),
            ("no UTF-8", b'{"jsonrpc":"2.0","id":"\xff\xfe"}'),
        )
    ),
    *(
        Rule(f"{what} is no message", "JSON-RPC 2.0, 4", content, refused(INVALID_REQUEST))
        for what, content in (("a number", b"5"), ("a text", b'"ping"'), ("null", b"null"), ("an empty object", b"{}"))
    ),
    Rule(
        "half a character is answered to the request", "JSON-RPC 2.0, 5", SURROGATE, refused(PARSE_ERROR, said_to="cut")
    ),
    Rule(
        "a number without end is answered to the request", "JSON-RPC 2.0, 5", DIGITS, refused(PARSE_ERROR, said_to=41)
    ),
    Rule(
        "a message that breaks off is answered to the request",
        "JSON-RPC 2.0, 5",
        TRUNCATED,
        refused(PARSE_ERROR, said_to=41),
    ),
    Rule(
        "a message without bottom is answered to the request", "JSON-RPC 2.0, 5", DEEP, refused(PARSE_ERROR, said_to=41)
    ),
    Rule(
        "a line that is too long is answered to the request",
        "JSON-RPC 2.0, 5",
        LONG,
        refused(INVALID_REQUEST, said_to=41),
        transports=("stdio",),
    ),
    Rule("blank lines are nothing", "basic/transports#stdio", b" \r\n\t\n", nothing, transports=("stdio",)),
    Rule(
        "a response to nothing is ignored",
        "basic#responses",
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        nothing,
        HANDSHAKE,
    ),
    Rule(
        "an error without an id is ignored",
        "basic#responses",
        {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "no"}},
        nothing,
        HANDSHAKE,
    ),
    Rule(
        "a client of 2026-07-28 posts no responses",
        "basic/transports#sending-messages",
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        refused(INVALID_REQUEST),
        (MODERN,),
        ("http",),
    ),
    Rule(
        "a response with a result and an error is refused",
        "JSON-RPC 2.0, 5",
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
        refused(INVALID_REQUEST),
    ),
    Rule(
        "a result that is no object is refused",
        "basic#responses",
        {"jsonrpc": "2.0", "id": 1, "result": 5},
        refused(INVALID_REQUEST),
    ),
]

BATCHES: Final = [
    Rule(
        "every request of a batch is answered",
        "basic#batching",
        lambda _: [like(PING, id=i)(_) for i in (1, 2, "3")],
        answers(1, 2, "3"),
        BATCHING,
    ),
    Rule(
        "a number is another id than its digits",
        "basic#requests",
        lambda _: [like(PING, id=i)(_) for i in (1, "1")],
        answers(1, "1"),
        BATCHING,
    ),
    Rule("a batch of one is answered", "basic#batching", lambda _: [PING(_)], answers(ONLY_ID), BATCHING),
    Rule(
        "calls are answered in a batch",
        "basic#batching",
        lambda _: [like(ECHO, id=1)(_), like(LIST, id=2)(_)],
        answers(1, 2),
        BATCHING,
    ),
    Rule(
        "notifications of a batch are not answered",
        "basic#batching",
        lambda _: [PING(_), tell("notifications/new")],
        answers(ONLY_ID),
        BATCHING,
    ),
    Rule(
        "a batch of notifications is not answered",
        "JSON-RPC 2.0, 6",
        [tell("notifications/new"), tell("notifications/x")],
        nothing,
        BATCHING,
    ),
    Rule(
        "what of a batch is no message is answered as such",
        "JSON-RPC 2.0, 6",
        lambda _: [PING(_), 1, {"x": 2}],
        answers(ONLY_ID, (None, INVALID_REQUEST), (None, INVALID_REQUEST)),
        BATCHING,
    ),
    Rule(
        "a batch of nonsense is answered", "JSON-RPC 2.0, 6", [1, 2], answers(*[(None, INVALID_REQUEST)] * 2), BATCHING
    ),
    Rule(
        "a batch in a batch is no message",
        "JSON-RPC 2.0, 6",
        lambda _: [[PING(_)]],
        answers((None, INVALID_REQUEST)),
        BATCHING,
    ),
    Rule("an empty batch is answered with one error", "JSON-RPC 2.0, 6", b"[]", refused(INVALID_REQUEST), BATCHING),
    Rule(
        "a handshake is no part of a batch",
        "basic/lifecycle#initialization",
        lambda e: [hello(e.revision), PING(e)],
        answers(("hello", INVALID_REQUEST), ONLY_ID),
        BATCHING,
    ),
    Rule(
        "a batch has bounds",
        "our own bound",
        lambda _: [PING(_)] * (HttpLimits().batch + 1),
        refused(INVALID_REQUEST),
        BATCHING,
    ),
    Rule(
        "there are no batches since 2025-06-18",
        "changelog 2025-06-18",
        lambda _: [LIST(_)],
        refused(INVALID_REQUEST),
        UNBATCHED,
    ),
    Rule(
        "an empty array is no batch since 2025-06-18",
        "changelog 2025-06-18",
        b" [ ]",
        refused(INVALID_REQUEST),
        UNBATCHED,
    ),
    Rule(
        "there are no batches before the handshake",
        "basic/lifecycle#initialization",
        lambda _: [PING(_)],
        refused(INVALID_REQUEST),
        HANDSHAKE,
        opened=False,
    ),
]

ERAS: Final = [
    *(
        Rule(
            f"{method} is none of 2026-07-28", "changelog 2026-07-28", ask(method, **params), no_such_method, (MODERN,)
        )
        for method, params in (
            ("ping", {}),
            ("logging/setLevel", {"level": "info"}),
            ("resources/subscribe", {"uri": "$://one"}),
            ("resources/unsubscribe", {"uri": "$://one"}),
            ("tasks/get", {"taskId": "x"}),
            ("tasks/list", {}),
            ("tasks/cancel", {"taskId": "x"}),
            ("tasks/result", {"taskId": "x"}),
        )
    ),
    *(
        Rule(f"{method} is none of the handshake", "server/discover", ask(method), no_such_method, HANDSHAKE)
        for method in ("server/discover", "subscriptions/listen")
    ),
    Rule(
        "tasks are not there where nobody has them",
        "basic/utilities/tasks",
        ask("tasks/get", taskId="x"),
        no_such_method,
        HANDSHAKE,
    ),
    Rule(
        "initialize is none of 2026-07-28",
        "basic/versioning",
        ask("initialize"),
        error(METHOD_NOT_FOUND, UNSUPPORTED_VERSION),
        (MODERN,),
        ("http",),
    ),
    Rule(
        "a look around tells what is served",
        "server/discover",
        ask("server/discover"),
        result(
            lambda a: (
                MODERN in a["supportedVersions"] and a["resultType"] == "complete" and is_object(a["capabilities"])
            )
        ),
        (MODERN,),
    ),
    Rule(
        "the server says who it is in each result",
        "basic#meta",
        LIST,
        result(lambda a: "name" in a["_meta"]["io.modelcontextprotocol/serverInfo"]),
        (MODERN,),
    ),
    Rule(
        "a request without _meta is refused",
        "basic#meta",
        ask("tools/list", meta_=None),
        error(INVALID_PARAMS, status=400),
        (MODERN,),
    ),
    Rule(
        "a _meta that is no object is refused",
        "basic#meta",
        ask("tools/list", meta_=5),
        error(INVALID_PARAMS, status=400),
        (MODERN,),
    ),
    Rule(
        "a request that declares no capabilities is refused",
        "basic#meta",
        ask("tools/list", meta_=meta(clientCapabilities=None)),
        error(INVALID_PARAMS, status=400),
        (MODERN,),
    ),
    Rule(
        "clientInfo may be left out", "basic#meta", ask("tools/list", meta_=meta(clientInfo=None)), result(), (MODERN,)
    ),
    Rule(
        "a revision that is no text is refused",
        "basic#meta",
        ask("tools/list", meta_=meta(protocolVersion=5)),
        error(INVALID_PARAMS, HEADER_MISMATCH, status=400),
        (MODERN,),
    ),
    Rule(
        "a revision that is not served is said to be so",
        "basic/versioning",
        ask("tools/list", meta_=meta(protocolVersion="2099-01-01")),
        error(UNSUPPORTED_VERSION, status=400),
        (MODERN,),
        headers={"mcp-protocol-version": "2099-01-01"},
    ),
    Rule(
        "a look around in a revision that is not served is answered so",
        "basic/versioning",
        ask("server/discover", meta_=meta(protocolVersion="2099-01-01")),
        error(UNSUPPORTED_VERSION, status=400),
        (MODERN,),
        headers={"mcp-protocol-version": "2099-01-01"},
    ),
    Rule(
        "a result says that it is complete",
        "basic#results",
        ECHO,
        result(lambda a: a["resultType"] == "complete"),
        (MODERN,),
    ),
    Rule(
        "a list says how long it may be kept",
        "server/utilities/caching",
        LIST,
        result(lambda a: isinstance(a["ttlMs"], int) and a["cacheScope"] in ("public", "private")),
        (MODERN,),
    ),
    Rule(
        "a result of the handshake says nothing of that",
        "basic#results",
        LIST,
        result(lambda a: not a.keys() & {"resultType", "ttlMs", "cacheScope"}),
        HANDSHAKE,
    ),
    Rule(
        "a body of 2026-07-28 is none of a handshake",
        "basic/transports#protocol-version-header",
        ask("tools/list", meta_=meta()),
        error(HEADER_MISMATCH, status=400),
        HANDSHAKE,
        ("http",),
        headers={"mcp-protocol-version": "2025-11-25"},
    ),
    Rule(
        "an era is none of the other",
        "basic/versioning",
        ask("tools/list", meta_=meta()),
        error(INVALID_REQUEST),
        HANDSHAKE,
        ("stdio",),
    ),
    *(
        Rule(
            f"a body of 2026-07-28 comes with {name}",
            "basic/transports#standard-request-headers",
            ECHO,
            error(HEADER_MISMATCH, status=400),
            (MODERN,),
            ("http",),
            headers={name: None},
        )
        for name in ("mcp-protocol-version", "mcp-method", "mcp-name")
    ),
    *(
        Rule(
            f"{name} says the same as the body",
            "basic/transports#server-validation",
            ECHO,
            error(HEADER_MISMATCH, status=400),
            (MODERN,),
            ("http",),
            headers={name: value},
        )
        for name, value in (("mcp-method", "tools/list"), ("mcp-name", "other"), ("mcp-protocol-version", "2025-11-25"))
    ),
]

HTTP: Final = [
    Rule(
        "a greeting comes without an event that is no message",
        "our own choice",
        lambda e: hello(e.revision),
        only_messages,
        HANDSHAKE,
        ("http",),
        opened=False,
    ),
    Rule(
        "a session has a name of visible ASCII",
        "basic/transports#session-management",
        lambda e: hello(e.revision),
        lambda r, _: visible(r.headers["mcp-session-id"]),
        HANDSHAKE,
        ("http",),
        opened=False,
    ),
    Rule(
        "there are no sessions since 2026-07-28",
        "changelog 2026-07-28",
        LIST,
        lambda r, _: "mcp-session-id" not in r.headers,
        (MODERN,),
        ("http",),
    ),
    Rule(
        "a notification is accepted with an empty answer",
        "basic/transports#sending-messages",
        tell("notifications/initialized"),
        lambda r, _: (r.status, r.text) == (202, ""),
        REVISIONS,
        ("http",),
    ),
    Rule(
        "a request without a session is refused",
        "basic/transports#session-management",
        LIST,
        status(400),
        HANDSHAKE,
        ("http",),
        headers={"mcp-session-id": None},
    ),
    Rule(
        "a session that is not there is not found",
        "basic/transports#session-management",
        LIST,
        status(404),
        HANDSHAKE,
        ("http",),
        headers={"mcp-session-id": "0" * 32},
    ),
    Rule(
        "a client may end its session",
        "basic/transports#session-management",
        b"",
        status(200),
        HANDSHAKE,
        ("http",),
        method="DELETE",
    ),
    Rule(
        "a revision in the header that is not served is refused",
        "basic/transports#protocol-version-header",
        LIST,
        status(400),
        NAMED,
        ("http",),
        headers={"mcp-protocol-version": "1999-01-01"},
    ),
    Rule(
        "a revision in the header that is none is refused",
        "basic/transports#protocol-version-header",
        LIST,
        status(400),
        NAMED,
        ("http",),
        headers={"mcp-protocol-version": "latest"},
    ),
    Rule(
        "an answer that is taken as an event stream alone is one",
        "basic/transports#sending-messages",
        LIST,
        streamed,
        REVISIONS,
        ("http",),
        headers={"accept": "text/event-stream"},
    ),
    *(
        Rule(
            f"an answer that is taken as {accepted} alone {'is one' if code == 200 else 'cannot be given'}",
            "basic/transports#sending-messages",
            LIST,
            status(code),
            REVISIONS,
            ("http",),
            headers={"accept": accepted},
        )
        for accepted, code in (("application/json", 200), ("text/html", 406))
    ),
    *(
        Rule(
            f"a body of {kind} is not taken",
            "basic/transports#sending-messages",
            LIST,
            status(415),
            REVISIONS,
            ("http",),
            headers={"content-type": kind},
        )
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16")
    ),
    Rule(
        "a stream is asked for as one",
        "basic/transports#listening",
        b"",
        status(406),
        HANDSHAKE,
        ("http",),
        headers={"accept": "application/json"},
        method="GET",
    ),
    *(
        Rule(
            f"{method} is not there",
            "RFC 9110, 15.5.6",
            b"",
            lambda r, _: r.status == 405 and r.headers["allow"],
            (MODERN,),
            ("http",),
            method=method,
        )
        for method in ("GET", "DELETE", "PUT", "PATCH")
    ),
    *(
        Rule(
            f"{method} is not there",
            "RFC 9110, 15.5.6",
            b"",
            lambda r, _: r.status == 405 and r.headers["allow"],
            HANDSHAKE,
            ("http",),
            method=method,
        )
        for method in ("PUT", "PATCH")
    ),
    Rule(
        "another page may not call",
        "basic/transports#security-warning",
        LIST,
        status(403),
        REVISIONS,
        ("http",),
        headers={"origin": "https://evil.example"},
    ),
    Rule(
        "no page at all may not call",
        "basic/transports#security-warning",
        LIST,
        status(403),
        REVISIONS,
        ("http",),
        headers={"origin": "null"},
    ),
]

FEATURES: Final = [
    Rule(
        "tools are listed with a schema of an object",
        "server/tools#listing-tools",
        LIST,
        result(lambda a: a["tools"] and all(tool["inputSchema"]["type"] == "object" for tool in a["tools"])),
    ),
    Rule(
        "a list needs no parameters",
        "server/tools#listing-tools",
        like(LIST, params=...),
        result(lambda a: a["tools"]),
        HANDSHAKE,
    ),
    Rule(
        "a tool is called",
        "server/tools#calling-tools",
        ECHO,
        result(lambda a: is_array(a["content"]) and not a.get("isError")),
    ),
    Rule(
        "arguments may be left out",
        "server/tools#calling-tools",
        ask("tools/call", name="$-echo"),
        result(lambda a: not a.get("isError")),
    ),
    Rule(
        "an unknown tool is an invalid parameter",
        "server/tools#error-handling",
        ask("tools/call", name="none"),
        error(INVALID_PARAMS),
    ),
    Rule(
        "a call names a tool",
        "server/tools#calling-tools",
        ask("tools/call"),
        unfit("at /params/name: nothing came; expected a string", HEADER_MISMATCH),
    ),
    Rule(
        "the name of a tool is a text",
        "server/tools#calling-tools",
        ask("tools/call", name=5),
        unfit("at /params/name: got 5; expected a string", HEADER_MISMATCH),
    ),
    Rule(
        "arguments are an object",
        "server/tools#calling-tools",
        ask("tools/call", name="$-echo", arguments=[1]),
        unfit("at /params/arguments: got [1]; "),
    ),
    *(
        Rule(
            f"{method} takes no cursor that nobody gave: {cursor}",
            "server/utilities/pagination#error-handling",
            ask(method, cursor=cursor),
            error(INVALID_PARAMS),
        )
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
        for cursor in ("nonsense", 5)
    ),
    Rule("prompts are listed", "server/prompts#listing-prompts", ask("prompts/list"), result(lambda a: a["prompts"])),
    Rule(
        "a prompt is given",
        "server/prompts#getting-a-prompt",
        ask("prompts/get", name="$-greet", arguments={"whom": "you"}),
        result(lambda a: is_array(a["messages"])),
    ),
    Rule(
        "an unknown prompt is an invalid parameter",
        "server/prompts#error-handling",
        ask("prompts/get", name="none"),
        error(INVALID_PARAMS),
    ),
    Rule(
        "a prompt is named",
        "server/prompts#getting-a-prompt",
        ask("prompts/get"),
        error(INVALID_PARAMS, HEADER_MISMATCH),
    ),
    Rule(
        "arguments of a prompt are texts",
        "server/prompts#getting-a-prompt",
        ask("prompts/get", name="$-greet", arguments={"whom": 5}),
        unfit("at /params/arguments/whom: got 5; "),
    ),
    Rule(
        "resources are listed",
        "server/resources#listing-resources",
        ask("resources/list"),
        result(lambda a: a["resources"]),
    ),
    Rule(
        "templates are listed",
        "server/resources#resource-templates",
        ask("resources/templates/list"),
        result(lambda a: a["resourceTemplates"]),
    ),
    Rule(
        "a resource is read",
        "server/resources#reading-resources",
        ask("resources/read", uri="$://one"),
        result(lambda a: a["contents"][0]["text"] == "one"),
    ),
    Rule(
        "a resource that is not there is not found",
        "server/resources#error-handling",
        ask("resources/read", uri="none://there"),
        missing,
    ),
    Rule(
        "a resource is named",
        "server/resources#reading-resources",
        ask("resources/read"),
        error(INVALID_PARAMS, HEADER_MISMATCH),
    ),
    Rule(
        "a URI is a text",
        "server/resources#reading-resources",
        ask("resources/read", uri=5),
        error(INVALID_PARAMS, HEADER_MISMATCH),
    ),
    Rule(
        "a resource may be watched",
        "server/resources#subscriptions",
        ask("resources/subscribe", uri="$://one"),
        result(lambda a: a == {}),
        HANDSHAKE,
    ),
    Rule(
        "a resource need not be watched",
        "server/resources#subscriptions",
        ask("resources/unsubscribe", uri="$://one"),
        result(lambda a: a == {}),
        HANDSHAKE,
    ),
    Rule(
        "what is watched is named",
        "server/resources#subscriptions",
        ask("resources/subscribe"),
        error(INVALID_PARAMS),
        HANDSHAKE,
    ),
    Rule(
        "a level is set",
        "server/utilities/logging#setting-log-level",
        ask("logging/setLevel", level="warning"),
        result(lambda a: a == {}),
        HANDSHAKE,
    ),
    Rule(
        "a level that there is not is refused",
        "server/utilities/logging#error-handling",
        ask("logging/setLevel", level="loud"),
        error(INVALID_PARAMS),
        HANDSHAKE,
    ),
    Rule(
        "an argument is completed",
        "server/utilities/completion",
        ask(
            "completion/complete",
            ref={"type": "ref/prompt", "name": "$-greet"},
            argument={"name": "whom", "value": "w"},
        ),
        result(lambda a: a["completion"]["values"] == ["world"]),
    ),
    Rule(
        "an unknown reference is refused",
        "server/utilities/completion#error-handling",
        ask("completion/complete", ref={"type": "ref/prompt", "name": "none"}, argument={"name": "x", "value": ""}),
        error(INVALID_PARAMS),
    ),
    Rule(
        "an unknown kind of reference is refused",
        "server/utilities/completion#error-handling",
        ask("completion/complete", ref={"type": "ref/new", "name": "x"}, argument={"name": "x", "value": ""}),
        error(INVALID_PARAMS),
    ),
    Rule(
        "what is completed is named", "server/utilities/completion", ask("completion/complete"), error(INVALID_PARAMS)
    ),
    Rule(
        "a client says what it wants to hear of",
        "server/subscriptions",
        ask("subscriptions/listen"),
        error(INVALID_PARAMS, status=400),
        (MODERN,),
    ),
]

RULES: Final = [*LIFECYCLE, *MESSAGES, *BATCHES, *ERAS, *HTTP, *FEATURES]
"""All of them."""
