"""Streamable HTTP of 2026-07-28: each POST stands alone, and leaving its response cancels it (basic/transports)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import HEADER_MISMATCH, HTTP_STATUS, INVALID_REQUEST
from gaia_bridge.protocol.headers import (
    NAMED,
    PARAM_PREFIX,
    ParameterHeaders,
    envelope_problem,
    repeated_header,
    revision_problem,
)
from gaia_bridge.protocol.messages import Refusal
from gaia_bridge.server.call import Call
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.server.direct_calls import REQUEST_BYTES, is_bare
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.transports.event_stream import EventStream
from gaia_bridge.server.transports.http_direct import HttpDirectClient
from gaia_bridge.server.transports.http_exchange import HttpExchange
from gaia_bridge.settings import HttpLimits
from gaia_bridge.text.json_types import JSON, is_object

_NO_SINGLE_MESSAGE: Final = Refusal(INVALID_REQUEST, "Body must be a single JSON-RPC request or notification object")
_MAX_TOOLS: Final = 10_000
"""Tools whose required headers are remembered; as many as an agent may have."""


class ModernHttp:
    """One endpoint, for requests without a session."""

    def __init__(self, dispatcher: Dispatcher, limits: HttpLimits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._revisions = dispatcher.settings.revisions
        self._parameter_headers: dict[str, ParameterHeaders] = {}

    async def __call__(self, exchange: HttpExchange, *, only_json: bool = False) -> None:
        """Answer one request.

        Args:
            only_json: Whether its client takes no event streams.
        """
        message = exchange.content
        json, events = exchange.accepts
        only_json = only_json or not events
        if exchange.method != "POST":
            await exchange.nothing(405, [(b"allow", b"POST")])
        elif not (events or json):
            await exchange.nothing(406)
        elif not is_object(message) or "method" not in message:
            await exchange.refuse(_NO_SINGLE_MESSAGE)
        elif "id" not in message:
            await self._acknowledge(exchange)
        elif exchange.direct is None and (problem := self._problem(exchange, message)):
            await exchange.refuse(problem)
        else:
            await self._serve(exchange, message, only_json=only_json, takes_json=json)

    def _pass_on_directly(self, exchange: HttpExchange, call: Call) -> None:
        """Pass on the next requests with this head directly: calls of the same tool, with the same envelope."""
        calls, name = self._dispatcher.direct, call.params.get("name")
        if (
            calls is None
            or call.size > REQUEST_BYTES
            or call.translating is not None
            or not isinstance(name, str)
            or not is_bare(call.meta)
        ):
            return
        schema = self._dispatcher.tool_search.schema(name)
        if schema is None or not ParameterHeaders(schema).is_empty:
            return
        connection = ClientConnection(NOWHERE, call.connection.revision)
        client = HttpDirectClient(calls, connection, modern=True, address=exchange.host, meta=call.meta, name=name)
        exchange.pass_on_directly(client)

    async def _acknowledge(self, exchange: HttpExchange) -> None:
        """Accept a notification: in this revision, clients have none to send, but some do."""
        if problem := revision_problem(exchange.revision or "", revisions=self._revisions):
            await exchange.refuse(problem)
        else:
            await exchange.nothing(202)

    def _problem(self, exchange: HttpExchange, message: JSON) -> Refusal | None:
        repeated = _repeated_in_head(message)
        if repeated is None or repeated != exchange.facts.get(self):
            if (name := repeated_header(exchange.scope["headers"])) is not None:
                return Refusal(HEADER_MISMATCH, f"{name} header appears more than once", message["id"])
            if (problem := envelope_problem(message, exchange.headers, self._revisions)) is not None:
                return problem
            if self._revisions.translating_of(message) is None:
                exchange.facts[self] = repeated  # the same facts under the same head are not checked again
        return self._parameter_problem(exchange, message)

    def _parameter_problem(self, exchange: HttpExchange, message: JSON) -> Refusal | None:
        if (translating := self._revisions.translating_of(message)) is not None:
            message = translating.read(message, message["method"])
        params = message["params"]
        name: Any = params.get("name")
        given: Any = params.get("arguments")
        arguments: Any = {} if given is None else given
        if message["method"] != "tools/call" or not isinstance(name, str) or not is_object(arguments):
            return None
        if not arguments and not any(header.startswith(PARAM_PREFIX) for header in exchange.headers):
            return None
        schema = self._dispatcher.tool_search.schema(name)
        if schema is None:
            return None
        required = self._parameter_headers.get(name)
        if required is None or required.schema is not schema:
            if len(self._parameter_headers) >= _MAX_TOOLS:
                self._parameter_headers.clear()
            required = self._parameter_headers[name] = ParameterHeaders(schema)
        problem = required.problem(arguments, exchange.scope["headers"])
        return None if problem is None else Refusal(HEADER_MISMATCH, problem, message["id"])

    async def _serve(self, exchange: HttpExchange, message: JSON, *, only_json: bool, takes_json: bool) -> None:
        stream = EventStream(None, self._limits.stream_messages, can_ask=False)
        connection = ClientConnection(NOWHERE, message["params"]["_meta"][meta.PROTOCOL_VERSION_KEY])
        translating = self._revisions.translating_of(message)
        direct = exchange.direct
        call = Call(connection, stream, message, exchange.size, exchange.host, translating, direct)
        if only_json and call.method != "subscriptions/listen":
            call.channel = NOWHERE
        else:
            only_json = False
        self._dispatcher.begin(call, partial(stream.take, call))
        remove = exchange.when_gone(stream.wake)
        try:
            if takes_json and not exchange.is_gone:
                # Only an answer that is not on a stream has an HTTP status, and some errors must have one. But some
                # clients and proxies close a response that stays silent.
                await stream.first(None if only_json else self._limits.ping_interval)
            if stream.answer is not None:
                code = stream.answer.code
                await exchange.json(stream.answer.body, 200 if code is None else HTTP_STATUS.get(code, 200))
                is_first = direct is None and call.method == "tools/call" and code is None
                if is_first and self in exchange.facts and exchange.may_be_direct():
                    self._pass_on_directly(exchange, call)
            elif not exchange.is_gone:
                remove()  # from here on, the response itself notices
                stream.open()
                write = exchange.stream if call.method == "subscriptions/listen" else exchange.answer
                await write(stream.events(), self._limits.ping_interval)
        finally:
            remove()
            connection.close()
            call.sent()
            stream.left(stream.reader)


def _repeated_in_head(message: JSON) -> tuple[Any, ...] | None:
    """Return the facts of a request that its head must repeat; `None` if a required one is missing."""
    try:
        params = message["params"]
        envelope, method = params["_meta"], message["method"]
        name = params[NAMED[method]] if method in NAMED else None
        return (envelope[meta.PROTOCOL_VERSION_KEY], method, name) if meta.CLIENT_CAPABILITIES_KEY in envelope else None
    except (KeyError, TypeError):
        return None
