"""The guard in front of every HTTP route: checks host, origin, credential and size of each request.

Every route of every transport is behind the one `Guard`, so that the same request gets the same verdict everywhere.
No byte of a body is read before the headers are accepted. The checks, in order:

    target         a path                                        400   RFC 9112 section 3.2
    proxy          none, unless proxies are configured           421   others get in by it
    Host           exactly one, well-formed / on the list        400 / 421   DNS rebinding
    Origin         absent, or exactly one on the list            403
    header size    at most `HttpLimits.header_bytes`             431
    preflight      answered, for allowed cross origins only      200
    credential     `Authorization: Bearer`, if there is a token  401
    content        application/json in UTF-8, not compressed     415
    body           at most `HttpLimits.body_bytes`, in time      413, 408

A refusal has the form that the clients of its path expect: that of OpenAI's API below `/v1/`, of JSON-RPC elsewhere,
and of OAuth if it is about credentials.

A verdict rests on `scope["path"]`, `scope["method"]` and header bytes alone, never on a URL that was put together from
them. Accepted values are compared with precomputed ones; parsing serves only to explain a refusal.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaia_bridge.server.http.access_policy import AccessPolicy, quoted, split_authority
from gaia_bridge.server.http.error_bodies import CHAT_PREFIX, body_for
from gaia_bridge.server.http.proxies import Forwarded
from gaia_bridge.server.http.request_heads import TWO_LENGTHS
from gaia_bridge.server.transports.scope_keys import ADMITTED, BODY_ARRIVED, PARSED, SAME_HEAD, TAKES_OVER, WHOLE_BODY
from gaia_bridge.settings import HttpLimits

if TYPE_CHECKING:
    from gaia_bridge.server.http.cross_origin import CrossOrigin

HEALTH_PATH = "/health"
"""The only path that `GET` may read without the token: a supervisor has no token, and learns only that we run."""
EXPOSED_HEADERS = ("Mcp-Session-Id", "Retry-After", "WWW-Authenticate", "X-Request-Id", "X-Session-Id")
"""Response headers that a script on an allowed page may read."""
WATCHED_HEADERS = frozenset(
    b"authorization content-encoding content-length content-type host origin transfer-encoding".split()
)
REPEATED = b"more than one"
"""The value of a watched header that came more than once: no check accepts it, and messages show it clearly."""
_FORWARDING = (b"forwarded", b"via", b"x-forwarded-", b"x-real-ip")
"""The beginnings of the headers that proxies and tunnels add. No client sends them by itself."""
_REGISTER = "/register"
_WELL_KNOWN = "/.well-known/"
_REMEDY = "The token is in ~/.gaia/bridge-token of whoever runs `gaia-bridge serve`; other programs have their own."
REQUEST_ID = "gaia_bridge.request_id"
"""The key of a scope for its JSON-RPC request id, once that was read."""

logger = logging.getLogger(__name__)


def bearer_token(authorization: bytes) -> bytes:
    """Return the token that an `Authorization` header carries; empty if it carries none."""
    scheme, _, credential = authorization.partition(b" ")
    return credential.strip(b" ") if scheme.lower() == b"bearer" else b""


class Guard:
    """ASGI middleware that passes on requests that the policy accepts, and answers all others itself.

    It is around the whole application, so that no route can be forgotten.
    """

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy
        self._limits = policy.limits
        self._refusals = Refusals(policy.limits)
        self._hosts = frozenset(host.encode() for host in policy.hosts)
        self._origins = frozenset(origin.encode() for origin in policy.origins)
        self._cross_origins = frozenset(origin.encode() for origin in policy.cross_origins)
        self._token = policy.token
        self._realm = _quoted_string(str(policy.public or "gaia-bridge"))
        self._cross_origin: CrossOrigin | None = None
        if policy.cross_origins:
            from gaia_bridge.server.http.cross_origin import CrossOrigin

            self._cross_origin = CrossOrigin(app, policy.cross_origins, EXPOSED_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or forward one ASGI connection."""
        if scope["type"] != "http":
            await self._handle_other(scope, receive, send)
            return
        extensions: Mapping[str, Any] = scope.get("extensions") or {}
        facts: dict[object, Any] = extensions.get(SAME_HEAD, {})
        accepted: _AcceptedHead | None = facts[self] if self in facts else None
        # The same head was accepted before, with its Content-Length, and its answer needs no CORS headers.
        if accepted is not None and (TAKES_OVER in extensions or accepted.token == self._token.text):
            if accepted.changes:
                scope = {**scope, **accepted.changes}
            if WHOLE_BODY in extensions or PARSED in extensions:
                await self._app(scope, receive, send)
            else:
                await self._forward(accepted.head, scope, receive, send)
            return
        head = _scan(scope)
        forwarded = self._policy.proxies.of(scope, head.forwarding)
        if forwarded.changes:
            scope = {**scope, **forwarded.changes}
        refusal = self._check_caller(scope, head, forwarded)
        if refusal is None and self._cross_origin and head.values.get(b"origin") in self._cross_origins:
            preflight = self._cross_origin.preflight(scope)
            if preflight is not None:
                # A preflight cannot carry the token, so it is answered before the token is checked.
                await preflight(scope, receive, send)
                return
            send = self._cross_origin.sending(scope, send)
            facts = {}
        refusal = refusal or self._check_token(scope, head) or self._check_content(head)
        if refusal is not None:
            await self._refuse(scope, send, refusal)
        else:
            facts[self] = accepted = _AcceptedHead(head, self._token.text, forwarded.changes)
            facts[ADMITTED] = partial(self._still_admits, accepted)
            await self._forward(head, scope, receive, send)

    def _still_admits(self, accepted: _AcceptedHead) -> bool:
        """Return whether an accepted head would be accepted again."""
        return accepted.token == self._token.text

    async def _forward(self, head: _Head, scope: Scope, receive: Receive, send: Send) -> None:
        if not head.has_body:
            await self._app(scope, receive, send)
            return
        has_arrived = BODY_ARRIVED in (scope.get("extensions") or ())
        body = await (self._whole_body(receive) if has_arrived else self._read_body(receive))
        if isinstance(body, _Refusal):
            await self._refuse(scope, send, body)
        elif body is not None:
            await self._app(scope, replaying(body, receive), send)

    async def _refuse(self, scope: Scope, send: Send, refusal: _Refusal) -> None:
        self._refusals.tell(scope["method"], quoted(scope["path"]), refusal.status, refusal.message)
        body = body_for(scope["path"], refusal.status, refusal.message)
        if refusal.error and not scope["path"].startswith(CHAT_PREFIX):
            body = json.dumps({"error": refusal.error, "error_description": refusal.message}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *refusal.headers,
        ]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _handle_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            # No MCP transport uses one, and a browser sends it without a preflight. 1008: policy violation.
            await send({"type": "websocket.close", "code": 1008, "reason": "WebSockets are not served here"})
        else:
            raise RuntimeError(f"the guard does not know ASGI connections of type {scope['type']!r}")

    def _check_caller(self, scope: Scope, head: _Head, forwarded: Forwarded) -> _Refusal | None:
        if not scope["path"].startswith("/"):
            return _Refusal(400, f"The request target {quoted(scope['path'])} is not a path; expected /PATH.")
        if self._policy.only_direct and (sign := _sign_of_proxy(scope, head)):
            return self._refuse_proxy(sign)
        host = head.values.get(b"host", b"") if forwarded.host is None else forwarded.host
        is_known = host in self._hosts or host.lower() in self._hosts
        if not is_known and not self._policy.accepts_host(host):
            return self._refuse_host(host)
        origin = head.values.get(b"origin")
        if origin is not None and origin not in self._origins and not self._is_own_page(host, origin):
            option = "start it with --allow-origin and that origin"
            cure = "add it to origins=" if self._policy.served_elsewhere else option
            problem = f"Web pages of the origin {quoted(origin)} may not call this server."
            return _Refusal(403, f"{problem} If they should, {cure}, spelled exactly so.")
        if head.size > self._limits.header_bytes:
            return _Refusal(431, f"{head.size} bytes of headers came; expected at most {self._limits.header_bytes}.")
        return None

    def _is_own_page(self, host: bytes, origin: bytes) -> bool:
        """Return whether a page comes from the very host that it calls; always `False` where we listen ourselves."""
        pages = b"http://" + host.lower(), b"https://" + host.lower()
        return self._policy.served_elsewhere and origin.lower() in pages

    def _refuse_proxy(self, sign: str) -> _Refusal:
        cure = (
            "Give public_url= and token=, and proxies= unless the proxy is on this machine."
            if self._policy.served_elsewhere
            else "Start it with --public-url and the address that clients use, and with --trust-proxy and the address "
            "of the proxy unless that is on this machine: it then asks for a token."
        )
        return _Refusal(
            421,
            f"This request came by way of a proxy or a tunnel ({sign}), of which this bridge was not told: whoever "
            f"reaches that could call it. {cure} See docs/serve.md, Behind a proxy.",
        )

    def _refuse_host(self, host: bytes) -> _Refusal:
        policy = self._policy
        expected = ", ".join(sorted((*policy.hosts, *(f"{name}:*" for name in policy.any_port))))
        try:
            split_authority(host.decode("latin-1"))
        except ValueError:
            return _Refusal(400, f"Host: {quoted(host)} came; expected one of {expected}.")
        cure = "add it to hosts=" if policy.served_elsewhere else "start the server with --allow-host for that name"
        problem = f"The host {quoted(host)} is not served here; expected {expected}."
        return _Refusal(421, f"{problem} Use one of these in the URL, or {cure}.")

    def _check_token(self, scope: Scope, head: _Head) -> _Refusal | None:
        token, path = self._token.text, scope["path"]
        if token is None or (path == HEALTH_PATH and scope["method"] == "GET"):
            return None
        credential = bearer_token(head.values.get(b"authorization", b""))
        if hmac.compare_digest(credential, token.encode()):
            return None
        if path == _REGISTER or _WELL_KNOWN in path:  # a client looks whether somebody gives out tokens
            problem = f"There is no login here: clients send a token that they were given. {_REMEDY}"
            return _Refusal(404, problem, error="invalid_request")
        came = "Another token" if credential else "No bearer token"
        message = f"{came} came; expected exactly one, 'Authorization: Bearer TOKEN' (one in the URL does not count)."
        challenge = f"Bearer realm={self._realm}"
        if credential:
            challenge += f', error="invalid_token", error_description={_quoted_string(came + " came")}'
        error = "invalid_token" if credential else "invalid_request"
        return _Refusal(401, f"{message} {_REMEDY}", ((b"www-authenticate", challenge.encode()),), error)

    def _check_content(self, head: _Head) -> _Refusal | None:
        if not head.has_body:
            return None
        content_type = head.values.get(b"content-type", b"")
        if content_type != b"application/json" and not _is_utf8_json(content_type):
            return _Refusal(415, f"Content-Type: {quoted(content_type)} came; expected application/json, in UTF-8.")
        encoding = head.values.get(b"content-encoding", b"identity")
        if encoding.lower() != b"identity":
            return _Refusal(415, f"Content-Encoding: {quoted(encoding)} came; expected none: send the body as it is.")
        length = head.values.get(b"content-length", b"0")
        if b"transfer-encoding" in head.values and b"content-length" in head.values:
            return _Refusal(400, TWO_LENGTHS)
        if not length.isdigit():
            return _Refusal(400, f"Content-Length: {quoted(length)} came; expected a number of bytes.")
        # The count of digits first: Python refuses to convert very long numbers.
        if len(length) > 19 or int(length) > self._limits.body_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> _Refusal:
        return _Refusal(413, f"The body has more than {self._limits.body_bytes} bytes. Send less at once.")

    async def _whole_body(self, receive: Receive) -> Message | _Refusal | None:
        """Return the same as `_read_body`, for a body that has arrived already."""
        message = await receive()
        if message["type"] != "http.request":
            return None
        return message if len(message["body"]) <= self._limits.body_bytes else self._too_large()

    async def _read_body(self, receive: Receive) -> Message | _Refusal | None:
        """Return the whole body as one message, a refusal, or `None` if the client left meanwhile."""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    chunk: bytes = message.get("body", b"")
                    size += len(chunk)
                    if size > self._limits.body_bytes:
                        return self._too_large()
                    if not message.get("more_body", False):
                        break
                    chunks.append(chunk)
        except TimeoutError:
            seconds = self._limits.body_timeout
            problem = f"The body did not arrive within {seconds:g} seconds; {size} bytes came. Send it again."
            return _Refusal(408, problem, ((b"connection", b"close"),))
        return {"type": "http.request", "body": b"".join((*chunks, chunk)) if chunks else chunk, "more_body": False}


class _Head(NamedTuple):
    """The facts that one pass over the headers of a request collects."""

    size: int
    values: dict[bytes, bytes]
    has_body: bool
    forwarding: dict[bytes, list[bytes]]
    """The headers of proxies, by their names."""


class _AcceptedHead(NamedTuple):
    """A head that was accepted."""

    head: _Head
    token: str | None
    """The token that clients needed at that time."""
    changes: Mapping[str, Any]


class _Refusal(NamedTuple):
    """A refusal of a request: status, message and headers."""

    status: int
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    error: str = ""
    """The OAuth error code, if the refusal is about credentials."""


def _sign_of_proxy(scope: Scope, head: _Head) -> str:
    """Return the sign that a request was passed on by a proxy; empty if there is none."""
    if head.forwarding:
        return ", ".join(sorted(name.decode("latin-1") for name in head.forwarding))
    # nginx adds no header by default, but speaks HTTP/1.0 then, which no client of ours speaks.
    is_old = scope.get("http_version") == "1.0" and (scope["path"], scope["method"]) != (HEALTH_PATH, "GET")
    return "HTTP/1.0" if is_old else ""


def _quoted_string(text: str) -> str:
    """Return a value of a header field, as RFC 9110 quotes it, section 5.6.4. It has printable ASCII only."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _scan(scope: Scope) -> _Head:
    size = 0
    values: dict[bytes, bytes] = {}
    forwarding: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        size += len(name) + len(value) + 4  # ": " and the line end
        if name in WATCHED_HEADERS:
            values[name] = REPEATED if name in values else value
        elif name.startswith(_FORWARDING):
            forwarding.setdefault(name, []).append(value)
    # A body can come with any method. Every POST is treated as having one, so that none skips the content type.
    has_body = (
        scope["method"] == "POST"
        or b"transfer-encoding" in values
        or values.get(b"content-length", b"").strip(b"0") != b""
    )
    return _Head(size, values, has_body, forwarding)


def replaying(body: Message, receive: Receive) -> Receive:
    """Return a `receive` that yields the body that was already read, and then the later messages."""
    pending: list[Message] = [body]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _is_utf8_json(content_type: bytes) -> bool:
    """Return whether a `Content-Type` is application/json without another charset (RFC 8259: UTF-8 only)."""
    media_type, *parameters = content_type.lower().split(b";")
    if media_type.strip() != b"application/json":
        return False
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"charset" and value.strip(b' \t"') not in (b"utf-8", b"utf8"):
            return False
    return True


class Refusals:
    """Logs the first refusals of each minute one by one, and counts the others."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._shown = 0
        self._began = float("-inf")
        self._unshown: Counter[int] = Counter()
        self._window: threading.Timer | None = None

    def tell(self, method: str, path: str, status: int, message: str) -> None:
        """Log a refusal, or count it. The path is fit to be shown."""
        if not self._counts(status):
            logger.info("refused %s %s with %d: %s", method, path, status, message)

    def _counts(self, status: int) -> bool:
        now = time.monotonic()
        with self._lock:
            if self._window is None and now - self._began > self._limits.refusal_window:
                self._began, self._shown = now, 0
            if self._shown < self._limits.refusals:
                self._shown += 1
                return False
            self._unshown[status] += 1
            if self._window is None:
                self._window = threading.Timer(self._began + self._limits.refusal_window - now, self._end)
                self._window.name = "gaia-refusals"
                self._window.daemon = True
                self._window.start()
            return True

    def _end(self) -> None:
        with self._lock:
            unshown, self._unshown = self._unshown, Counter()
            self._window = None
        which = ", ".join(f"{count} with {status}" for status, count in sorted(unshown.items()))
        logger.info("refused %d more requests within %g s: %s", unshown.total(), self._limits.refusal_window, which)
