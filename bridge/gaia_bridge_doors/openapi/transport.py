"""Reaches an HTTP API by its OpenAPI document, as any server is reached: a small MCP server in this process.

So an API has the features of any server: deadlines, restarts, transforms, permissions, a state and a reason.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import httpx2
from msgspec.structs import replace

from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.client.transport import Link, Receiver, UpstreamError
from gaia_bridge.client.transports.http.http_client import HttpClient, HttpReply, Method
from gaia_bridge.client.transports.http.http_values import checked_headers, origin, url_for_log, usable_url
from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.errors import ConfigError, ToolError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.model import HttpServerSpec, LeftOut, OpenApiServerSpec
from gaia_bridge.protocol.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from gaia_bridge.protocol.meta import LEFT_OUT_KEY, SERVER_INFO_KEY
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, LATEST_HANDSHAKE
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, SMALL_BYTES, is_array, is_object
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_doors.openapi.document import Document, document_from, document_of
from gaia_bridge_doors.openapi.operations import Operation, read_operations
from gaia_bridge_doors.openapi.requests import ApiRequest, failure_result, head_result, request_for, success_result

logger = logging.getLogger(__name__)

_ACCEPT: Final = {"accept": "application/json, application/yaml, text/yaml;q=0.9, */*;q=0.5"}
_LONGEST_URL: Final = 8_192
"""Characters of the URL of a server in a document."""

_COMPLETE: Final[JSON] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class OpenApiTransport:
    """Reaches an HTTP API. Implements `client.transport.Transport`.

    Args:
        spec: Its entry.
        limits: Bounds.
    """

    def __init__(self, spec: OpenApiServerSpec, limits: UpstreamLimits) -> None:
        self._spec = spec
        self._limits = limits

    @asynccontextmanager
    async def connect(self, receiver: Receiver) -> AsyncGenerator[Link]:
        """Read the document, and answer for the API until the end of the block."""
        spec, limits = self._spec, self._limits
        headers = checked_headers(spec.headers)
        document, place = await self._document()
        base = _base(document, place, spec.url, has_headers=bool(headers))
        # Reading takes seconds for the largest documents, and must not go on for a caller that gave up.
        operations, left_out = await anyio.to_thread.run_sync(
            partial(read_operations, document, limits.openapi, headers.keys()), abandon_on_cancel=True
        )
        client = HttpClient(HttpServerSpec(spec.name, str(base), spec.headers, proxy=spec.proxy), limits)
        try:
            yield _ApiLink(document, operations, left_out, client, base, headers, limits)
        finally:
            await client.close()

    async def _document(self) -> tuple[Document, httpx2.URL | None]:
        """Return the document, and the URL that it was fetched from."""
        place = self._spec.document
        if not isinstance(place, str):
            return document_of(place), None
        limits = self._limits.openapi
        if "://" in place:
            url = usable_url(place)
            text = await self._fetched(url)
        else:
            url = None
            try:
                text, _ = await anyio.to_thread.run_sync(read_bytes, Path(place), limits.document_bytes)
            except ConfigError as error:
                raise UpstreamError(f"has no OpenAPI document: {error}") from None
        return await anyio.to_thread.run_sync(document_from, text, limits, abandon_on_cancel=True), url

    async def _fetched(self, url: httpx2.URL) -> bytes:
        limits = self._limits.openapi
        # Headers for the API are sent to the document's server only if that is the same one.
        own = self._spec.url is None or origin(usable_url(self._spec.url)) == origin(url)
        spec = HttpServerSpec(self._spec.name, str(url), self._spec.headers if own else {}, proxy=self._spec.proxy)
        bounds = replace(self._limits, message_bytes=limits.document_bytes)
        shown = url_for_log(url)
        client = HttpClient(spec, bounds)
        try:
            with anyio.fail_after(limits.fetch_timeout):
                reply = await client.send("GET", _ACCEPT, url=client.url)
                if not reply.ok:
                    refusal = reply.refusal()
                    await reply.close()
                    raise refusal
                return await reply.body()
        except TimeoutError:
            seconds = f"{limits.fetch_timeout:g} s"
            raise UpstreamError(f"has no OpenAPI document at {shown}: it did not come within {seconds}") from None
        except UpstreamError as error:
            raise UpstreamError(f"has no OpenAPI document at {shown}: it {error}", error.retry_after) from None
        finally:
            await client.close()


def _base(document: Document, place: httpx2.URL | None, configured: str | None, *, has_headers: bool) -> httpx2.URL:
    """Return the address of the API.

    A document names the server itself. It must not decide which server gets the configured headers, nor lead a bridge
    that fetched it to servers beside its own: then the entry has to state the address.

    Args:
        document: The document.
        place: The URL that it was fetched from.
        configured: The URL in the entry.
        has_headers: Whether headers are configured.

    Raises:
        UpstreamError: The address is not known; the message says which key to add.
    """
    if configured is not None:
        return usable_url(configured).copy_with(fragment=None)
    named = _named_server(document)
    if place is None:
        if "://" not in named:
            problem = f"names {one_line(named, 100)!r} as its server, which is no URL"
            raise UpstreamError(f'has an OpenAPI document that {problem}; add "url": "https://HOST/..." to the entry')
        base = usable_url(named)
    else:
        try:
            base = place.copy_with(query=None, fragment=None).join(named)
        except (httpx2.InvalidURL, ValueError):
            raise UpstreamError("has an OpenAPI document that names a server with no URL") from None
        base = usable_url(str(base))
        if origin(base) == origin(place):
            return base.copy_with(userinfo=place.userinfo, fragment=None)
    if place is not None or has_headers:
        whom = "the configured headers go there only" if has_headers else "it is used only"
        shown = url_for_log(base)
        raise UpstreamError(
            f'has an OpenAPI document that names {shown} as its server; {whom} with "url": "{shown}" in the entry'
        )
    return base.copy_with(fragment=None)


def _named_server(document: Document) -> str:
    """Return the first server of a document, its variables filled in with their defaults."""
    servers = document.content.get("servers")
    first: Any = servers[0] if is_array(servers) and servers else {}
    url = first.get("url") if is_object(first) else None
    if not isinstance(url, str):
        return "/"
    variables = first.get("variables")
    declared: JSON = variables if is_object(variables) else {}

    def default(match: re.Match[str]) -> str:
        variable = declared.get(match[1])
        value = variable.get("default") if is_object(variable) else None
        return str(value)[:_LONGEST_URL] if isinstance(value, str | int | float) else match[0]

    # In one pass: defaults that refer to other variables could make any amount of text.
    return re.sub(r"\{([^{}]*)\}", default, url[:_LONGEST_URL])[:_LONGEST_URL]


class _ApiLink:
    """Answers as an MCP server for an API. Implements `client.transport.Link`.

    Args:
        document: Its document.
        operations: Its operations.
        left_out: The operations that are no tools.
        client: The client that reaches it.
        base: Its address.
        headers: The configured headers, in lower case.
        limits: Bounds.
    """

    last_words = ""

    def __init__(
        self,
        document: Document,
        operations: list[Operation],
        left_out: list[LeftOut],
        client: HttpClient,
        base: httpx2.URL,
        headers: Mapping[str, str],
        limits: UpstreamLimits,
    ) -> None:
        self._info = _implementation(document)
        self._operations = {operation.name: operation for operation in operations}
        self._left_out = left_out
        self._client = client
        self._base = base
        self._headers = headers
        self._limits = limits
        self._validators: dict[str, SchemaValidator] = {}
        secrets = [*headers.values(), base.query.decode("ascii"), base.userinfo.decode("ascii")]
        bare = [secret.rpartition(" ")[2] for secret in secrets]  # of `Bearer TOKEN`, the token
        self._redacted = Redactor({secret for secret in (*secrets, *bare) if len(secret) >= _SECRET})

    async def request(self, message: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """Answer one request. It is cancelled together with its caller."""
        params: JSON = message.get("params") or {}
        response: JSON = {"jsonrpc": "2.0", "id": message["id"]}
        result: JSON
        match message["method"]:
            case "initialize":
                asked = params.get("protocolVersion")
                revision = asked if asked in HANDSHAKE_REVISIONS else LATEST_HANDSHAKE
                result = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": self._info}
            case "server/discover":
                result = {
                    **_COMPLETE,
                    "supportedVersions": [*self._limits.revisions.names],
                    "capabilities": {"tools": {}},
                    "_meta": {SERVER_INFO_KEY: self._info},
                }
            case "ping":
                result = {}
            case "tools/list":
                result = {**_COMPLETE, "tools": self._definitions()}
            case "tools/call":
                operation = self._operations.get(str(params.get("name")))
                if operation is None:
                    unknown = f"Unknown tool: {one_line(str(params.get('name')), 100)}"
                    return {**response, "error": {"code": INVALID_PARAMS, "message": unknown}}
                result = await self._call(operation, params.get("arguments") or {})
            case method:
                return {**response, "error": {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}}
        return {**response, "result": result}

    async def notify(self, message: JSON) -> None:
        """Do nothing: the caller that cancels a request stops waiting for it."""

    def agree(self, revision: str) -> None:
        """Do nothing: an API does the same in all revisions."""

    def _definitions(self) -> list[JSON]:
        tools = [operation.definition for operation in self._operations.values()]
        return [*tools, *({"name": item.name, "_meta": {LEFT_OUT_KEY: item.reason}} for item in self._left_out)]

    async def _call(self, operation: Operation, arguments: JSON) -> JSON:
        outside = {parameter.argument for parameter in operation.parameters if not parameter.is_json}
        # Models and frameworks send null for an omitted argument, and no parameter can carry null.
        arguments = {name: value for name, value in arguments.items() if value is not None or name not in outside}
        if problems := self._validator(operation).errors(arguments):
            return error_result(f"The arguments do not fit the input schema of tool '{operation.name}':\n{problems}")
        try:
            request = request_for(operation, arguments, self._base, self._headers)
        except ToolError as error:
            return error_result(str(error))
        # Cancelling has to close the connection, so nothing is shielded here.
        reply = await self._client.send(cast("Method", request.method), request.headers, request.body, request.url)
        try:
            return await self._result(request, reply)
        finally:
            if not reply.ended:
                await reply.close()

    async def _result(self, request: ApiRequest, reply: HttpReply) -> JSON:
        media = reply.headers.get("content-type", "")
        shown = url_for_log(request.url)
        if not reply.ok:
            limit = self._limits.openapi.error_bytes
            body = b"" if request.method == "HEAD" else await _beginning(reply, limit + 1)
            asked = f"{request.method} {shown}"
            return cast(
                "JSON", self._redacted.without_known_in(failure_result(reply.status, media, body, asked, limit))
            )
        if request.method == "HEAD":  # which has no body, whatever its headers say
            return cast("JSON", self._redacted.without_known_in(head_result(reply.status, reply.headers)))
        body = await reply.body()
        if len(body) > SMALL_BYTES:  # parsing it would block the event loop
            return await anyio.to_thread.run_sync(success_result, reply.status, media, body, shown)
        return success_result(reply.status, media, body, shown)

    def _validator(self, operation: Operation) -> SchemaValidator:
        """Return the validator of a tool's arguments, compiled with its first call."""
        if operation.name not in self._validators:
            self._validators[operation.name] = SchemaValidator(operation.definition["inputSchema"])
        return self._validators[operation.name]


_SECRET: Final = 8
"""Characters of the shortest value that may be a secret; shorter ones occur in every text."""


async def _beginning(reply: HttpReply, limit: int) -> bytes:
    """Return the first bytes of a body."""
    content = bytearray()
    while len(content) < limit and (piece := await reply.read()):
        content += piece
    return bytes(content[:limit])


def _implementation(document: Document) -> JSON:
    """Return the API's name and version, as MCP's `serverInfo`."""
    info = document.content.get("info")
    fields: JSON = info if is_object(info) else {}
    title, version = fields.get("title"), fields.get("version")
    return {
        "name": title if isinstance(title, str) and title else "HTTP API",
        "version": version if isinstance(version, str) else "",
    }
