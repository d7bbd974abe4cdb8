"""An endpoint as a server of the official SDK, for middleware and transports that are written for one.

The SDK owns the connection, the handshake and the checks of its models; what a request leads to is for the dispatcher.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from gaia_bridge.calls.cancellation import cancel_reason
from gaia_bridge.protocol import codes, meta
from gaia_bridge.protocol.parameters import METHODS
from gaia_bridge.protocol.revisions import is_modern
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.server.dispatcher import Answer, Dispatcher
from gaia_bridge.server.introduction import capabilities_of
from gaia_bridge.text.json_types import JSON, is_object

_INITIALIZED: Final = "notifications/initialized"
_ROOTS_CHANGED: Final = "notifications/roots/list_changed"
_IN_PROCESS: Final = "in process"


def sdk_server(dispatcher: Dispatcher) -> Server[Any]:
    """Return a server of the SDK that publishes the catalog of a dispatcher, on the event loop that it runs on."""
    server = _PublishedServer(dispatcher.catalog)
    handlers = _Handlers(dispatcher)
    for method in METHODS - {"initialize"}:  # which the SDK answers itself
        server.add_request_handler(method, types.RequestParams, handlers.answer)
    server.add_notification_handler(_INITIALIZED, types.NotificationParams, handlers.initialized)
    server.add_notification_handler(_ROOTS_CHANGED, types.NotificationParams, handlers.roots_changed)
    return server


class _PublishedServer(Server[Any]):
    """A server of the SDK that introduces itself as a catalog does."""

    def __init__(self, catalog: Catalog) -> None:
        who = catalog.implementation(modern=True)
        super().__init__(
            who["name"],
            version=who["version"],
            title=who.get("title"),
            description=who.get("description"),
            website_url=who.get("websiteUrl"),
        )
        self._published = catalog

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """Return the capabilities of the sources, whatever handlers there are."""
        modern = protocol_version is not None and is_modern(protocol_version)
        return types.ServerCapabilities.model_validate(capabilities_of(self._published, modern=modern))

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the introduction for the handshake, as it is now: sources come and go."""
        options = super().create_initialization_options(notification_options, experimental_capabilities, extensions)
        instructions = self._published.info(modern=False).instructions
        return options.model_copy(update={"instructions": instructions})


class _Handlers:
    """Handlers that pass requests to a dispatcher."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._connections: dict[int, ClientConnection] = {}

    async def answer(self, context: ServerRequestContext[Any, Any], _: types.RequestParams) -> dict[str, Any]:
        """Answer one request. The request is cancelled with its handler, which the SDK cancels when the client does."""
        modern = is_modern(context.protocol_version)
        channel = _Channel(context.session, context.request_id, can_ask=not modern)
        connection = (
            ClientConnection(channel, context.protocol_version) if modern else self._connection(context.session)
        )
        channel.connection = connection
        # A connection that ends with its request is no session of the client.
        call = Call(connection, channel, _message(context), host=_IN_PROCESS if modern else None)
        answered = Answer(b"")

        async def take(answer: Answer) -> None:
            nonlocal answered
            answered = answer

        task = self._dispatcher.begin(call, take)
        try:
            await asyncio.wait([task])
        finally:
            call.cancel(cancel_reason("nobody waits for the answer any more"))
            call.sent()
            if modern:
                connection.close()
        return _result(answered)

    async def initialized(self, context: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
        """Serve a client of the handshake era that is ready, until it has gone: nothing else reports its end."""
        connection = self._connection(context.session)
        if connection.is_initialized or not connection.is_greeted:
            return
        connection.standing = _Channel(context.session, None, can_ask=False)
        self._dispatcher.notified(connection, {"method": _INITIALIZED})
        try:
            await asyncio.Event().wait()
        finally:
            self._forget(id(context.session.client_params))

    async def roots_changed(self, context: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
        """Notify the dispatcher that a client's root folders changed."""
        self._dispatcher.notified(self._connection(context.session), {"method": _ROOTS_CHANGED})

    def _connection(self, session: ServerSession) -> ClientConnection:
        """Return the connection that a request of the handshake era came on.

        The SDK makes a session for each request. The only object that it keeps for the length of a connection, and
        shows, is the client's introduction.
        """
        client = session.client_params
        if client is None:
            return ClientConnection(NOWHERE)
        if (existing := self._connections.get(id(client))) is not None:
            return existing
        connection = self._connections[id(client)] = ClientConnection(NOWHERE)
        connection.initialize_result = client.model_dump(by_alias=True, mode="json", exclude_none=True)
        connection.revision = session.protocol_version
        connection.sent_capabilities = capabilities_of(self._dispatcher.catalog, modern=False)
        connection.is_greeted = True
        weakref.finalize(client, self._forget, id(client))
        return connection

    def _forget(self, key: int) -> None:
        if (connection := self._connections.pop(key, None)) is not None:
            connection.close()


class _Channel:
    """The channel for messages before an answer, or without a request: implements `server.connection.Channel`."""

    def __init__(self, session: ServerSession, request_id: int | str | None, *, can_ask: bool) -> None:
        self.can_ask = can_ask and session.can_send_request
        self.connection: ClientConnection | None = None
        self._session = session
        self._request_id = request_id
        self._asking: dict[int, asyncio.Task[None]] = {}

    async def send(self, message: bytes) -> None:
        """Send one message."""
        content: JSON = json.loads(message)
        params: JSON = content.get("params") or {}
        if "id" in content:
            number = content["id"]
            task = asyncio.get_running_loop().create_task(self._ask(number, content["method"], params))
            self._asking[number] = task
            task.add_done_callback(lambda _: self._asking.pop(number, None))
        elif content["method"] == "notifications/progress":
            await self._session.report_progress(params["progress"], params.get("total"), params.get("message"))
        elif content["method"] == "notifications/cancelled" and params.get("requestId") in self._asking:
            self._asking[params["requestId"]].cancel()  # the SDK tells the client
        else:
            notification = types.server_notification_adapter.validate_python(content)
            await self._session.send_notification(notification, self._request_id)

    def end(self) -> None:
        """Do nothing: the stream is the SDK's."""

    async def _ask(self, number: int, method: str, params: JSON) -> None:
        about = params.get("_meta")
        if is_object(about):  # the SDK counts its requests itself
            params = {**params, "_meta": {key: value for key, value in about.items() if key != meta.PROGRESS_TOKEN_KEY}}
        request = types.server_request_adapter.validate_python({"method": method, "params": params})
        metadata = None if self._request_id is None else ServerMessageMetadata(related_request_id=self._request_id)
        response: JSON = {"id": number}
        try:
            answer = await self._session.send_request(request, _AnyResult, metadata=metadata)
            response["result"] = answer.model_dump(by_alias=True, mode="json", exclude_unset=True)
        except MCPError as error:
            response["error"] = {"code": error.code, "message": error.message, "data": error.error.data}
        except ValueError as error:
            response["error"] = {"code": codes.INTERNAL_ERROR, "message": f"the answer is malformed: {error}"}
        if self.connection is not None:
            self.connection.answered(response)


class _AnyResult(types.Result, extra="allow"):
    """A client's answer of any shape, which the asking code checks."""


def _message(context: ServerRequestContext[Any, Any]) -> JSON:
    """Return a request as it came, or as middleware made it; the SDK itself knows who wants progress."""
    params: Mapping[str, Any] = context.params or {}
    about = params.get("_meta")
    request_id = 0 if context.request_id is None else context.request_id
    about = {**(about if is_object(about) else {}), meta.PROGRESS_TOKEN_KEY: request_id}
    return {"jsonrpc": "2.0", "id": request_id, "method": context.method, "params": {**params, "_meta": about}}


def _result(answer: Answer) -> dict[str, Any]:
    if not answer.body:
        raise MCPError(codes.INTERNAL_ERROR, "The request was given up")
    response: JSON = json.loads(answer.body)
    if "error" not in response:
        return dict(response["result"])
    error = response["error"]
    raise MCPError(error["code"], error["message"], error.get("data"))
