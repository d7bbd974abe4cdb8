"""Requests to one model server through the `openai` library, bounded in time and size.

The library builds and sends requests and pools connections. What comes back is read here: it reads answers that say no
without a bound, and drops what it does not expect.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio

from gaia.llm.failures import Refusal, Report, error_in
from gaia.llm.limits import ModelLimits
from gaia.llm.settings import Place
from gaia_bridge.client.transport import LaunchError
from gaia_bridge.client.transports.http.sse_parser import EventReader, OversizedEventError, ServerSentEvent
from gaia_bridge.client.transports.http.tls import verifying_context
from gaia_bridge.config.proxies import Proxy, ProxyAddressError, proxy_for
from gaia_bridge.errors import ModelError
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import is_loopback_host

__all__ = ["BrokenBeforeAnswerError", "Patience", "Wire", "load_library"]

T = TypeVar("T")

_OWN_FIELDS = frozenset({"model", "messages", "stream"})
"""Named arguments of the library's method; everything else is sent as it is."""

_DECODABLE = frozenset({"", "identity", "gzip", "deflate"})
"""Encodings of an answer that are taken although none is asked for. One that is packed several times, or in a format
with no bound on how much a little becomes, would be unpacked before its size can be looked at."""


class _NothingFollowsError(Exception):
    """The model has said all, and nothing came after it."""


class _BrokenAnswerError(Exception):
    """The connection broke in the middle of an answer."""


class BrokenBeforeAnswerError(Exception):
    """The connection broke before the server answered: the request may be sent again."""


class Patience:
    """Waits for one reply, and no longer than the limits say; the time in which nobody waits does not count.

    Args:
        report: Makes the errors.
        limits: See there.
    """

    def __init__(self, report: Report, limits: ModelLimits) -> None:
        self.has_begun = False
        """Whether the model has begun, so that the next word has to come sooner."""
        self.has_finished = False
        """Whether it has said all, so that nothing needs to follow."""
        self._report = report
        self._limits = limits
        self._spent = 0.0

    async def wait(self, function: Callable[[], Awaitable[T]]) -> T:
        """Wait for something of the server.

        Raises:
            ModelError: It did not come in time.
        """
        setting, allowed = self._allowed()
        started = anyio.current_time()
        try:
            with anyio.fail_after(max(0.0, allowed)):
                return await function()
        except TimeoutError:
            if self.has_finished:
                raise _NothingFollowsError from None
            raise self._report.silent(getattr(self._limits, setting), setting) from None
        finally:
            self._spent += anyio.current_time() - started

    def _allowed(self) -> tuple[str, float]:
        """Return the limit that counts now, and the seconds that it leaves."""
        limits = self._limits
        if self.has_finished:
            return "ending", limits.ending
        left = limits.total - self._spent
        next_word = limits.between if self.has_begun else limits.first - self._spent
        return ("total", left) if left < next_word else ("between" if self.has_begun else "first", next_word)


class Wire:
    """One server, and the connections to it.

    Args:
        place: Where it is.
        limits: See there.

    Raises:
        ModelError: The `openai` library is not installed.
    """

    def __init__(self, place: Place, limits: ModelLimits) -> None:
        openai = _library()
        self.place = place
        self._limits = limits
        self._library = openai
        self._headers = self._left_out(openai)
        proxy = _proxy_to(place.url)
        way = {"proxy": proxy.url} if proxy is not None else _direct_way_to(place.url)
        self._by = "" if proxy is None else f", by way of the proxy {proxy} that {proxy.named_by} names"
        timeout = openai.Timeout(limits.total, connect=limits.connect)
        self._http = openai.DefaultAsyncHttpxClient(
            timeout=timeout,
            follow_redirects=False,  # a redirected POST is a GET; whoever moved can be told the new address
            **way,
            event_hooks={"response": [self._check]},
        )
        self._client = openai.AsyncOpenAI(
            api_key=place.key or "none",
            base_url=place.url,
            timeout=timeout,
            max_retries=0,
            http_client=self._http,
            default_headers={"Accept-Encoding": "identity"},  # so that little cannot become much
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def models(self, seconds: float) -> list[JSON]:
        """Return the server's models, as it lists them.

        Raises:
            ModelError: It does not say.
        """
        report = Report(self.place)
        try:
            with anyio.fail_after(seconds):
                listed = await self._models(report)
        except TimeoutError:
            raise report.silent(seconds, "models") from None
        except Refusal as refusal:
            raise report.failure(refusal, path="/models") from None
        except BrokenBeforeAnswerError as error:
            raise report.unreachable(str(error)) from None
        except _BrokenAnswerError as error:
            raise report.broken(str(error)) from None
        return listed

    async def _models(self, report: Report) -> list[JSON]:
        listing = self._client.models.with_streaming_response.list(extra_headers=self._headers)
        async with self._translated(report), listing as response:
            body = bytearray()
            async with aclosing(_bytes_of(response)) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > self._limits.models_bytes:
                        raise report.oversized("bytes in a list of models", self._limits.models_bytes, "models_bytes")
            answer = _parsed(body.decode("utf-8", "replace"))
            if refusal := error_in(answer):
                raise refusal
            data = answer.get("data") if is_object(answer) else None
            if not is_array(data):
                raise report.no_model_server("its /models is no list of models")
            return [item for item in data if is_object(item)]

    async def answers(self, body: Mapping[str, Any], patience: Patience, report: Report) -> AsyncGenerator[JSON]:
        """Ask for a reply; gives the chunks of a stream, or a whole answer as the only one.

        Args:
            body: The request, in OpenAI's words.
            patience: How long to wait.
            report: Makes the errors.

        Raises:
            Refusal: The server said no.
            BrokenBeforeAnswerError: The connection broke before it said anything.
            ModelError: What came is not usable.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._translated(report))
            response = await patience.wait(lambda: stack.enter_async_context(self._send(body)))
            async with aclosing(_bytes_of(response)) as chunks:
                reader = _Reader(chunks, patience, report, self._limits)
                async with aclosing(_contents(reader, report, self._limits)) as contents:
                    async for item in contents:
                        yield item

    def _send(self, body: Mapping[str, Any]) -> Any:
        own = {name: value for name, value in body.items() if name in _OWN_FIELDS}
        more = {name: value for name, value in body.items() if name not in _OWN_FIELDS}
        completions: Any = self._client.chat.completions
        return completions.with_streaming_response.create(**own, extra_body=more, extra_headers=self._headers)

    def _left_out(self, openai: Any) -> dict[str, Any]:
        """Return headers that make the library leave out its own ones which are not for this server."""
        names = [] if self.place.key else ["Authorization"]
        if self.place.server is None or self.place.server.name != "openai":
            names += ["OpenAI-Organization", "OpenAI-Project"]
        return {name: openai.Omit() for name in names}

    async def _check(self, response: Any) -> None:
        """Refuse errors, and encodings that were not asked for; the library calls this before it reads an answer."""
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in _DECODABLE:
            raise Refusal(response.status_code, f"its answer is encoded as {encoding!r:.40}, though none was asked for")
        if response.status_code < 300:
            return
        body = bytearray()
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > self._limits.error_bytes:
                    break
        text = bytes(body[: self._limits.error_bytes]).decode("utf-8", "replace")
        raise Refusal(response.status_code, text, {name.lower(): value for name, value in response.headers.items()})

    @asynccontextmanager
    async def _translated(self, report: Report) -> AsyncGenerator[None]:
        """Translate the library's errors in the block into ours."""
        try:
            yield
        except self._library.APITimeoutError as error:
            raise report.unreachable(f"{_reason(error) or 'no connection in time'}{self._by}") from None
        except self._library.APIConnectionError as error:
            if isinstance(error.__cause__, Refusal):
                raise error.__cause__ from None  # version 2 of the library takes it for a broken connection
            if type(error.__cause__).__name__ == "ConnectError":
                raise report.unreachable(f"{_reason(error)}{self._by}") from None
            raise BrokenBeforeAnswerError(f"{_reason(error)}{self._by}") from None
        except self._library.OpenAIError as error:
            raise ModelError(f"The openai library could not send the request: {type(error).__name__}.") from error


def _proxy_to(url: str) -> Proxy | None:
    """Return the proxy on the way to a model server, chosen as for all our requests; `None` if there is none."""
    parts = urlsplit(url)
    try:
        port = parts.port or {"http": 80}.get(parts.scheme, 443)
        return proxy_for(parts.scheme, parts.hostname or "", port, None, os.environ)
    except ProxyAddressError as error:
        raise ModelError(f"The model server cannot be reached: {error}.") from None
    except ValueError:  # of the URL, of which the library says more
        return None


def _direct_way_to(url: str) -> dict[str, Any]:
    """Return options that keep the library from looking for proxies in the environment by its own rules."""
    parts = urlsplit(url)
    if parts.scheme == "http" and is_loopback_host(parts.hostname or ""):
        return {"trust_env": False, "verify": False}  # loading certificates takes long
    try:
        return {"trust_env": False, "verify": verifying_context()}
    except LaunchError as error:
        raise ModelError(f"The model server {error}.") from None


class _Reader:
    """The bytes of one answer, in time and within a bound; a byte that was looked at is still there."""

    def __init__(self, chunks: AsyncGenerator[bytes], patience: Patience, report: Report, limits: ModelLimits) -> None:
        self.has_ended = False
        self._chunks = chunks
        self._patience = patience
        self._report = report
        self._limits = limits
        self._size = 0
        self._ahead = b""

    def has_all(self) -> None:
        """Note that the answer is complete: if the connection fails now, that does no harm."""
        self._patience.has_finished = True

    async def start(self) -> bytes:
        """Return the first bytes that are no blanks, without taking them; nothing if there are none."""
        while not self._ahead and (chunk := await self._receive()):
            self._ahead = chunk.lstrip()
        return self._ahead

    async def read(self) -> bytes:
        """Return the next bytes; nothing at the end."""
        ahead, self._ahead = self._ahead, b""
        return ahead or await self._receive()

    async def _receive(self) -> bytes:
        if self.has_ended:
            return b""
        try:
            chunk = await self._patience.wait(self._next)
        except _NothingFollowsError:
            chunk = b""
        except _BrokenAnswerError as error:
            if not self._patience.has_finished:
                raise self._report.broken(str(error)) from None
            chunk = b""
        self._size += len(chunk)
        if self._size > self._limits.reply_bytes:
            raise self._report.oversized("bytes in one reply", self._limits.reply_bytes, "reply_bytes")
        if not chunk:
            self.has_ended = True
            return b"\n\n"  # the end of an event that was not ended
        return chunk

    async def _next(self) -> bytes:
        return await anext(self._chunks, b"")


async def _contents(reader: _Reader, report: Report, limits: ModelLimits) -> AsyncGenerator[JSON]:
    """Yield the JSON objects of an answer, whichever form it has."""
    start = await reader.start()
    if start.startswith(b"<"):
        raise Refusal(200, start[:1000].decode("utf-8", "replace"))
    if start.startswith((b"{", b"[")):
        text = bytearray()
        while chunk := await reader.read():
            text += chunk
        yield _checked(_parsed(text.decode("utf-8", "replace")), report)
        return
    events = EventReader(reader.read, limits.event_bytes)
    while event := await _next_event(events, report):
        if event.data.startswith("[DONE]"):
            yield {"done": True}
            reader.has_all()
            with anyio.move_on_after(limits.farewell):
                while not reader.has_ended:
                    await reader.read()
            return
        if event.type == "error":
            raise error_in(_parsed(event.data)) or Refusal(0, event.data)
        if event.data:
            yield _checked(_parsed(event.data), report)


async def _next_event(events: EventReader, report: Report) -> ServerSentEvent | None:
    try:
        return await events.next()
    except OversizedEventError as error:
        raise report.oversized("bytes in one event", error.limit, "event_bytes") from None


def _checked(value: Any, report: Report) -> JSON:
    if refusal := error_in(value):
        raise refusal
    if not is_object(value):
        raise report.broken("it sent something that is no JSON object")
    return value


async def _bytes_of(response: Any) -> AsyncGenerator[bytes]:
    try:
        async for chunk in response.iter_bytes():
            if chunk:
                yield chunk
    except Exception as error:  # of whichever HTTP library it is
        raise _BrokenAnswerError(_sentence(error)) from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _reason(error: Exception) -> str:
    return _sentence(error.__cause__) if error.__cause__ else str(error)


def _sentence(error: BaseException) -> str:
    """Return an error's text without its number; its type if it has no text."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__


async def load_library() -> None:
    """Import the `openai` library where that holds up no event loop: on a busy machine it takes more than a second.

    Raises:
        ModelError: It is not installed.
    """
    if "openai" not in sys.modules:
        await anyio.to_thread.run_sync(_library)


def _library() -> Any:
    try:
        import openai  # the package works without; and it takes as long to import as all the rest
    except ImportError:
        raise ModelError(
            "An agent that thinks needs the openai library.", "Install it: pip install 'gaia-mcp-bridge[llm]'."
        ) from None
    return openai
