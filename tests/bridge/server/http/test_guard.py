from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from gaia_bridge.errors import ConfigError, ListenError
from gaia_bridge.server.http.access_policy import AccessPolicy, check_exposure
from gaia_bridge.server.http.guard import HEALTH_PATH, Guard, Refusals
from gaia_bridge.server.transports.scope_keys import BODY_ARRIVED, SAME_HEAD
from gaia_bridge.settings import HttpLimits

pytestmark = pytest.mark.anyio

PORT = 8000
HOST = (b"host", b"127.0.0.1:8000")
JSON = (b"content-type", b"application/json")
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PAGE = "https://tool.example"
TOKEN = "vZ0q4Yt2cMZ1m3uXQ7aB9sLk5nWd8eRf"
LOOPBACK = AccessPolicy.for_address("127.0.0.1", PORT)
WITH_TOKEN = AccessPolicy.for_address("127.0.0.1", PORT, token=TOKEN)
WITH_PAGE = AccessPolicy.for_address("127.0.0.1", PORT, allow_origins=[PAGE, "vscode-webview://Abc"], token=TOKEN)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass
class Answer:
    """What came back, and whether the guarded application saw the request."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    body: bytes = b""
    reached: bool = False
    received: bytes = b""
    reads: int = 0

    @property
    def error(self) -> str:
        """The message of a refusal; anything but a JSON-RPC error fails, or one of OAuth where credentials matter."""
        refusal = cast("dict[str, Any]", json.loads(self.body))
        if self.status in (401, 404):
            assert refusal.keys() == {"error", "error_description"}
            return cast("str", refusal["error_description"])
        assert refusal.keys() == {"jsonrpc", "id", "error"}
        assert (refusal["jsonrpc"], refusal["id"], refusal["error"]["code"]) == ("2.0", None, -32600)
        return cast("str", refusal["error"]["message"])


async def ask(
    policy: AccessPolicy,
    headers: Headers,
    *,
    method: str = "GET",
    path: str = "/mcp",
    query: bytes = b"",
    body: Iterable[bytes] | None = None,
) -> Answer:
    """Send one request straight into the guard: no HTTP library between the test and the header bytes.

    Args:
        policy: The policy of the guard.
        headers: The headers, in lower case as ASGI has them.
        method: The method.
        path: The path.
        query: The query string.
        body: The chunks of the body; `None` is a body that never comes.
    """
    answer = Answer()
    chunks = list(body) if body is not None else []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answer.reached = True
        if method == "POST":
            message = await receive()
            assert not message["more_body"], "the guard hands over whole bodies"
            answer.received = message["body"]
        await JSONResponse({"ok": True})(scope, receive, send)

    async def receive() -> Message:
        answer.reads += 1
        if body is None:
            await anyio.sleep_forever()
        if not chunks:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = dict(message["headers"])
        else:
            answer.body += message.get("body", b"")

    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "scheme": "http",
        "headers": list(headers),
    }
    with anyio.fail_after(5):
        await Guard(app, policy)(scope, receive, send)
    return answer


async def post(policy: AccessPolicy, headers: Headers = (HOST, JSON), body: Iterable[bytes] | None = (PING,)) -> Answer:
    return await ask(policy, headers, method="POST", body=body)


@pytest.mark.requirement("S-2", "C-8", "C-22")
@pytest.mark.parametrize("host", [b"127.0.0.1:8000", b"localhost:8000", b"[::1]:8000", b"LOCALHOST:8000"])
async def test_the_loopback_names_with_the_bound_port_are_served(host: bytes) -> None:
    answer = await ask(LOOPBACK, [(b"host", host)])
    assert (answer.status, answer.reached) == (200, True)


FOREIGN_HOSTS = [
    b"evil.com",
    b"null",
    b"localhost",
    b"localhost:8001",
    b"localhost:80",
    b"localhost:08000",
    b"localhost.:8000",
    b"localhost.evil:80",
    b"localhost.evil.com:8000",
    b"127.0.0.1",
    b"127.0.0.1.",
    b"127.0.0.1.:8000",
    b"127.1:8000",
    b"0.0.0.0:8000",
    b"2130706433:8000",
    b"[::ffff:127.0.0.1]:8000",
    b"[0:0:0:0:0:0:0:1]:8000",
]

MALFORMED_HOSTS = [
    b"",
    b" ",
    b"localhost:",
    b"localhost:0",
    b"localhost:99999",
    b"localhost:080000",
    b"localhost:80:80",
    b"localhost:8000@evil.com",
    b"localhost:80@evil.com",
    b"user@localhost:8000",
    b"127.0.0.1:8000/",
    b"127.0.0.1/?",
    b"127.0.0.1:8000/?",
    b"127.0.0.1:8000#",
    b"127.0.0.1:8000,evil.com",
    b"127.0.0.1:8000 evil.com",
    b"127.0.0.1:8000\n",
    b"127.0.0.1:8000\x00",
    b"127.0.0.1:8000 ",
    b"::1:8000",
    b"[::1",
    b"[::1]8000",
    b"[::g]:8000",
    b"[fe80::1%25lo]:8000",
    b"http://127.0.0.1:8000",
    b"file://",
    b"localhost:\xd9\xa8\xd9\xa0",
    b"l\xc3\xb6calhost:8000",
    b"127.0.0.1:8000\\evil.com",
]


@pytest.mark.requirement("S-2", "C-8", "C-22", "C-31", "F-092")
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
async def test_a_host_that_is_not_served_is_misdirected(host: bytes) -> None:
    answer = await ask(LOOPBACK, [(b"host", host)])
    assert (answer.status, answer.reached) == (421, False)
    assert ascii(host.decode()) in answer.error
    assert "127.0.0.1:8000, [::1]:8000, localhost:8000" in answer.error
    assert "--allow-host" in answer.error


@pytest.mark.requirement("S-2", "C-31", "F-092")
@pytest.mark.parametrize("host", MALFORMED_HOSTS)
async def test_a_host_that_is_none_is_a_bad_request(host: bytes) -> None:
    answer = await ask(LOOPBACK, [(b"host", host)])
    assert (answer.status, answer.reached) == (400, False)
    assert "expected one of 127.0.0.1:8000" in answer.error


@pytest.mark.requirement("S-2", "F-095")
@pytest.mark.parametrize("headers", [[], [HOST, HOST], [HOST, (b"host", b"evil.com")], [(b"host", b"evil.com"), HOST]])
async def test_a_request_without_exactly_one_host_is_a_bad_request(headers: Headers) -> None:
    answer = await ask(LOOPBACK, headers)
    assert (answer.status, answer.reached) == (400, False)


@pytest.mark.requirement("S-2", "C-31")
@pytest.mark.parametrize("path", ["http://127.0.0.1:8000/health", "*", "evil.com:80", ""])
async def test_a_request_target_that_is_no_path_is_a_bad_request(path: str) -> None:
    answer = await ask(LOOPBACK, [HOST], path=path)
    assert (answer.status, answer.reached) == (400, False)
    assert "/PATH" in answer.error


hosts_near_the_list = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([*FOREIGN_HOSTS, *MALFORMED_HOSTS]),
    st.sampled_from([host.encode() for host in LOOPBACK.hosts]).flatmap(
        lambda host: st.one_of(
            st.just(host.upper()),
            st.binary(max_size=2).map(lambda junk: host + junk),
            st.binary(max_size=2).map(lambda junk: junk + host),
            st.integers(0, len(host)).map(lambda cut: host[:cut]),
        )
    ),
)


@pytest.mark.requirement("S-2")
@given(host=hosts_near_the_list)
def test_exactly_the_hosts_on_the_list_are_served(host: bytes) -> None:
    answer = anyio.run(ask, LOOPBACK, [(b"host", host)])
    assert answer.reached == (answer.status == 200) == (host.lower().decode("latin-1") in LOOPBACK.hosts)
    assert answer.status in (200, 400, 421)


@pytest.mark.requirement("S-1", "F-092")
@pytest.mark.parametrize("origin", [None, b"http://127.0.0.1:8000", b"http://localhost:8000", b"http://[::1]:8000"])
async def test_no_origin_and_our_own_pages_are_served(origin: bytes | None) -> None:
    headers = [HOST] if origin is None else [HOST, (b"origin", origin)]
    answer = await ask(LOOPBACK, headers)
    assert (answer.status, answer.reached) == (200, True)
    assert b"access-control-allow-origin" not in answer.headers


FOREIGN_ORIGINS = [
    b"",
    b"null",
    b"*",
    b"http://evil.com",
    b"http://localhost",
    b"http://localhost:80",
    b"http://localhost:8001",
    b"http://LOCALHOST:8000",
    b"HTTP://localhost:8000",
    b"https://localhost:8000",
    b"http://localhost:8000/",
    b"http://localhost:8000 ",
    b"http://localhost.evil.com",
    b"http://localhost.evil.com:8000",
    b"http://localhost:8000.evil.com",
    b"http://localhost:1@evil.com",
    b"http://localhost:8000@evil.com",
    b"http://localhost:8000, http://evil.com",
    b"http://127.1:8000",
    b"http://[::ffff:127.0.0.1]:8000",
    b"localhost:8000",
    b"file://",
    b"chrome-extension://x",
    b"vscode-webview://x",
    b"https://tool.example:444",
    b"https://tool.example.evil.com",
    b"http://tool.example",
]


@pytest.mark.requirement("S-1", "F-092")
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
async def test_a_page_of_another_origin_is_refused(origin: bytes) -> None:
    headers = [HOST, JSON, (b"origin", origin), (b"access-control-request-method", b"POST")]
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        answer = await ask(WITH_PAGE, headers, method=method, body=[PING])
        assert (answer.status, answer.reached, answer.reads) == (403, False, 0), method
        assert ascii(origin.decode()) in answer.error
        assert "--allow-origin" in answer.error
        assert b"access-control-allow-origin" not in answer.headers


@pytest.mark.requirement("S-1")
async def test_two_origins_are_refused_even_if_both_are_ours() -> None:
    origin = (b"origin", b"http://localhost:8000")
    assert (await ask(LOOPBACK, [HOST, origin, origin])).status == 403


@pytest.mark.requirement("S-1")
@given(origin=st.one_of(st.binary(max_size=40), st.sampled_from(FOREIGN_ORIGINS)))
def test_exactly_the_origins_on_the_list_are_served(origin: bytes) -> None:
    answer = anyio.run(ask, LOOPBACK, [HOST, (b"origin", origin)])
    assert answer.reached == (origin.decode("latin-1") in LOOPBACK.origins)


@pytest.mark.requirement("S-1", "F-092")
@pytest.mark.parametrize("origin", [b"https://tool.example", b"vscode-webview://Abc"])
async def test_an_allowed_page_may_read_the_answer(origin: bytes) -> None:
    headers = [HOST, (b"origin", origin), (b"authorization", f"Bearer {TOKEN}".encode())]
    answer = await ask(WITH_PAGE, headers)
    assert (answer.status, answer.reached) == (200, True)
    assert answer.headers[b"access-control-allow-origin"] == origin
    assert b"Mcp-Session-Id" in answer.headers[b"access-control-expose-headers"]
    assert answer.headers[b"vary"] == b"Origin"
    assert b"access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    ("credential", "came"),
    [
        (None, "No bearer token came"),
        (b"", "No bearer token came"),
        (b"Bearer", "No bearer token came"),
        (b"Bearer  ", "No bearer token came"),  # a variable that is not set, in a configuration
        (b"Basic eDp5", "No bearer token came"),
        (b"Bearer x", "Another token came"),
    ],
)
async def test_who_is_refused_is_told_whether_a_token_came(credential: bytes | None, came: str) -> None:
    headers = [HOST] if credential is None else [HOST, (b"authorization", credential)]
    answer = await ask(WITH_PAGE, headers)
    assert answer.status == 401
    assert came.encode() in answer.body


async def test_an_allowed_page_may_read_a_refusal() -> None:
    answer = await ask(WITH_PAGE, [HOST, (b"origin", PAGE.encode())])
    assert answer.status == 401
    assert answer.headers[b"access-control-allow-origin"] == PAGE.encode()
    assert answer.headers[b"www-authenticate"].startswith(b'Bearer realm="gaia-bridge"')


async def test_a_preflight_of_an_allowed_page_is_answered_without_the_token() -> None:
    wanted = (
        b"authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-param-city, mcp-protocol-version, "
        b"mcp-session-id"
    )
    headers = [
        HOST,
        (b"origin", PAGE.encode()),
        (b"access-control-request-method", b"POST"),
        (b"access-control-request-headers", wanted),
        (b"access-control-request-private-network", b"true"),
    ]
    answer = await ask(WITH_PAGE, headers, method="OPTIONS")
    assert (answer.status, answer.reached) == (200, False)
    assert answer.headers[b"access-control-allow-origin"] == PAGE.encode()
    assert answer.headers[b"access-control-allow-methods"] == b"GET, POST, DELETE"
    assert answer.headers[b"access-control-allow-headers"] == wanted
    assert answer.headers[b"access-control-allow-private-network"] == b"true"


async def test_a_preflight_for_another_method_is_refused() -> None:
    headers = [HOST, (b"origin", PAGE.encode()), (b"access-control-request-method", b"PUT")]
    assert (await ask(WITH_PAGE, headers, method="OPTIONS")).status == 400


@pytest.mark.requirement("S-2")
async def test_an_allowed_page_needs_an_allowed_host_as_well() -> None:
    headers = [(b"host", b"evil.com"), (b"origin", PAGE.encode())]
    answer = await ask(WITH_PAGE, headers)
    assert answer.status == 421
    assert b"access-control-allow-origin" not in answer.headers


async def test_headers_over_the_limit_are_refused() -> None:
    padding = [(b"x-padding-%d" % number, b"x" * 1000) for number in range(33)]
    answer = await ask(LOOPBACK, [HOST, *padding])
    assert (answer.status, answer.reached) == (431, False)
    assert "at most 32768" in answer.error


async def test_headers_up_to_the_limit_are_served() -> None:
    limit = HttpLimits(header_bytes=len(b"host: 127.0.0.1:8000\r\n"))
    assert (await ask(AccessPolicy.for_address("127.0.0.1", PORT, limits=limit), [HOST])).status == 200


@pytest.mark.requirement("S-3", "F-093")
@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
async def test_the_right_token_is_served(scheme: bytes) -> None:
    answer = await ask(WITH_TOKEN, [HOST, (b"authorization", scheme + b" " + TOKEN.encode())])
    assert (answer.status, answer.reached) == (200, True)


@pytest.mark.requirement("S-3", "F-093", "S-36")
@pytest.mark.parametrize(
    "values",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [TOKEN.encode()],
        [b"Bearer" + TOKEN.encode()],
        [b"Basic " + TOKEN.encode()],
        [b"Bearer " + TOKEN[:-1].encode()],
        [b"Bearer " + TOKEN.encode() + b"x"],
        [b"Bearer " + TOKEN.swapcase().encode()],
        [b"Bearer Bearer " + TOKEN.encode()],
        [b"Bearer \xff\xfe"],
        [b"Bearer " + b"x" * 30_000],
        [b"Bearer " + TOKEN.encode(), b"Bearer " + TOKEN.encode()],
        [b"Basic eDp5", b"Bearer " + TOKEN.encode()],
        [b"Bearer " + TOKEN.encode(), b"Basic eDp5"],
    ],
)
async def test_any_other_credential_is_refused_before_the_body(
    values: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = [HOST, JSON, *((b"authorization", value) for value in values)]
    answer = await post(WITH_TOKEN, headers)
    assert (answer.status, answer.reached, answer.reads) == (401, False, 0)
    assert answer.headers[b"www-authenticate"].startswith(b'Bearer realm="gaia-bridge"')
    assert "Authorization: Bearer TOKEN" in answer.error
    for leak in (answer.body.decode(), caplog.text):
        assert TOKEN not in leak
        assert "eDp5" not in leak


@pytest.mark.requirement("S-17", "F-093")
@pytest.mark.parametrize("name", ["access_token", "token", "Authorization"])
async def test_a_token_in_the_url_does_not_count(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await ask(WITH_TOKEN, [HOST], query=f"{name}={TOKEN}".encode())
    assert (answer.status, answer.reached) == (401, False)
    assert TOKEN not in caplog.text + answer.body.decode()


@pytest.mark.requirement("S-3", "C-30")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", HEALTH_PATH, 200),
        ("POST", HEALTH_PATH, 401),
        ("DELETE", HEALTH_PATH, 401),
        ("GET", "/", 401),
        ("GET", "/ready", 401),
        ("GET", "/mcp", 401),
        ("GET", "/sse", 401),
        ("GET", "/health/", 401),
        ("GET", "//health", 401),
        ("GET", "/HEALTH", 401),
        ("GET", "/mcp/../health", 401),
        ("GET", "/health/../mcp", 401),
        ("GET", "/health\x00", 401),
    ],
)
async def test_the_health_check_alone_needs_no_token(method: str, path: str, status: int) -> None:
    answer = await ask(WITH_TOKEN, [HOST, JSON], method=method, path=path, body=[PING])
    assert (answer.status, answer.reached) == (status, status == 200)


@pytest.mark.requirement("S-2", "C-8")
async def test_the_health_check_is_not_exempt_from_the_host_check() -> None:
    assert (await ask(WITH_TOKEN, [(b"host", b"evil.com")], path=HEALTH_PATH)).status == 421


@pytest.mark.parametrize("token", ["", " ", "two words", "line\nbreak", "ümlaut"])
def test_a_policy_with_an_unusable_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="bearer token.*--auth"):
        AccessPolicy.for_address("127.0.0.1", PORT, token=token)


@pytest.mark.requirement("S-36")
def test_the_policy_does_not_show_its_token() -> None:
    assert TOKEN not in repr(WITH_TOKEN)


@pytest.mark.requirement("F-092", "C-31")
@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"",
        b"text/plain",
        b"text/plain; application/json",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"application/jsonp",
        b"application/json-rpc",
        b"application/json, text/plain",
        b"application/json; charset=utf-16",
        b"application/json; charset=latin-1",
        b"application/json; charset=",
    ],
)
async def test_another_content_type_is_refused_unread(content_type: bytes | None) -> None:
    answer = await post(LOOPBACK, [HOST] if content_type is None else [HOST, (b"content-type", content_type)])
    assert (answer.status, answer.reached, answer.reads) == (415, False, 0)
    assert "expected application/json" in answer.error


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"Application/JSON",
        b"application/json ; charset=utf-8",
        b'application/json; Charset="UTF-8"',
        b"application/json; x=y; charset=utf8",
    ],
)
async def test_json_in_utf_8_is_served_with_any_parameters(content_type: bytes) -> None:
    assert (await post(LOOPBACK, [HOST, (b"content-type", content_type)])).received == PING


@pytest.mark.requirement("F-077")
@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"identity, gzip", b""])
async def test_a_compressed_body_is_refused_unread(encoding: bytes) -> None:
    answer = await post(LOOPBACK, [HOST, JSON, (b"content-encoding", encoding)])
    assert (answer.status, answer.reached, answer.reads) == (415, False, 0)


@pytest.mark.parametrize("name", [b"content-type", b"content-encoding", b"content-length"])
async def test_a_repeated_content_header_is_refused_unread(name: bytes) -> None:
    values = {b"content-type": b"application/json", b"content-encoding": b"identity", b"content-length": b"40"}
    headers = [HOST, *values.items(), (name, values[name])]
    answer = await post(LOOPBACK, headers)
    assert (answer.reached, answer.reads) == (False, 0)
    assert answer.status in (400, 415)
    assert "more than one" in answer.error


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("body_header", [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")])
async def test_a_body_is_checked_whatever_the_method(method: str, body_header: tuple[bytes, bytes]) -> None:
    answer = await ask(LOOPBACK, [HOST, (b"content-type", b"text/plain"), body_header], method=method)
    assert (answer.status, answer.reached, answer.reads) == (415, False, 0)


@pytest.mark.parametrize("headers", [[HOST], [HOST, (b"content-length", b"0")]])
async def test_a_request_without_a_body_is_not_held_up(headers: Headers) -> None:
    answer = await ask(LOOPBACK, headers, method="DELETE", body=None)
    assert (answer.status, answer.reads) == (200, 0)


SMALL = AccessPolicy.for_address("127.0.0.1", PORT, limits=HttpLimits(body_bytes=100))


async def test_a_body_in_pieces_reaches_the_application_whole() -> None:
    answer = await post(LOOPBACK, body=[PING[:3], b"", PING[3:9], PING[9:]])
    assert answer.received == PING


@pytest.mark.requirement("F-077")
async def test_a_body_of_exactly_the_limit_is_served() -> None:
    answer = await post(SMALL, [HOST, JSON, (b"content-length", b"100")], body=[b"x" * 60, b"x" * 40])
    assert answer.received == b"x" * 100


@pytest.mark.requirement("F-077")
@pytest.mark.parametrize("length", [b"101", b"4294967296", b"9" * 30, b"9" * 5000])
async def test_a_length_over_the_limit_is_refused_unread(length: bytes) -> None:
    answer = await post(SMALL, [HOST, JSON, (b"content-length", length)])
    assert (answer.status, answer.reached, answer.reads) == (413, False, 0)
    assert "more than 100 bytes" in answer.error


@pytest.mark.parametrize("length", [b"-1", b"+5", b"1_0", b"0x10", b"five", b"\xd9\xa5"])
async def test_a_length_that_is_no_number_is_a_bad_request(length: bytes) -> None:
    answer = await post(SMALL, [HOST, JSON, (b"content-length", length)])
    assert (answer.status, answer.reached, answer.reads) == (400, False, 0)


@pytest.mark.requirement("C-33", "F-095")
async def test_a_body_with_two_ways_to_end_is_a_bad_request() -> None:
    headers = [HOST, JSON, (b"content-length", b"5"), (b"transfer-encoding", b"chunked")]
    answer = await post(SMALL, headers)
    assert (answer.status, answer.reached, answer.reads) == (400, False, 0)
    assert "expected one of them" in answer.error


@pytest.mark.requirement("F-077")
@pytest.mark.parametrize("headers", [[HOST, JSON], [HOST, JSON, (b"content-length", b"5")]])
async def test_a_body_that_grows_over_the_limit_is_read_no_further(headers: Headers) -> None:
    answer = await post(SMALL, headers, body=[b"x" * 60] * 1000)
    assert (answer.status, answer.reached, answer.reads) == (413, False, 2)


@pytest.mark.requirement("F-091")
async def test_a_body_that_does_not_arrive_times_out() -> None:
    policy = AccessPolicy.for_address("127.0.0.1", PORT, limits=HttpLimits(body_timeout=0.01))
    answer = await post(policy, body=None)
    assert (answer.status, answer.reached) == (408, False)
    assert answer.headers[b"connection"] == b"close"
    assert "within 0.01 seconds" in answer.error


async def test_a_client_that_leaves_during_the_body_is_forgotten() -> None:
    answer = await post(LOOPBACK, body=[])
    assert (answer.status, answer.reached) == (0, False)


async def test_the_application_still_hears_of_a_disconnect_after_the_body() -> None:
    heard: list[str] = []
    messages: list[Message] = [
        {"type": "http.request", "body": PING, "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append((await receive())["type"])
        heard.append((await receive())["type"])

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError(f"nothing is to be sent, got {message}")

    scope: Scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [HOST, JSON]}
    await Guard(app, LOOPBACK)(scope, receive, send)
    assert heard == ["http.request", "http.disconnect"]


async def test_a_websocket_is_refused() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(dict(message))

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    await Guard(unreachable, LOOPBACK)({"type": "websocket", "path": "/mcp", "headers": [HOST]}, receive, send)
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1008)]


async def test_lifespan_events_pass_through() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    await Guard(app, LOOPBACK)({"type": "lifespan"}, silence, no_answer)
    assert seen == ["lifespan"]


async def test_an_unknown_kind_of_connection_does_not_reach_the_application() -> None:
    with pytest.raises(RuntimeError, match="telepathy"):
        await Guard(unreachable, LOOPBACK)({"type": "telepathy"}, silence, no_answer)


async def unreachable(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"the guard let {scope['type']} through")


async def silence() -> Message:
    raise AssertionError("nothing is to be read")


async def no_answer(message: Message) -> None:
    raise AssertionError(f"nothing is to be sent, got {message}")


@pytest.mark.requirement("F-113")
async def test_what_a_peer_sent_is_shown_escaped_and_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    host = b"evil.com\r\nX: \x1b[31m\xff" + b"x" * 10_000
    answer = await ask(LOOPBACK, [(b"host", host)], path="/a\nb")
    assert len(answer.body) < 500
    for text in (answer.error, caplog.messages[0]):
        assert text.isascii()
        assert text.isprintable()
        assert r"evil.com\r\nX: \x1b[31m\xff" in text
        assert "..." in text


async def test_an_http_client_gets_the_same_verdicts() -> None:
    """Through a real client library instead of hand-made scopes."""
    guard = Guard(JSONResponse({"ok": True}), WITH_TOKEN)
    url = f"http://127.0.0.1:{PORT}/mcp"
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guard)) as client:
        assert (await client.post(url, json={}, headers=bearer)).json() == {"ok": True}
        assert (await client.post(url, json={})).status_code == 401
        assert (await client.post(url, data={"a": "b"}, headers=bearer)).status_code == 415
        assert (await client.post(url, json={}, headers={**bearer, "Host": "evil.com"})).status_code == 421
        assert (await client.post(url, json={}, headers={**bearer, "Origin": "http://evil.com"})).status_code == 403
        assert (await client.get(f"http://localhost:{PORT}{HEALTH_PATH}")).status_code == 200


LOCAL = {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}


@pytest.mark.requirement("F-269")
@pytest.mark.parametrize(
    ("host", "port", "allow_hosts", "hosts"),
    [
        ("127.0.0.1", 8000, [], {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}),
        ("::1", 8000, [], {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}),
        ("LOCALHOST", 8000, [], {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}),
        ("127.0.0.2", 8000, [], {"127.0.0.1:8000", "localhost:8000", "[::1]:8000", "127.0.0.2:8000"}),
        (
            "127.0.0.1",
            80,
            [],
            {"127.0.0.1", "localhost", "[::1]", "127.0.0.1:80", "localhost:80", "[::1]:80"},
        ),
        ("0.0.0.0", 8000, ["Bridge.example"], LOCAL | {"bridge.example", "bridge.example:8000"}),
        ("0.0.0.0", 8000, ["bridge.example:9000"], LOCAL | {"bridge.example:9000"}),
        ("0.0.0.0", 8000, ["bridge.example:443"], LOCAL | {"bridge.example:443", "bridge.example"}),
        ("::", 8000, ["fd00::1", "[fd00::2]:9000"], LOCAL | {"[fd00::1]", "[fd00::1]:8000", "[fd00::2]:9000"}),
        ("192.168.1.5", 8000, ["192.168.1.5"], {"192.168.1.5", "192.168.1.5:8000"}),
    ],
)
def test_the_accepted_hosts_follow_from_the_address(
    host: str, port: int, allow_hosts: list[str], hosts: set[str]
) -> None:
    assert AccessPolicy.for_address(host, port, allow_hosts=allow_hosts, token=TOKEN).hosts == hosts


def test_our_own_pages_are_accepted_origins_in_the_form_that_browsers_send() -> None:
    policy = AccessPolicy.for_address("127.0.0.1", 80)
    assert policy.origins == {"http://127.0.0.1", "http://localhost", "http://[::1]"}
    assert policy.cross_origins == frozenset()


@pytest.mark.parametrize(
    ("given_origin", "origin"),
    [
        ("https://tool.example", "https://tool.example"),
        ("HTTPS://Tool.Example:443", "https://tool.example"),
        ("http://tool.example:443", "http://tool.example:443"),
        ("vscode-webview://Abc", "vscode-webview://Abc"),
        ("https://[fd00::1]:8443", "https://[fd00::1]:8443"),
    ],
)
def test_an_allowed_origin_is_kept_in_the_form_that_browsers_send(given_origin: str, origin: str) -> None:
    policy = AccessPolicy.for_address("127.0.0.1", PORT, allow_origins=[given_origin])
    assert policy.cross_origins == {origin}
    assert origin in policy.origins


@pytest.mark.requirement("S-1")
@pytest.mark.parametrize(
    "origin",
    ["*", "null", "", "tool.example", "https://", "https://*", "https://a/", "https://a/b", "file://", "a b://c"],
)
def test_an_allowed_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="--allow-origin.*is not an origin"):
        AccessPolicy.for_address("127.0.0.1", PORT, allow_origins=[origin])


@pytest.mark.requirement("S-2")
@pytest.mark.parametrize(
    "host", ["*", "", "*.example", "http://a", "a/b", "a:b", "a:0", "a:70000", "user@a", "[::1", "b c"]
)
def test_an_allowed_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="--allow-host.*is not a host"):
        AccessPolicy.for_address("127.0.0.1", PORT, allow_hosts=[host])


@pytest.mark.requirement("S-2", "C-22", "P-9")
@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.168.1.5", "fd00::1", "bridge.example", "127.1", "localhost.evil"]
)
@pytest.mark.parametrize(
    ("token", "allow_hosts", "missing"),
    [
        (None, [], "--auth and --allow-host NAME"),
        (None, ["bridge.example"], "--auth"),
        (TOKEN, [], "--allow-host NAME"),
        ("", [], "--auth and --allow-host NAME"),
    ],
)
def test_a_reachable_address_needs_a_token_and_explicit_hosts(
    host: str, token: str | None, allow_hosts: list[str], missing: str
) -> None:
    with pytest.raises(ListenError) as refused:
        check_exposure(host, allow_hosts, token)
    assert refused.value.hint == f"add {missing}, or listen on 127.0.0.1"
    with pytest.raises(ListenError):
        AccessPolicy.for_address(host, PORT, allow_hosts=allow_hosts, token=token)


@pytest.mark.requirement("S-2", "P-9")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost"])
def test_a_loopback_address_needs_neither(host: str) -> None:
    check_exposure(host, [], None)


def test_a_reachable_address_with_a_token_and_explicit_hosts_is_accepted() -> None:
    policy = AccessPolicy.for_address("0.0.0.0", PORT, allow_hosts=["bridge.example"], token=TOKEN)
    assert policy.token.text == TOKEN


async def test_a_head_that_was_accepted_is_not_judged_again_and_one_that_was_refused_is_not_remembered() -> None:
    reached: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append((await receive())["body"])

    async def receive() -> Message:
        return {"type": "http.request", "body": PING, "more_body": False}

    async def send(message: Message) -> None:
        pass

    guard = Guard(app, WITH_TOKEN)
    bearer = (b"authorization", b"Bearer " + TOKEN.encode())
    for credential, remembered in ((b"authorization", b"Bearer wrong"), False), (bearer, True):
        found: dict[object, Any] = {}
        scope: Scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [HOST, JSON, credential]}
        for _ in range(2):
            await guard({**scope, "extensions": {SAME_HEAD: found, BODY_ARRIVED: {}}}, receive, send)
        assert bool(found) is remembered
    assert reached == [PING, PING]


async def test_an_allowed_page_may_read_every_answer_on_a_connection_that_it_keeps() -> None:
    told: list[bytes | None] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            told.append(dict(message["headers"]).get(b"access-control-allow-origin"))

    guard = Guard(JSONResponse({"ok": True}), WITH_PAGE)
    same: dict[object, Any] = {}
    headers = [HOST, (b"origin", PAGE.encode()), (b"authorization", b"Bearer " + TOKEN.encode())]
    scope: Scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": headers}
    for _ in range(3):
        await guard({**scope, "extensions": {SAME_HEAD: same}}, silence, send)
    assert told == [PAGE.encode()] * 3


async def test_a_token_that_was_exchanged_is_refused_on_a_connection_that_used_it_before() -> None:
    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    policy = AccessPolicy.for_address("127.0.0.1", PORT, token=TOKEN)
    guard = Guard(JSONResponse({"ok": True}), policy)
    same: dict[object, Any] = {}
    headers = [HOST, (b"authorization", b"Bearer " + TOKEN.encode())]
    scope: Scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": headers}
    for _ in range(2):
        await guard({**scope, "extensions": {SAME_HEAD: same}}, silence, send)
        policy.token.text = TOKEN[::-1]
    assert statuses == [200, 401]


async def test_a_body_that_has_arrived_is_as_small_as_any() -> None:
    answered: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 11, "more_body": False}

    async def send(message: Message) -> None:
        answered.append(message.get("status", 0))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("it was let through")

    policy = AccessPolicy.for_address("127.0.0.1", PORT, limits=HttpLimits(body_bytes=10))
    scope: Scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [HOST, JSON]}
    await Guard(app, policy)({**scope, "extensions": {BODY_ARRIVED: {}}}, receive, send)
    assert answered[0] == 413


@pytest.mark.requirement("F-204")
def test_the_first_refusals_are_told_and_of_the_others_how_many(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    refusals = Refusals(HttpLimits(refusals=2, refusal_window=0.2))
    for status in (403, 421, 403, 401, 403):
        refusals.tell("GET", "/mcp", status, "why")
    [timer] = [thread for thread in threading.enumerate() if thread.name == "gaia-refusals"]
    timer.join(10)
    assert caplog.messages == [
        "refused GET /mcp with 403: why",
        "refused GET /mcp with 421: why",
        "refused 3 more requests within 0.2 s: 1 with 401, 2 with 403",
    ]
    refusals.tell("GET", "/mcp", 404, "why")
    assert caplog.messages[3:] == ["refused GET /mcp with 404: why"]


@pytest.mark.requirement("F-204")
def test_few_refusals_cost_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    refusals = Refusals(HttpLimits(refusals=2, refusal_window=3600))
    before = threading.active_count()
    for _ in range(2):
        refusals.tell("GET", "/mcp", 403, "why")
    assert (len(caplog.messages), threading.active_count()) == (2, before)
