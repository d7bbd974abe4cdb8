"""What the methods of MCP mean for a source of this process and one client of it, in either era."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import anyio

from gaia_bridge.contract import ClientRequest, Source
from gaia_bridge.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AnswerError,
    ClientCapabilityError,
    ProtocolError,
    ResourceNotFoundError,
)
from gaia_bridge.hops import HOPS_META_KEY, unmarked
from gaia_bridge.jsontypes import JSON, is_object
from gaia_bridge.model import LOG_LEVELS, Change, ChangeKind
from gaia_bridge.protocol.meta import (
    CLIENT_CAPABILITIES_KEY,
    LOG_LEVEL_KEY,
    PROTOCOL_VERSION_KEY,
    SERVER_INFO_KEY,
    SUBSCRIPTION_ID_KEY,
)
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, MODERN_REVISIONS
from gaia_bridge.results import error_result, is_input_required
from gaia_bridge.settings import AgentLimits
from gaia_bridge.wire import LIST_FIELDS, LOG_MESSAGE, for_legacy, is_loud_enough, missing_capability, server_info

__all__ = ["LocalServer", "Way"]

_LEGACY_RESOURCE_NOT_FOUND: Final = -32002
"""MCP 2025-11-25, server/resources; 2026-07-28 says -32602 (SEP-2164)."""

_OFFERED: Final[Mapping[str, tuple[str, str]]] = {
    method: (kind, attribute)
    for (kind, (method, _)), attribute in zip(
        LIST_FIELDS.items(), ("tools", "prompts", "resources", "templates"), strict=True
    )
}
"""For each method that lists something, the kind of definition and where `Offer` holds it."""

_CHANGED: Final[Mapping[ChangeKind, str]] = {
    ChangeKind.TOOLS: "tools",
    ChangeKind.PROMPTS: "prompts",
    ChangeKind.RESOURCES: "resources",
}

_ABILITIES: Final[Mapping[str, JSON]] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
"""What each capability of an offer is worth on the wire; nothing special for the others."""

_Ask = Callable[[ClientRequest], Awaitable[JSON]]


class Way(Protocol):
    """The way back to the client."""

    def tell(self, method: str, params: JSON, during: int | None) -> None:
        """Send a notification, perhaps on behalf of one of the client's requests."""
        ...

    async def ask(self, method: str, params: JSON, during: int) -> JSON:
        """Send a request on behalf of one of the client's requests, and return its result.

        Raises:
            AnswerError: The client answered with an error.
        """
        ...


class LocalServer:
    """One client's view of a source.

    Args:
        source: The source.
        way: The way back to the client.
        limits: How long a question may stay open, and how often one call may ask.
    """

    def __init__(self, source: Source, way: Way, limits: AgentLimits) -> None:
        self._source = source
        self._way = way
        self._limits = limits
        self._legacy = False
        self._capabilities: JSON = {}
        self._level = "info"
        self._subscribed: set[str] = set()
        self._streams: dict[int, JSON] = {}
        self._methods: Mapping[str, Callable[[_LocalRequest, JSON], Awaitable[JSON]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._nothing,
            "logging/setLevel": self._set_level,
            "tools/call": self._call_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "subscriptions/listen": self._listen,
            "completion/complete": self._complete,
            **dict.fromkeys(_OFFERED, self._list),
        }

    async def serve(self, number: int, method: str, params: JSON) -> JSON:
        """Serve one request.

        Raises:
            RequestError: It failed.
        """
        handler = self._methods.get(method, self._forward)
        meta = params.get("_meta")
        known = meta if is_object(meta) else {}
        modern = PROTOCOL_VERSION_KEY in known
        capabilities = known.get(CLIENT_CAPABILITIES_KEY) if modern else self._capabilities
        level = known.get(LOG_LEVEL_KEY) if modern else self._level
        request = _LocalRequest(
            self._way, number, method, modern, known, capabilities if is_object(capabilities) else {}, level, params
        )
        result = await handler(request, params)
        return {"resultType": "complete", **result} if modern else result

    def changed(self, change: Change) -> None:
        """Tell the client of a change, as it wants to hear of it."""
        if (notification := change.notification) is not None:
            level = notification.params.get("level")
            if self._legacy and (notification.method != LOG_MESSAGE or is_loud_enough(level, self._level)):
                self._way.tell(notification.method, dict(notification.params), None)
            return
        if change.kind is ChangeKind.INTRODUCTION:
            return
        if change.kind is ChangeKind.RESOURCE_UPDATED:
            method, params = "notifications/resources/updated", {"uri": change.uri}
        else:
            method, params = f"notifications/{_CHANGED[change.kind]}/list_changed", {}
        if self._legacy and (change.kind is not ChangeKind.RESOURCE_UPDATED or change.uri in self._subscribed):
            self._way.tell(method, params, None)
        for number, wanted in self._streams.items():
            if _wants(wanted, change):
                self._way.tell(method, {**params, "_meta": {SUBSCRIPTION_ID_KEY: number}}, number)

    async def _initialize(self, request: _LocalRequest, params: JSON) -> JSON:
        asked, declared = params.get("protocolVersion"), params.get("capabilities")
        self._legacy = True
        self._capabilities = declared if is_object(declared) else {}
        return {
            "protocolVersion": asked if asked in HANDSHAKE_REVISIONS else LATEST_HANDSHAKE,
            "serverInfo": server_info(self._source.offer.info),
            **self._introduction(),
        }

    async def _discover(self, request: _LocalRequest, params: JSON) -> JSON:
        return {
            "supportedVersions": [*HANDSHAKE_REVISIONS, *MODERN_REVISIONS],
            "_meta": {SERVER_INFO_KEY: server_info(self._source.offer.info)},
            **self._introduction(),
        }

    def _introduction(self) -> JSON:
        offer = self._source.offer
        instructions = offer.info.instructions
        return {
            "capabilities": {name: dict(_ABILITIES.get(name, {})) for name in sorted(offer.capabilities)},
            **({} if instructions is None else {"instructions": instructions}),
        }

    async def _nothing(self, request: _LocalRequest, params: JSON) -> JSON:
        return {}

    async def _set_level(self, request: _LocalRequest, params: JSON) -> JSON:
        if params.get("level") not in LOG_LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"level must be one of {', '.join(LOG_LEVELS)}")
        self._level = params["level"]
        return {}

    async def _list(self, request: _LocalRequest, params: JSON) -> JSON:
        await self._source.refresh()
        kind, attribute = _OFFERED[request.method]
        offered: tuple[Mapping[str, Any], ...] = getattr(self._source.offer, attribute)
        definitions = [dict(definition) for definition in offered]
        if HOPS_META_KEY not in request.meta:
            definitions = [unmarked(definition) for definition in definitions]
        if not request.modern:
            older = (for_legacy(kind, definition) for definition in definitions)
            return {LIST_FIELDS[kind][1]: [definition for definition in older if definition is not None]}
        return {LIST_FIELDS[kind][1]: definitions, "ttlMs": 0, "cacheScope": "private"}

    async def _call_tool(self, request: _LocalRequest, params: JSON) -> JSON:
        name, arguments = _text(params, "name"), _object(params, "arguments")
        try:
            result = await self._in_rounds(lambda round_: self._source.call_tool(name, arguments, round_), request)
        except (AnswerError, ClientCapabilityError) as error:
            if request.modern:
                raise
            return error_result(str(error))
        if not request.modern and not is_object(result.get("structuredContent")):
            return {key: value for key, value in result.items() if key != "structuredContent"}
        return result

    async def _get_prompt(self, request: _LocalRequest, params: JSON) -> JSON:
        name, arguments = _text(params, "name"), _object(params, "arguments")
        return await self._in_rounds(lambda round_: self._source.get_prompt(name, arguments, round_), request)

    async def _read_resource(self, request: _LocalRequest, params: JSON) -> JSON:
        uri = _text(params, "uri")
        try:
            return await self._in_rounds(lambda round_: self._source.read_resource(uri, round_), request)
        except ResourceNotFoundError as error:
            if request.modern:
                raise
            raise ProtocolError(_LEGACY_RESOURCE_NOT_FOUND, error.message, error.data) from None

    async def _complete(self, request: _LocalRequest, params: JSON) -> JSON:
        context = _object(_object(params, "context"), "arguments")
        return await self._source.complete(_object(params, "ref"), _object(params, "argument"), context, request)

    async def _forward(self, request: _LocalRequest, params: JSON) -> JSON:
        own = {key: value for key, value in params.items() if key != "_meta"}
        return await self._source.forward(request.method, own, request)

    async def _subscribe(self, request: _LocalRequest, params: JSON) -> JSON:
        uri = _text(params, "uri")
        if uri not in self._subscribed:
            await self._source.subscribe(uri)
            self._subscribed.add(uri)
        return {}

    async def _unsubscribe(self, request: _LocalRequest, params: JSON) -> JSON:
        uri = _text(params, "uri")
        if uri in self._subscribed:
            self._subscribed.remove(uri)
            await self._source.unsubscribe(uri)
        return {}

    async def _listen(self, request: _LocalRequest, params: JSON) -> JSON:
        wanted = _object(params, "notifications")
        subscribed: list[str] = []
        self._streams[request.number] = wanted
        try:
            for uri in wanted.get("resourceSubscriptions") or ():
                await self._source.subscribe(uri)
                subscribed.append(uri)
            acknowledged: JSON = {"notifications": wanted, "_meta": {SUBSCRIPTION_ID_KEY: request.number}}
            self._way.tell("notifications/subscriptions/acknowledged", acknowledged, request.number)
            await anyio.sleep_forever()
        finally:
            del self._streams[request.number]
            await self._unsubscribed(subscribed)
        return {}

    async def close(self) -> None:
        """The client is gone."""
        subscribed, self._subscribed = self._subscribed, set()
        await self._unsubscribed(subscribed)

    async def _unsubscribed(self, uris: Iterable[str]) -> None:
        with anyio.CancelScope(shield=True):  # bounded by the source
            for uri in uris:
                await self._source.unsubscribe(uri)

    async def _in_rounds(self, ask: _Ask, request: _LocalRequest) -> JSON:
        """Bring a request to its end: a legacy client cannot play rounds, so each question is put to it."""
        result = await ask(request)
        for _ in range(0 if request.modern else self._limits.max_rounds):
            if not is_input_required(result):
                break
            asked: Mapping[str, JSON] = result.get("inputRequests") or {}
            answers = {key: await self._pushed(item, request) for key, item in asked.items()}
            result = await ask(request.next_round(answers, result.get("requestState")))
        if is_input_required(result) and not request.modern:
            times = self._limits.max_rounds
            raise ProtocolError(INTERNAL_ERROR, f"The server asked for input {times} times without coming to an end")
        return result

    async def _pushed(self, question: JSON, request: _LocalRequest) -> JSON:
        method: str = question["method"]
        with anyio.move_on_after(self._limits.question_timeout):
            return await request.push(method, question.get("params") or {})
        raise AnswerError(f"the client did not answer {method} within {self._limits.question_timeout:g} s")


class _LocalRequest:
    """Implements `gaia_bridge.contract.ClientRequest`."""

    def __init__(
        self,
        way: Way,
        number: int,
        method: str,
        modern: bool,
        meta: JSON,
        client_capabilities: JSON,
        level: Any,
        params: JSON,
    ) -> None:
        self._way = way
        self.client: Any = way
        self.number = number
        self.method = method
        self.modern = modern
        self.params: Mapping[str, Any] = params
        self.meta: Mapping[str, Any] = meta
        self.client_info: Mapping[str, Any] = {}
        self.client_capabilities: Mapping[str, Any] = client_capabilities
        self.log_level: str | None = level if level in LOG_LEVELS else None
        responses = params.get("inputResponses") if modern else None
        state = params.get("requestState") if modern else None
        self.input_responses: Mapping[str, JSON] = responses if is_object(responses) else {}
        self.request_state: str | None = state if isinstance(state, str) else None

    def next_round(self, responses: JSON, state: str | None) -> _LocalRequest:
        """The same request with the answers to an `input_required` result."""
        again = copy.copy(self)
        again.input_responses, again.request_state = responses, state
        return again

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Clients of the same process share what there is: they are one program."""
        return False

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send `notifications/progress`, if the client gave a token."""
        token = self.meta.get("progressToken")
        if token is not None:
            params: JSON = {"progressToken": token, "progress": progress}
            params |= {} if total is None else {"total": total}
            params |= {} if message is None else {"message": message}
            self._way.tell("notifications/progress", params, self.number)

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        """Send `notifications/message`, if the client wants that level."""
        if is_loud_enough(level, self.log_level):
            params: JSON = {"level": level, "data": data}
            params |= {} if logger is None else {"logger": logger}
            self._way.tell(LOG_MESSAGE, params, self.number)

    async def push(self, method: str, params: JSON) -> JSON:
        """Send a request to the client and return its result."""
        if missing := missing_capability(method, params, self.client_capabilities):
            raise ClientCapabilityError(missing)
        return await self._way.ask(method, params, self.number)

    async def close_stream(self) -> None:
        """Nothing to do: no stream carries the answer."""


def _wants(wanted: JSON, change: Change) -> bool:
    if change.kind is ChangeKind.RESOURCE_UPDATED:
        return change.uri in (wanted.get("resourceSubscriptions") or ())
    return wanted.get(f"{_CHANGED[change.kind]}ListChanged") is True


def _text(params: JSON, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise ProtocolError(INVALID_PARAMS, f"{name} must be a string")
    return value


def _object(params: JSON, name: str) -> JSON:
    value = params.get(name)
    if value is not None and not is_object(value):
        raise ProtocolError(INVALID_PARAMS, f"{name} must be an object")
    return value or {}
