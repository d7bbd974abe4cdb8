"""One published endpoint: carries out every method of MCP on a catalog, for every transport and both eras.

A transport makes a `Call` of each request and has it answered here. Whatever goes wrong on the way becomes a JSON-RPC
error in one place; nothing unforeseen reaches a client as text.

Requests beyond the core of MCP (extensions, tasks, methods that only a server and its clients know) go unchanged to the
server of the endpoint, or to the one that made the task. Clients are told which extensions their servers declare.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import anyio
from msgspec import Struct

from gaia_bridge.calls.bridge_hops import check_hops, new_id
from gaia_bridge.calls.call_log import is_traced
from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.calls.results.conversion import is_input_required, jsonable, words
from gaia_bridge.contract import Source
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError, RequestError
from gaia_bridge.middleware.base import Middleware
from gaia_bridge.model import Change, SourceKind
from gaia_bridge.protocol import codes, meta
from gaia_bridge.protocol.headers import NAMED
from gaia_bridge.protocol.kinds import KIND_OF_METHOD
from gaia_bridge.protocol.messages import Refusal, encoded_error, encoded_result
from gaia_bridge.protocol.meta import TASK_ID, with_public_task
from gaia_bridge.protocol.parameters import EXTENSION_METHODS, HANDSHAKE_METHODS, MODERN_METHODS, check_parameters
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, LATEST_HANDSHAKE
from gaia_bridge.protocol.sealed_state import STATEFUL_METHODS, StateSeal
from gaia_bridge.protocol.skills import SKILLS_GET, declares_skills
from gaia_bridge.protocol.vocabulary import for_modern_questions
from gaia_bridge.server.backlog import Backlog, CallTurn
from gaia_bridge.server.call import Call
from gaia_bridge.server.call_log import begin_of, log_call, outcome_of, outcome_of_error, request_span
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.client_results import ClientResults, content_for
from gaia_bridge.server.connection import ClientConnection
from gaia_bridge.server.direct_calls import DirectCalls
from gaia_bridge.server.introduction import (
    TASKS_EXTENSION,
    capabilities_of,
    discover_result,
    initialize_result,
    instructions_room,
    met,
)
from gaia_bridge.server.known_clients import known_client
from gaia_bridge.server.methods import Methods
from gaia_bridge.server.middleware_chain import MiddlewareChain
from gaia_bridge.server.published_search import PublishedSearch
from gaia_bridge.server.subscriptions import Subscribers
from gaia_bridge.settings import Settings
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_array, is_object

logger = logging.getLogger(__name__)

_ERROR_BYTES: Final = 64 * 1024
"""Bytes of the data of one JSON-RPC error."""
_TURNS: Final = 3
"""Turns of the event loop that all other tasks get between two large answers."""
_OF_MODERN_RESULTS: Final = ("resultType", "ttlMs", "cacheScope")
"""The fields that results of earlier revisions do not have."""
_CACHEABLE: Final = frozenset(("resources/read", "server/discover", SKILLS_GET, *KIND_OF_METHOD))
"""The requests whose results say how long they may be kept (2026-07-28, server/utilities/caching)."""
_SMALL: Final = frozenset(
    ("initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen")
)
"""The requests whose answers are short, or come at no foreseeable time: they do not wait for a turn in the backlog."""
_BY_STATE: Final = {"resultType": "complete"}
_ID_IN_USE: Final = "This id belongs to a request that is not answered yet; expected one of its own for each request"
_KEPT_BY_NOBODY: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
TASKS: Final = "tasks/"
"""The first characters of the methods of tasks."""
_OF_EXTENSION: Final = frozenset({"tasks/cancel", "tasks/get", "tasks/update"})
"""The methods of tasks in 2026-07-28, where they are an extension. There is no list, as there is no session."""


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
        self._forward = self._chain.around("", self._forwarded)
        self._large = anyio.Lock()
        self._backlog = backlog or Backlog(settings.backlog)
        self._stamp: JSON | None = None
        self._traced = is_traced()
        self.direct: DirectCalls | None = None
        if settings.direct_calls and not middleware and not self._traced:
            patience = min(settings.http.quick_answer, settings.upstream.call_timeout, settings.upstream.call_cap)
            self.direct = DirectCalls(catalog, self._backlog, self._results, patience, self.stamp)
        catalog.listen(self._on_change)

    # The entrances for transports.

    def begin(self, call: Call, answered: Callable[[Answer], Awaitable[None]]) -> asyncio.Task[None]:
        """Work on a request in a task of its own; `answered` takes the answer, unless the program ends before."""
        task = asyncio.get_running_loop().create_task(self._run(call, answered))
        call.runs_in(task)
        return task

    def own_request(self, request: OwnRequest) -> Awaitable[JSON]:
        """Return the result of a tool or a prompt, for a caller that is no client of MCP. Middleware applies as well.

        Args:
            request: Its `method` is `tools/call` or `prompts/get`; its parameters have the public name.

        Raises:
            RequestError: As for a client's request.
        """
        return self._methods.serve(cast("Call", request))  # it has all that these two methods ask of a call

    def notified(self, connection: ClientConnection, message: Mapping[str, Any]) -> None:
        """Handle a notification."""
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
        call.begins()
        try:
            answer = self._never_begun(call) if call.is_cancelled else await self._answer(call)
        except BaseException:
            call.sent()
            raise
        finally:
            call.is_over()
            if call.direct is not None:
                call.direct.dismiss()
        if answer.body and call.translating is not None:
            answer = Answer(call.written(answer.body), answer.code)
        if call.turn is not None:
            call.turn.answered(len(answer.body))
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
            if call.method not in _SMALL:
                call.takes_turn(await self._turn(call))
            result = await (self._traced_result(call) if self._traced else self._result(call))
            if call.is_cancelled:
                outcome = "cancelled"
            else:
                outcome, written = outcome_of(result), Answer(encoded_result(call.id, result))
                if call.method == "tools/call" and self._results.may_change(result, len(written.body)):
                    written = await self._passed_on(call, result, written)
                answer = written
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

    async def _turn(self, call: Call) -> CallTurn:
        target = call.method, str(call.params.get(NAMED.get(call.method, "cursor")))
        if call.direct is not None:
            return self._backlog.begin_at_once(call.principal, target)
        return await self._backlog.begin(call.principal, target, call.connection.cut)

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
        check_hops(call.meta, self._own, self.settings.max_hops)
        if call.modern:
            return self._enveloped(call, await self._modern(call))
        result = await self._handshake(call)
        if call.connection.revision != LATEST_HANDSHAKE:
            result = content_for(call.connection.revision, call.method, result)
        return {key: result[key] for key in result if key not in _OF_MODERN_RESULTS}

    async def _handshake(self, call: Call) -> JSON:
        if call.method not in HANDSHAKE_METHODS and not self._is_of_skills(call):
            return await self._forward(call)
        check_parameters(call.method, call.params, modern=False)
        if call.method == "initialize":
            return await self._initialize(call)
        if call.method == "ping":
            return {}
        if not call.connection.is_greeted:
            problem = f"{call.method} came before the handshake; send initialize first"
            raise ProtocolError(codes.INVALID_PARAMS, f"Invalid request parameters: {problem}")
        return await self._methods.serve(call)

    async def _modern(self, call: Call) -> JSON:
        if call.method not in MODERN_METHODS and not self._is_of_skills(call):
            if call.method in HANDSHAKE_METHODS:
                raise _unknown(call)
            return await self._forward(call)
        check_parameters(call.method, call.params, modern=True)
        if call.method == "server/discover":
            await met(self.catalog, call, self.settings)
            room = instructions_room(call, self.settings.clients)
            return self._declaring(call, room, discover_result(self.catalog, self.settings.revisions, room))
        if call.method not in STATEFUL_METHODS:
            return await self._methods.serve(call)
        if (state := call.params.get("requestState")) is not None:
            call.request_state = self._seal.opened(state, call.method, call.params)
        call.input_responses = call.params.get("inputResponses") or {}
        result = await self._methods.serve(call)
        if "requestState" in result and is_input_required(result) and isinstance(state := result["requestState"], str):
            return {**result, "requestState": self._seal.seal(state, call.method, call.params)}
        return result

    def _is_of_skills(self, call: Call) -> bool:
        """Return whether a request is about skills, and answered here; raise if no source here has any."""
        if call.method not in EXTENSION_METHODS:
            return False
        sent = call.connection.sent_capabilities or {}  # counts even if its server has left since
        declared = declares_skills(sent) or declares_skills(capabilities_of(self.catalog, modern=call.modern))
        if self.catalog.server is None and not declared:
            raise _unknown(call)
        return True

    async def _initialize(self, call: Call) -> JSON:
        connection = call.connection
        if connection.is_initialized:  # until then a client may repeat itself
            problem = "The handshake of this connection is complete; open another one for a new one"
            raise ProtocolError(codes.INVALID_REQUEST, problem)
        connection.initialize_result = dict(call.params)
        await met(self.catalog, call, self.settings)
        room = instructions_room(call, self.settings.clients)
        result = self._declaring(call, room, initialize_result(self.catalog, call.params, room))
        connection.revision = result["protocolVersion"]
        connection.sent_capabilities = result["capabilities"]
        connection.is_greeted = True
        return result

    async def _passed_on(self, call: Call, result: JSON, answer: Answer) -> Answer:
        small = await self._results.fitted(call, result, len(answer.body))
        if small is result:
            return answer
        if not call.modern:
            small = content_for(call.connection.revision, call.method, small)
        return Answer(encoded_result(call.id, small))

    def _declaring(self, call: Call, room: int | None, result: JSON) -> JSON:
        """Return an introduction that also declares the needs of middleware, kept results and cut instructions."""
        added = {**self._chain.capabilities, **self._results.capabilities(call)}
        if room is not None and (instructions := result.get("instructions")) is not None:
            if instructions != self.catalog.info(modern=call.modern).instructions:
                added["resources"] = {}
        return {**result, "capabilities": {**added, **result["capabilities"]}} if added else result

    async def _forwarded(self, call: Call) -> JSON:
        """Return the result of a request that the endpoint itself does not know."""
        target, is_of_tasks = None, call.method.startswith(TASKS)
        if is_of_tasks:
            await self.catalog.settle()
        if call.connection.is_greeted and call.method != "server/discover":
            target = target_of(self.catalog, call.method, call.params, call.connection.revision)
        if target is None:
            raise _unknown(call)
        is_own = partial(self.subscriptions.has_made, call.connection)
        if is_of_tasks and not call.modern and TASK_ID in call.params and not is_own(call.params[TASK_ID]):
            raise no_such_task()
        source, params = target
        call.task_prefix = self.catalog.task_prefix(source)
        result = await source.forward(call.method, params, call)
        if is_input_required(result):
            return result
        if is_of_tasks and is_array(tasks := result.get("tasks")):
            result = {**result, "tasks": [task for task in tasks if is_object(task) and is_own(task.get(TASK_ID))]}
        return with_public_task(self.catalog.addresses.outward(source, result), call.task_prefix)

    def _enveloped(self, call: Call, result: JSON) -> JSON:
        """Return a result with the fields of 2026-07-28: its kind, how long it may be kept, and its server."""
        if is_input_required(result):
            ids = known_client(str(call.client_info.get("name", ""))).wants_link_ids
            whole = for_modern_questions(result, call.client_capabilities, with_link_ids=ids)
        else:
            whole = (_KEPT_BY_NOBODY if call.method in _CACHEABLE else _BY_STATE) | result
        about, stamp = result.get("_meta"), self.stamp()
        # `_meta` may hold anything in results of other methods than those of the core.
        return {**whole, "_meta": {**stamp, **about} if is_object(about) else stamp}

    def stamp(self) -> JSON:
        """Return the `_meta` of results for clients of 2026-07-28."""
        if self._stamp is None:
            self._stamp = {meta.SERVER_INFO_KEY: self.catalog.implementation(modern=True)}
        return self._stamp

    def _on_change(self, change: Change) -> None:
        if change.kind.is_offer:
            self._stamp = None
            if self.direct is not None:
                self.direct.forget_routes()
        self._chain.changed(change)
        self.subscriptions.publish(change)


def _unknown(call: Call) -> ProtocolError:
    return ProtocolError(codes.METHOD_NOT_FOUND, "Method not found", printable(call.method))


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


def target_of(catalog: Catalog, method: str, params: Mapping[str, Any], revision: str) -> tuple[Source, JSON] | None:
    """Return the source of a request whose method the endpoint does not know, and its parameters there; else `None`.

    Raises:
        ProtocolError: The request is about a task that does not exist.
    """
    if method.startswith(TASKS) and not _has_tasks(catalog, method, revision):
        return None
    servers = [source for source in catalog.sources if source.kind is SourceKind.SERVER]
    own = {key: value for key, value in params.items() if key != "_meta"}
    if len(catalog.sources) == 1:
        return (servers[0], own) if servers else None
    if not method.startswith(TASKS) or TASK_ID not in params:
        return None
    identifier = str(params[TASK_ID])
    source = next((source for source in servers if identifier.startswith(catalog.task_prefix(source))), None)
    if source is None:
        raise no_such_task()
    return source, {**own, TASK_ID: identifier.removeprefix(catalog.task_prefix(source))}


def no_such_task() -> ProtocolError:
    """Return the error for a task that does not exist, or that another client made."""
    return ProtocolError(INVALID_PARAMS, "There is no such task")


def _has_tasks(catalog: Catalog, method: str, revision: str) -> bool:
    """Return whether a client of a revision sees that there are tasks, and its revision has the method."""
    if revision in HANDSHAKE_REVISIONS:
        return revision == LATEST_HANDSHAKE and "tasks" in capabilities_of(catalog, modern=False)
    extensions = capabilities_of(catalog, modern=True).get("extensions", {})
    return method in _OF_EXTENSION and TASKS_EXTENSION in extensions
