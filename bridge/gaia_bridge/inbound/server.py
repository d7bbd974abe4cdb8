"""One published endpoint: a catalog behind one SDK server, for every transport and both eras.

The SDK's low-level `Server` decides the era, checks the envelope and hands over a request; everything that a request
means is the catalog's business. Handlers return plain JSON, complete for either era.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial, wraps
from itertools import product
from typing import Any, ParamSpec

import anyio
from anyio.abc import TaskStatus
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import (
    INVALID_REQUEST,
    CallToolRequestParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ServerCapabilities,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel

from gaia_bridge.contract import JSON, FollowsRoots, Source
from gaia_bridge.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AnswerError,
    ClientCapabilityError,
    ProtocolError,
    RequestError,
    ResourceNotFoundError,
)
from gaia_bridge.hops import HOPS_META_KEY, check_hops, marked, new_id
from gaia_bridge.inbound.backlog import Backlog
from gaia_bridge.inbound.call_log import CallLog
from gaia_bridge.inbound.cancellations import Cancellations
from gaia_bridge.inbound.catalog import Catalog
from gaia_bridge.inbound.changes import ChangeFanout
from gaia_bridge.inbound.client_request import Context, SdkClientRequest, client_name, connection_of, set_log_level
from gaia_bridge.inbound.error_codes import LEGACY_RESOURCE_NOT_FOUND, codes_of_the_era
from gaia_bridge.inbound.forwarding import Forwarding, with_public_task
from gaia_bridge.inbound.introducing import Introducing, capabilities_of
from gaia_bridge.inbound.outgoing import Outgoing
from gaia_bridge.inbound.pages import Pager, page_of_server
from gaia_bridge.inbound.parameters import named_parameters
from gaia_bridge.inbound.plain import PlainResults, plainly
from gaia_bridge.inbound.tool_search import PublishedSearch
from gaia_bridge.jsontypes import is_object
from gaia_bridge.model import Change
from gaia_bridge.results import error_result, is_input_required, jsonable, words
from gaia_bridge.settings import Settings
from gaia_bridge.wire import LIST_FIELDS, implementation, is_modern

__all__ = ["Endpoint", "EndpointServer"]

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_Ask = Callable[[SdkClientRequest], Awaitable[JSON]]

ERROR_BYTES = 64 * 1024
"""The data of one JSON-RPC error."""


class EndpointServer(Server[Any]):
    """The SDK's server, with identity and capabilities that follow the catalog.

    The SDK derives capabilities from registered handlers and takes the change flags from its caller, which the HTTP
    manager does not pass. Here both come from what the sources can do (P-10).
    """

    def __init__(self, catalog: Catalog, **handlers: Any) -> None:
        super().__init__("", **handlers)
        self.catalog = catalog
        self.introduce()

    def serves(self, method: str) -> bool:
        """Whether it knows a method."""
        return method in {"initialize", "ping"} or self.get_request_handler(method) is not None

    def introduce(self) -> None:
        """Say from now on who the endpoint is now."""
        info = self.catalog.info(modern=True)
        self.name = info.name
        self.instructions = info.instructions
        for field, value in implementation(info).items():
            setattr(self, field, value)
        self._stamp: JSON = self.catalog.implementation(modern=True)
        self._is_flat = all(isinstance(value, str) for value in self._stamp.values())

    @property
    def server_info_stamp(self) -> JSON:
        """The identity that the SDK writes into every modern result; the caller owns it."""
        return dict(self._stamp) if self._is_flat else copy.deepcopy(self._stamp)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """What the sources can do, as far as the SDK has words for it."""
        modern = protocol_version is not None and is_modern(protocol_version)
        return ServerCapabilities.model_validate(capabilities_of(self.catalog, modern=modern), by_name=False)


def _answering(
    handler: Callable[_P, Awaitable[JSON | BaseModel | None]],
) -> Callable[_P, Awaitable[Any]]:
    """The one place where errors become JSON-RPC errors: nothing unforeseen reaches a client as text."""

    @wraps(handler)
    async def answer(*args: _P.args, **kwargs: _P.kwargs) -> JSON | BaseModel | None:
        try:
            return await handler(*args, **kwargs)
        except MCPError:
            raise
        except ProtocolError as error:
            raise MCPError(error.code, words(error), _error_data(error)) from error
        except RequestError as error:
            raise MCPError(INTERNAL_ERROR, words(error)) from error
        except Exception as error:
            logger.exception("a request failed")
            raise MCPError(INTERNAL_ERROR, "Internal error") from error

    return answer


def _error_data(error: ProtocolError) -> JSON | None:
    """What an error carries beside its message; agents raise them too, so it can be anything."""
    try:
        data: JSON | None = jsonable(error.data, ERROR_BYTES)[0]
    except BaseException as problem:  # noqa: B036 - to read it can run the agent's code
        logger.warning("the data of the error %r is left out: %s", words(error), words(problem))
        return None
    return data


class _SealedState:
    """Seals `requestState` with the SDK's boundary (S-31), which is made when the first request needs one.

    Most servers never ask for input, and the cryptography behind it costs three MiB.
    """

    def __init__(self, audience: str) -> None:
        self._audience = audience

    @cached_property
    def _boundary(self) -> RequestStateBoundary:
        return RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=self._audience)

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.params is not None and ctx.params.get("requestState") is not None:
            return await self._boundary(ctx, call_next)
        result = await call_next(ctx)
        if not is_input_required(result):
            return result

        async def answered(_: Context) -> HandlerResult:
            return result

        return await self._boundary(ctx, answered)


async def _one_handshake(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Refuse to change what a completed handshake settled (F-080); until then a client may repeat itself.

    A single call without a session is ready from the start, and its connection knows no client: it may be a handshake.
    """
    repeated = ctx.method == "initialize" and not is_modern(ctx.protocol_version)
    connection = connection_of(ctx)
    if repeated and connection.client_params is not None and connection.initialized.is_set():
        raise MCPError(INVALID_REQUEST, "The handshake of this connection is complete; open another one for a new one")
    return await call_next(ctx)


class _NoLoops:
    """Refuses what this bridge has sent itself, whatever it asks for."""

    def __init__(self, check: Callable[[Mapping[str, Any]], None]) -> None:
        self._check = check

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        try:
            self._check(_meta(ctx))
        except ProtocolError as error:
            raise MCPError(error.code, error.message, error.data) from None
        return await call_next(ctx)


class Endpoint:
    """A catalog, published.

    Args:
        catalog: What is published.
        settings: Limits.
        audience: Names this endpoint among all of this process, so that a state sealed for one is refused by another.
        own: The id of the bridge.
        backlog: What is on its way to clients, of all endpoints of the process; of this one alone if `None`.
    """

    def __init__(
        self, catalog: Catalog, settings: Settings, audience: str, own: str = "", backlog: Backlog | None = None
    ) -> None:
        self._own = own or new_id()
        self.catalog = catalog
        self._settings = settings
        self._changes = ChangeFanout(catalog, settings.subscriptions)
        self.cancellations = Cancellations()
        self.tool_search = PublishedSearch(catalog, settings.tool_search, settings.tool_search_bytes)
        self.server = self._make_server(audience, backlog or Backlog(settings.backlog))
        catalog.listen(self._on_change)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Deliver changes until cancelled."""
        await self._changes.run(task_status=task_status)

    def close_streams(self) -> None:
        """End the streams that clients listen on, in good order."""
        self._changes.close_streams()

    def check(self, meta: Mapping[str, Any]) -> None:
        """Look at the `_meta` of a request before anything else.

        Raises:
            ProtocolError: This bridge has sent it itself, or too many have passed it on.
        """
        check_hops(meta, self._own, self._settings.max_hops)

    def _make_server(self, audience: str, backlog: Backlog) -> EndpointServer:
        server = EndpointServer(
            self.catalog,
            get_tool_input_schema=self.tool_search.schema,
            on_list_tools=self._lists("tool"),
            on_list_prompts=self._lists("prompt"),
            on_list_resources=self._lists("resource"),
            on_list_resource_templates=self._lists("resource template"),
            on_call_tool=_answering(plainly("tools/call", self._call_tool)),
            on_get_prompt=_answering(plainly("prompts/get", self._get_prompt)),
            on_read_resource=_answering(plainly("resources/read", self._read_resource)),
            on_completion=_answering(plainly("completion/complete", self._complete)),
            on_subscribe_resource=_answering(self._subscribe),
            on_unsubscribe_resource=_answering(self._unsubscribe),
            on_subscriptions_listen=self._changes.listen,
        )
        # Not through the constructor, which warns: legacy clients need both for as long as there are any.
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, _answering(self._set_level))
        server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)
        server.add_notification_handler("notifications/roots/list_changed", NotificationParams, self._roots_changed)
        if "opentelemetry.sdk" not in sys.modules:
            server.middleware.clear()
        forwarding = Forwarding(self.catalog, server.serves, _request, _answering)
        server.middleware += [
            self.cancellations,
            Outgoing(CallLog(self.catalog), self._settings.agent.large_result_bytes, backlog),
            codes_of_the_era,
            named_parameters,
            _NoLoops(self.check),
            _one_handshake,
            Introducing(self.catalog),
        ]
        server.middleware += [_SealedState(audience), PlainResults(), forwarding]
        return server

    def _on_change(self, change: Change) -> None:
        if change.kind.is_offer:
            self.server.introduce()
        self._changes.publish(change)

    def _lists(self, kind: str) -> Callable[[Context, PaginatedRequestParams | None], Awaitable[Any]]:
        method, field = LIST_FIELDS[kind]
        pagers = {key: Pager(self._settings.pages) for key in product((False, True), repeat=2)}

        async def listing(ctx: Context, params: PaginatedRequestParams | None) -> JSON:
            await self.catalog.refresh()
            modern = SdkClientRequest(ctx, {}, None).modern
            cursor, bridge = None if params is None else params.cursor, HOPS_META_KEY in _meta(ctx)
            definitions = shown = self.catalog.definitions(kind, modern=modern, marked=bridge)
            if kind == "tool":
                shown = self.tool_search.shown(definitions, client_name(ctx), bridge=bridge)
            pager = pagers[modern, bridge] if shown is definitions else Pager(self._settings.pages)
            page: JSON
            server = self.catalog.server
            if server is not None and shown is definitions and server.offer.implementation is not None:
                page = await page_of_server(server, kind, cursor, definitions, _request(ctx))
            else:
                items, following = pager.page(shown, cursor)
                more = {} if following is None else {"nextCursor": following}
                page = {field: items} | more
            if bridge:
                page = {**page, field: [marked(definition, self._own) for definition in page[field]]}
            # What is not known yet is not to be kept.
            ttl = self._settings.list_ttl if self.catalog.settled else 0
            return {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private", **page}

        return _answering(plainly(method, listing))

    async def _call_tool(self, ctx: Context, params: CallToolRequestParams) -> JSON:
        request = _request(ctx)
        called = await self.tool_search.called(params.name, params.arguments or {}, modern=request.modern)
        if called.result is not None:
            return called.result
        source, name = await self.catalog.sought(lambda: self.catalog.tool(called.name), called.name)
        call = partial(source.call_tool, name, called.arguments)
        try:
            result = await self._play_rounds(call, request)
        except (AnswerError, ClientCapabilityError) as error:
            if request.modern:
                raise
            result = error_result(str(error))
        if not request.modern and not isinstance(result.get("structuredContent"), dict):
            result.pop("structuredContent", None)
        return with_public_task(self.catalog, source, self.catalog.addresses.outward(source, result))

    async def _get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> JSON:
        source, name = await self.catalog.sought(lambda: self.catalog.prompt(params.name), params.name)
        result = await self._play_rounds(partial(source.get_prompt, name, params.arguments or {}), _request(ctx))
        return self.catalog.addresses.outward(source, result)

    async def _read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> JSON:
        request = _request(ctx)
        with self._not_found_as_in_its_era(request, params.uri):
            source, uri = await self.catalog.sought(lambda: self.catalog.resource(params.uri))
            result = await self._play_rounds(partial(source.read_resource, uri), request)
        return {"ttlMs": 0, "cacheScope": "private"} | self.catalog.addresses.outward(source, result)

    @contextmanager
    def _not_found_as_in_its_era(self, request: SdkClientRequest, uri: str) -> Generator[None]:
        """Give a missing resource the name that the client has for it, and the error code that its revision has."""
        try:
            yield
        except ResourceNotFoundError as error:
            if error.said is not None and self.catalog.server is not None:
                raise error.said from None
            words = error.own_words or ResourceNotFoundError(uri).message
            code = INVALID_PARAMS if request.modern else LEGACY_RESOURCE_NOT_FOUND
            raise ProtocolError(code, words, {**error.data, "uri": uri}) from None

    async def _complete(self, ctx: Context, params: CompleteRequestParams) -> JSON:
        ref: JSON = params.ref.model_dump(by_alias=True, mode="json", exclude_none=True)
        if ref["type"] == "ref/prompt":
            source, ref["name"] = await self.catalog.sought(lambda: self.catalog.prompt(ref["name"]))
        else:
            source, ref["uri"] = await self.catalog.sought(lambda: self.catalog.template(ref["uri"]))
        argument: JSON = params.argument.model_dump(mode="json")
        known = (params.context.arguments if params.context else None) or {}
        result = await source.complete(ref, argument, known, _request(ctx))
        return {"resultType": "complete"} | result

    async def _subscribe(self, ctx: Context, params: SubscribeRequestParams) -> JSON:
        with self._not_found_as_in_its_era(_request(ctx), params.uri):
            source, uri = await self.catalog.sought(lambda: self.catalog.resource(params.uri))
            if source is self.catalog.server and not _declares(source, "resources", "subscribe"):
                await source.forward("resources/subscribe", {"uri": uri}, _request(ctx))
            await self._changes.subscribe(connection_of(ctx), params.uri)
        return {}

    async def _unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> JSON:
        self._changes.unsubscribe(connection_of(ctx), params.uri)
        return {}

    async def _set_level(self, ctx: Context, params: SetLevelRequestParams) -> JSON:
        server = self.catalog.server
        if server is not None and "logging" not in server.offer.told(modern=False).capabilities:
            return await server.forward("logging/setLevel", {"level": params.level}, _request(ctx))
        set_log_level(ctx, params.level)
        return {}

    async def _roots_changed(self, ctx: Context, params: NotificationParams) -> None:
        for source in self.catalog.sources:
            if isinstance(source, FollowsRoots):
                source.roots_changed(_request(ctx))

    async def _initialized(self, ctx: Context, params: NotificationParams) -> None:
        self._changes.add_legacy(connection_of(ctx))

    async def _play_rounds(self, ask: _Ask, request: SdkClientRequest) -> JSON:
        """Bring a request to its end: for a client that cannot play rounds, the bridge plays them (design section 4).

        Raises:
            ProtocolError: The source keeps asking.
        """
        result = await ask(request)
        if request.modern:
            return result
        limits = self._settings.agent
        for _ in range(limits.max_rounds):
            if not is_input_required(result):
                return result
            asked: Mapping[str, JSON] = result.get("inputRequests") or {}
            answers = {key: await _pushed(item, request, limits.question_timeout) for key, item in asked.items()}
            result = await ask(request.next_round(answers, result.get("requestState")))
        if is_input_required(result):
            raise ProtocolError(
                INTERNAL_ERROR, f"The server asked for input {limits.max_rounds} times without coming to an end"
            )
        return result


def _declares(source: Source, capability: str, ability: str) -> bool:
    """Whether a server can do something in particular for clients of the handshake era."""
    told = (source.offer.told(modern=False).declared or {}).get(capability)
    return is_object(told) and told.get(ability) is True


async def _pushed(question: JSON, request: SdkClientRequest, patience: float) -> JSON:
    """The client's answer to one question of an `input_required` result."""
    method: str = question["method"]
    try:
        with anyio.fail_after(patience):
            return await request.push(method, question.get("params") or {})
    except TimeoutError:
        raise AnswerError(f"the client did not answer {method} within {patience:g} s") from None


def _meta(ctx: Context) -> JSON:
    meta = (ctx.params or {}).get("_meta")
    return meta if is_object(meta) else {}


def _request(ctx: Context) -> SdkClientRequest:
    """The request, with the fields of a retry in wire shape; only modern clients have such."""
    params = (ctx.params or {}) if is_modern(ctx.protocol_version) else {}
    responses: Mapping[str, JSON] = params.get("inputResponses") or {}
    return SdkClientRequest(ctx, responses, params.get("requestState"))
