"""One published endpoint: carries out every method of MCP on a catalog, for every transport and both eras.

A transport makes a `Call` of each request and has it answered here. Whatever goes wrong on the way becomes a JSON-RPC
error in one place; nothing unforeseen reaches a client as text.

Its steps are the same for all methods. `methods` has the table of these, and what differs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

import anyio
from msgspec import Struct

from gaia_bridge.calls.bridge_hops import HOPS_META_KEY, check_hops, new_id
from gaia_bridge.calls.call_log import is_traced
from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.calls.results.conversion import is_input_required, jsonable, words
from gaia_bridge.errors import ProtocolError, RequestError
from gaia_bridge.middleware.base import Middleware
from gaia_bridge.model import Change
from gaia_bridge.protocol import codes
from gaia_bridge.protocol.headers import NAMED
from gaia_bridge.protocol.messages import Refusal, encoded_error, encoded_result
from gaia_bridge.protocol.parameters import parameter_problem
from gaia_bridge.protocol.sealed_state import StateSeal
from gaia_bridge.server.backlog import Backlog
from gaia_bridge.server.call import Call
from gaia_bridge.server.call_log import begin_of, log_call, outcome_of, outcome_of_error, request_span
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.client_results import ClientResults
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.server.direct_calls import DirectCalls
from gaia_bridge.server.methods import Methods
from gaia_bridge.server.middleware_chain import MiddlewareChain
from gaia_bridge.server.published_search import PublishedSearch
from gaia_bridge.server.subscriptions import Subscribers
from gaia_bridge.settings import Settings
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_object

logger = logging.getLogger(__name__)

_ERROR_BYTES: Final = 64 * 1024
"""Bytes of the data of one JSON-RPC error."""
_TURNS: Final = 3
"""Turns of the event loop that all other tasks get between two large answers."""
_ID_IN_USE: Final = "This id belongs to a request that is not answered yet; expected one of its own for each request"


class Answer(Struct, frozen=True):
    """The answer to one request."""

    body: bytes
    """A JSON-RPC response; empty if the client has cancelled the request, and so gets no answer."""
    code: int | None = None
    """The code of the error, if the response is one."""


_NO_ANSWER: Final = Answer(b"")


class Dispatcher:
    """A catalog, published.

    Args:
        path: The path of the endpoint; its last part is the name that middleware is given.
        own: The id of the bridge, which marks its requests and definitions (`calls/bridge_hops`); a new one if empty.
        backlog: The backlog of clients, of all endpoints of the process; of this one alone if `None`.
        middleware: The middleware around requests, the outermost first.
    """

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        path: str,
        own: str = "",
        backlog: Backlog | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.catalog = catalog
        self.settings = settings
        self._own = own or new_id()
        self.subscriptions = Subscribers(catalog, settings.subscriptions)
        """The clients that are notified of changes, while it runs."""
        self.tool_search = PublishedSearch(catalog, settings.tool_search, settings.tool_search_bytes)
        self._results = ClientResults(catalog, settings)
        self._seal = StateSeal(settings.agent.state_lifetime)
        self._chain = MiddlewareChain(middleware, path.rpartition("/")[2], catalog, settings.agent)
        self._methods = Methods(
            catalog, settings, self.tool_search, self._results, self.subscriptions, self._own, self._chain
        )
        self._large = anyio.Lock()
        self._backlog = backlog or Backlog(settings.backlog)
        self._traced = is_traced()
        self.direct: DirectCalls | None = None
        if settings.direct_calls and not middleware and not self._traced:
            patience = min(settings.http.quick_answer, settings.upstream.call_timeout, settings.upstream.call_cap)
            self.direct = DirectCalls(catalog, self._backlog, self._results, patience)
        catalog.listen(self._on_change)

    # The entrances for transports.

    def begin(self, call: Call, answered: Callable[[Answer], Awaitable[None]]) -> asyncio.Task[None]:
        """Work on a request in a task of its own; `answered` takes the answer, unless the program ends before."""
        task = call.task = asyncio.get_running_loop().create_task(self._run(call, answered))
        direct = call.direct
        call.has_free_id = call.connection.received.begin(call.id, call, direct)
        if direct is not None:
            direct.take()
            if direct.reasons:
                call.cancel(direct.reasons[0])
        return task

    def own_request(self, request: OwnRequest) -> Awaitable[JSON]:
        """Return the result of a tool or a prompt, for a caller that is no client of MCP. Middleware applies as well.

        Args:
            request: Its `method` is `tools/call` or `prompts/get`; its parameters have the public name.

        Raises:
            RequestError: As for a client's request.
        """
        call = cast("Call", request)  # it has all that these two methods ask of a call
        return self._methods.row(call).handler(call)

    def notified(self, connection: ClientConnection, message: JSON) -> None:
        """Handle a notification, or the answer to a question."""
        if "method" not in message:
            connection.answered(message)
            return
        params = message.get("params")
        params = params if is_object(params) else {}
        match message["method"]:
            case "notifications/cancelled":
                connection.received.cancel(params.get("requestId"), params.get("reason"))
            case "notifications/progress":
                connection.progressed(params)
            case "notifications/initialized" if connection.is_greeted:
                connection.is_initialized = True
                self.subscriptions.add_legacy(connection)
            case "notifications/roots/list_changed" if connection.is_greeted:
                self._methods.roots_changed(Call(connection, connection.standing, message))
            case method:
                logger.debug("nobody here knows the notification %s", printable(str(method), 100))

    async def _run(self, call: Call, answered: Callable[[Answer], Awaitable[None]]) -> None:
        call.has_begun = True
        call.cancellation.enter()
        try:
            answer = self._never_begun(call) if call.is_cancelled else await self._answer(call)
        except BaseException:
            call.sent()
            raise
        finally:
            call.task = None
            call.connection.received.end(call.id, call)
            if call.direct is not None:
                call.direct.dismiss()
        if answer.body and call.translating is not None:
            answer = Answer(call.written(answer.body), answer.code)
        if (turn := call.turn) is not None:
            if call.has_left:  # while it waited for its turn
                turn.over()
            turn.answered(len(answer.body))
        if len(answer.body) > self.settings.agent.large_result_bytes:
            async with self._large:  # each is written in steps that nobody can interrupt
                for _ in range(_TURNS):
                    await anyio.lowlevel.checkpoint()
        await answered(answer)

    def _never_begun(self, call: Call) -> Answer:
        if call.direct is not None and (began := begin_of(call)) is not None:  # its source has worked on it
            log_call(self.catalog, call, began, "cancelled", 0)
        return _NO_ANSWER

    async def _answer(self, call: Call) -> Answer:
        began = begin_of(call)
        outcome, answer = "failed", _NO_ANSWER
        try:
            if not call.has_free_id:
                raise ProtocolError(codes.INVALID_REQUEST, _ID_IN_USE)
            result = await (self._traced_result(call) if self._traced else self._result(call))
            if call.is_cancelled:
                outcome = "cancelled"
            else:
                outcome, body = "" if began is None else outcome_of(result), encoded_result(call.id, result)
                if call.method == "tools/call" and self._results.may_change(result, len(body)):
                    fitted = await self._results.fitted(call, result, len(body))
                    body = body if fitted is result else encoded_result(call.id, fitted)
                answer = Answer(body)
        except asyncio.CancelledError:
            outcome = "cancelled"
            task = asyncio.current_task()
            if not call.is_cancelled or task is None or task.uncancel():
                raise
        except Exception as error:
            problem = self._error(call, error)
            outcome = outcome_of_error(problem.code)
            if not call.is_cancelled:
                refusal = Refusal(problem.code, problem.message, call.id, problem.data)
                answer = Answer(encoded_error(refusal), problem.code)
        finally:
            if began is not None:
                log_call(self.catalog, call, began, outcome, len(answer.body))
        return answer

    async def _traced_result(self, call: Call) -> JSON:
        with request_span(call) as record:
            result = await self._result(call)
            record(result)
            return result

    def _error(self, call: Call, error: Exception) -> ProtocolError:
        """Return the error for a client, with a code that its revision has (basic, "Error codes")."""
        if isinstance(error, ProtocolError):
            code, data = error.code, _error_data(error)
            if call.modern and code == codes.LEGACY_RESOURCE_NOT_FOUND:
                code, data = codes.INVALID_PARAMS, _with_uri(data, call.params.get("uri"))
            elif call.modern and codes.is_reserved(code):
                code = codes.INTERNAL_ERROR
            return ProtocolError(code, words(error), data)
        if isinstance(error, RequestError):
            return ProtocolError(codes.INTERNAL_ERROR, words(error))
        logger.error("a request failed", exc_info=error)
        return ProtocolError(codes.INTERNAL_ERROR, "Internal error")

    # The results of requests.

    async def _result(self, call: Call) -> JSON:
        row = self._methods.row(call)
        if not row.method.is_small:
            target = call.method, str(call.params.get(NAMED.get(call.method, "cursor")))
            if call.direct is None:
                call.turn = await self._backlog.begin(call.principal, target, call.connection.cut)
            else:
                call.turn = self._backlog.begin_at_once(call.principal, target)
        if HOPS_META_KEY in call.meta:
            check_hops(call.meta, self._own, self.settings.max_hops)
        if not row.params.accepts(call.params):
            raise ProtocolError(codes.INVALID_PARAMS, parameter_problem(call.method, call.params, modern=call.modern))
        if row.method.needs_greeting and not call.connection.is_greeted:
            problem = f"{call.method} came before the handshake; send initialize first"
            raise ProtocolError(codes.INVALID_PARAMS, f"Invalid request parameters: {problem}")
        has_state = row.method.is_stateful and call.modern
        if has_state:
            if (state := call.params.get("requestState")) is not None:
                call.request_state = self._seal.opened(state, call.method, call.params)
            call.input_responses = call.params.get("inputResponses") or {}
        result = await row.handler(call)
        if has_state and is_input_required(result) and isinstance(state := result.get("requestState"), str):
            result = {**result, "requestState": self._seal.seal(state, call.method, call.params)}
        return self._results.of_era(call, result, is_cacheable=row.method.is_cacheable)

    def _on_change(self, change: Change) -> None:
        if change.kind.is_offer and self.direct is not None:
            self.direct.forget_routes()
        self._chain.changed(change)
        self.subscriptions.publish(change)


def _error_data(error: ProtocolError) -> Any:
    """Return the data that an error carries beside its message; agents raise them too, so it can be anything."""
    if error.data is None:
        return None
    try:
        return jsonable(error.data, _ERROR_BYTES)[0]
    except BaseException as problem:  # noqa: B036 - to read it can run the agent's code
        logger.warning("the data of the error %r is left out: %s", words(error), words(problem))
        return None


def _with_uri(data: Any, uri: Any) -> Any:
    if not isinstance(uri, str) or not (data is None or is_object(data)):
        return data
    return {"uri": uri, **(data or {})}
