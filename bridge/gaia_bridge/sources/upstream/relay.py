"""Forwards requests of clients to one upstream, and its progress, log messages and questions back to the right client.

A server of the handshake era asks with requests of its own, which may not name the call. Then it is clear which client
is meant only while all calls in flight are of one client. Otherwise the question waits until that is so. From then on,
calls of tools that have asked, or may have, take turns with those of other clients that can answer questions, until it
is known that they ask nothing. A call that was given up counts for some time: the server may not have received the
cancellation yet. Requests without a session, and those that a bridge or an agent sends for its clients, each count as
another client's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final

import anyio

from gaia_bridge.calls.call_log import is_traced
from gaia_bridge.calls.direct_call import DirectOrigin
from gaia_bridge.calls.parked_calls import Waiting
from gaia_bridge.client import Connection, Deadline
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import INVALID_PARAMS, AnswerError, ProtocolError
from gaia_bridge.model import LOG_LEVELS, LogMessage
from gaia_bridge.protocol.codes import INVALID_REQUEST, METHOD_NOT_FOUND
from gaia_bridge.protocol.meta import PROGRESS_TOKEN_KEY, TASK_STATUS, forwarded_meta
from gaia_bridge.protocol.vocabulary import (
    CAPABILITY_OF,
    ELICITATION_COMPLETE,
    LOG_MESSAGE,
    is_loud_enough,
    missing_capability,
    question_problem,
)
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.crossing import (
    asking_for,
    check_links,
    links_of,
    params_for_server,
    request_span,
    result_for_client,
    server_error,
)
from gaia_bridge.sources.upstream.past_calls import PastCalls, related_task
from gaia_bridge.sources.upstream.relayed_request import Relay
from gaia_bridge.text.escaping import printable
from gaia_bridge.text.json_types import JSON, is_too_deep
from gaia_bridge.text.redaction import Redactor

logger = logging.getLogger(__name__)

FOR_CLIENTS: Final = frozenset({ELICITATION_COMPLETE, LOG_MESSAGE, TASK_STATUS})
"""The notifications of a server that are for its clients."""
_ROOTS: Final = "roots/list"
_WHOSE: Final = (
    "Calls of several clients are in flight, and the question does not say which of them is meant. Call again: from "
    "now on, calls of tools that may have asked take turns with the others. With "
    '"isolation": "session" in the entry of the server, each client has a connection of its own'
)
"""The error for a question that belongs to no identifiable client. Most servers pass it on to their clients."""

_QUIET_TURNS: Final = 10
"""Turns without a question after which a tool that seems to have asked takes no more: the server may have asked by
itself meanwhile. A tool that was in flight beside others needs one. If such a tool asks again, it takes turns again."""

_OUR_LEVELS: Final[Mapping[str, int]] = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO}
"""The levels of our own log for an upstream's messages; everything more severe is a warning."""


class Relays:
    """The requests of clients that one upstream works on.

    Args:
        limits: How long a call waits for calls of other clients, if questions cannot be told apart, and how long a call
            that was given up may still be the one that the server asks for.
        redactor: Removes the secrets that the server was given from errors that are sent to clients.
    """

    def __init__(
        self,
        upstream: str,
        limits: UpstreamLimits,
        for_log: Callable[[str], str] = printable,
        waiting: Waiting | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._upstream = upstream
        self._redactor = redactor or Redactor()
        self._waiting = waiting or Waiting(limits.max_parked)
        self._patience = limits.call_timeout
        self._past = PastCalls(limits)
        self._for_log = for_log
        self._in_flight: dict[int, Relay] = {}
        self._level: str | None = None
        self._level_set: tuple[Connection, str] | None = None
        self._logs_for: tuple[Connection, str] | None = None
        """The connection and the level of the last call that has one: the server logs at that level, or a lower one."""
        self._first_owner: Hashable = None
        self._first_client: Hashable = None
        """The owner and the client of the first call; `None` before that."""
        self._is_shared = False
        """Whether there were calls of other owners."""
        self._last_user: DirectOrigin | None = None
        """The client of the last direct call, if that is always the same client."""
        self._news: anyio.Event | None = None  # set while a call or a question waits for other calls
        self._queue: deque[Relay] = deque()
        self._unclear: list[object] = []  # one for each question whose client is not clear, oldest first
        self._refusals = 0
        self._wants_roots = False
        self._rooted: ClientRequest | None = None  # the last notification that a client's folders changed
        self._says_when_it_logs = False
        self.askers: dict[Hashable, int] = {}
        """The tools and methods that may have asked something without naming the call, each with the turns in which it
        has to ask nothing before it takes no more."""

    async def call(self, connection: Connection, relay: Relay, deadline: Deadline) -> JSON:
        """Forward a request, and its messages on the way back. Cancelling it cancels the server's work.

        Returns:
            The result as it came, with the `resultType` that the modern revision demands.

        Raises:
            ProtocolError: The upstream answered with a JSON-RPC error.
            ToolError: The user refused an action that the upstream needs.
            UpstreamError: The upstream gave no valid answer, or had no turn for the call.
        """
        modern, request, level = connection.handshake.modern, relay.request, relay.request.log_level
        logs_as_wanted = level is None or self._logs_for == (connection, level)
        if self.askers or request.input_responses or not logs_as_wanted:
            await self._begin(connection, relay)
        number = connection.new_id() if relay.direct is None else relay.direct.number
        # A server of 2026-07-28 logs nothing for a request that does not ask for it (utilities/logging).
        relay.may_log = not modern or level is not None
        self._in_flight[number] = relay
        if not self._is_shared and relay.owner != self._first_owner:
            self._note_user(relay.owner, request.client)
        is_answered, relay.has_failed = False, True
        try:
            ask = partial(
                connection.request,
                relay.method,
                on_progress=relay.progress if PROGRESS_TOKEN_KEY in request.meta else None,
                deadline=deadline,
                rounds=False,
                number=number,
            )
            params = params_for_server(relay, modern=modern)
            if is_traced():
                with request_span(self._upstream, relay.method, params) as traced:
                    result = await ask(traced)
            else:
                result = await ask(params)
            is_answered, relay.has_failed = True, result.get("isError") is True
            self._past.note_answer(request.principal, asyncio.get_running_loop().time(), request, result)
        except ProtocolError as error:
            is_answered = True
            return self._refused(relay, error)
        finally:
            del self._in_flight[number]
            if not is_answered:
                self._past.note_given_up(relay.owner)
            if self._news is not None:
                self._changed()
        if relay.takes_turn:
            self._note_turn(relay)
        if relay.queue is not None:
            await relay.queue.flush()
        if result.get("isError") is True and not is_too_deep(result):  # which is refused
            result = self._redactor.without_known_in(result)
        return result_for_client(result, request, modern=modern)

    async def _begin(self, connection: Connection, relay: Relay) -> None:
        """Check the answers that a request brings, set the log level that its client wants, and wait for its turn."""
        request = relay.request
        if request.input_responses:
            check_links(request.input_responses)
        if relay.direct is None:  # else its request is in flight
            await self.want_logs(connection, request.log_level)
            relay.takes_turn = bool(self.askers) and relay.can_be_asked_something and not connection.handshake.modern
            if relay.takes_turn:
                await self._turn(relay)

    def _refused(self, relay: Relay, error: ProtocolError) -> JSON:
        """Return the result of a call that the server refused: the questions that its client has to answer first."""
        self._past.note_answer(relay.request.principal, asyncio.get_running_loop().time())
        if links := links_of(error):
            self._past.note_links(relay, *links)
            if relay.request.modern:
                return asking_for(links, relay.request.client_capabilities)
        # Data that is nested too deep could be sent to no client.
        data = None if is_too_deep(error.data) else self._redactor.without_known_in(error.data)
        raise server_error(error.code, self._redactor.without_known(error.message), data) from None

    async def answer(self, method: str, params: JSON, during: int | None) -> JSON:
        """Answer a question of the server: ask the client of the call that the server works on.

        Args:
            method: A key of `vocabulary.CAPABILITY_OF`.
            params: The parameters, unchecked.
            during: The id of the call that it belongs to, if known.

        Raises:
            ProtocolError: No client can be asked, or the client refused.
        """
        if problem := question_problem(method, params):
            raise ProtocolError(INVALID_PARAMS, f"{method} cannot be asked like this: {problem}")
        self._wants_roots = self._wants_roots or method == _ROOTS
        was_for_a_call = bool(self._in_flight)
        if during is not None:  # a question of a call that is over has no client
            call = self._in_flight.get(during)
            relay = call if call is not None and call.can_be_asked(method, params) else None
        else:
            relay = await self._asking_call(method, params)
        if relay is None and method == _ROOTS and self._rooted is not None and not was_for_a_call:
            return await self._ask_again(self._rooted)
        if relay is None:
            raise self._refusal(method, params, during)
        self._past.note_links(relay, params)
        relay.asked += 1
        self._changed()
        try:
            with relay.resting() if relay.asked == 1 else nullcontext():
                return await self._put(relay, method, params)
        finally:
            relay.asked -= 1

    async def _put(self, relay: Relay, method: str, params: JSON) -> JSON:
        """Put a question to the client of a call; a standing call itself is ended when it has to give way."""
        if relay.standing is not None:
            return await relay.ask(method, params)
        reasons: list[str] = []
        with anyio.CancelScope() as scope:

            def end(reason: str) -> None:
                reasons.append(reason)
                scope.cancel()

            self._waiting.add(scope, end)
            try:
                return await relay.ask(method, params)
            finally:
                self._waiting.discard(scope)
        raise ProtocolError(INVALID_REQUEST, f"{method} was not answered: {reasons[0]}")

    async def roots_changed(self, connection: Connection, request: ClientRequest) -> None:
        """Notify a server that has asked for roots that the roots of a client changed."""
        if not self._wants_roots or connection.handshake.modern or request.client_capabilities.get("roots") is None:
            return
        if self._rooted is None or self._rooted.client != request.client:
            request.when_client_leaves(partial(self._forget_roots, request.client))
        self._rooted = request
        try:
            await connection.notify("notifications/roots/list_changed")
        except UpstreamError as error:
            logger.debug("upstream %r: %s", self._upstream, error)

    def _forget_roots(self, client: Hashable) -> None:
        if self._rooted is not None and self._rooted.client == client:
            self._rooted = None

    async def _ask_again(self, request: ClientRequest) -> JSON:
        """Return the roots of the client that last reported a change of them, while no call of it is in flight."""
        with anyio.move_on_after(self._patience):
            try:
                return await request.push(_ROOTS, {})
            except AnswerError as error:
                raise error.for_server() from None
        raise ProtocolError(INVALID_REQUEST, f"The client did not answer {_ROOTS} within {self._patience:g} s")

    def _refusal(self, method: str, params: JSON, during: int | None) -> ProtocolError:
        """Return the error for a question that no client can answer: the one that the client itself would send."""
        relays = [relay for number, relay in self._in_flight.items() if during in (None, number)]
        # A client of 2026-07-28 that declares nothing counts as well: its call is not kept standing.
        reachable = [relay for relay in relays if relay.is_reachable or not relay.can_be_asked_something]
        if not reachable:
            return ProtocolError(INVALID_REQUEST, "No call is in flight whose client can be asked anything")
        missing = [missing_capability(method, params, relay.request.client_capabilities) for relay in reachable]
        capability = CAPABILITY_OF[method]
        parts = {part for item in missing if item is not None for part in item[capability]}
        if len(parts) == 1 and all(item is None or item[capability] for item in missing):
            problem = (
                f"The client does not support this kind of {capability}: it did not declare {capability}.{parts.pop()}"
            )
            return ProtocolError(INVALID_PARAMS, problem)
        return ProtocolError(METHOD_NOT_FOUND, f"The client does not support {capability}")

    async def _asking_call(self, method: str, params: JSON) -> Relay | None:
        """Return the call of a question that names none: the one that remains when the others are done, or wait for an
        answer themselves.

        Raises:
            ProtocolError: The others are not done in time, or cannot be, because they wait for such answers as well.
        """
        task = related_task(params)
        # Calls that begin from now on did not ask.
        candidates = dict(self._in_flight) if task is None else self._past.about(task, self._in_flight)
        if candidates and not self.askers:
            logger.info("upstream %r does not say for which call it asks: such calls take turns", self._upstream)
        for relay in candidates.values():
            relay.may_have_asked = True
            self.askers.setdefault(relay.target, 1)
        question, refused = object(), self._refusals
        self._unclear.append(question)
        try:
            with anyio.move_on_after(self._patience):
                while True:
                    relays = [relay for number, relay in candidates.items() if self._in_flight.get(number) is relay]
                    # Whether a client can be asked makes no difference yet: the question may belong to any of them.
                    relays = [relay for relay in relays if not relay.asked] or relays
                    ended = [relay for number, relay in candidates.items() if self._in_flight.get(number) is not relay]
                    unexplained = _failed_of_others(relays, ended) - (self._refusals - refused)
                    if task is None and (self._past.others_given_up(relays) or unexplained > 0):
                        break
                    if _are_of_one_client(relays):
                        if len(relays) == 1:
                            self.askers[relays[0].target] = _QUIET_TURNS
                        return next((relay for relay in reversed(relays) if relay.can_be_asked(method, params)), None)
                    # The newest question gives way: the end of its call makes the others clearer.
                    if self._unclear[-1] is question and len(self._unclear) >= len(relays):
                        break
                    await self._next_change()
        finally:
            self._unclear.remove(question)
            self._changed()
        self._refusals += 1
        logger.warning("upstream %r: %s is refused: calls of several clients are in flight", self._upstream, method)
        raise ProtocolError(INVALID_REQUEST, _WHOSE)

    def _note_user(self, owner: Hashable, client: Hashable) -> None:
        """Note the owner and the client of a call, until there were calls of two owners."""
        if self._first_owner is None:
            self._first_owner, self._first_client = owner, client
        elif owner != self._first_owner:
            self._is_shared = True

    def admits(self, connection: Connection, client: DirectOrigin) -> bool:
        """Return whether a call may be direct: it takes no turn, and the server logs at the client's level."""
        if self.askers:
            return False
        level = None if client.modern else client.log_level
        if level is None or self._logs_for == (connection, level):
            return True
        if self._level is None or self._level_set != (connection, self._level):
            return False
        if level != self._level and is_loud_enough(self._level, level):
            return False
        self._logs_for = connection, level
        return True

    def note_given_up(self, client: DirectOrigin) -> None:
        """Note that a direct call of a client was given up: the server may still ask or log for it."""
        self._past.note_given_up(client.client)

    def note(self, client: DirectOrigin, now: float) -> None:
        """Note that a direct call of a client was answered at that time."""
        if client is not self._last_user and not self._is_shared:
            who = client.client
            self._note_user(who, who)
            self._last_user = client if client.address is None else None
        self._past.note_answer(client.principal, now)

    async def _turn(self, relay: Relay) -> None:
        """Wait while a call would make the client of a question unclear; first come, first served."""
        self._queue.append(relay)
        try:
            with anyio.move_on_after(self._patience):
                while not (self._queue[0] is relay and self._would_be_clear(relay)):
                    await self._next_change()
                return
        finally:
            self._queue.remove(relay)
            self._changed()
        raise UpstreamError("is working for another client, and can only ask one at a time; try again later")

    def _would_be_clear(self, relay: Relay) -> bool:
        calls = [relay, *(other for other in self._in_flight.values() if other.may_ask)]
        return _are_of_one_client(calls) or self.askers.keys().isdisjoint(call.target for call in calls)

    def _note_turn(self, relay: Relay) -> None:
        """Count a turn in which the server asked nothing; after enough of them, the tool takes no more turns."""
        turns = self.askers.get(relay.target)
        if turns is None or relay.has_failed or relay.may_have_asked:
            return
        if turns > 1:
            self.askers[relay.target] = turns - 1
        else:
            del self.askers[relay.target]

    def _changed(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    async def _next_change(self) -> None:
        if self._news is None:
            self._news = anyio.Event()
        await self._news.wait()

    async def want_logs(self, connection: Connection, level: str | None = None) -> None:
        """Set the log level of a server of the handshake era to the lowest level that any client wants.

        Args:
            level: The level that one more client wants, if any.
        """
        if level not in (None, self._level) and (self._level is None or is_loud_enough(self._level, level)):
            self._level = level
        if level is not None:
            self._logs_for = connection, level
        wanted = (connection, self._level)
        if self._level is None or connection.handshake.modern or self._level_set == wanted:
            return
        self._level_set = connection, self._level  # noted first: calls at the same time do not send it again
        try:
            await connection.set_log_level(self._level)
        except (ProtocolError, UpstreamError) as error:
            logger.debug("upstream %r: log level %s: %s", self._upstream, self._level, error)

    def log(self, params: JSON, during: int | None = None) -> bool:
        """Pass a log message on to its client; return whether it is for that client alone.

        If the server says which call or task a message belongs to, the client of that call gets it. Once a server has
        named a call, a message that names none belongs to none. A message of any other server may belong to any call
        in flight that may log, or to one that ended a short while ago. It is passed on only if these are all of one
        client.

        Args:
            params: The parameters of `notifications/message`, unchecked.
            during: The id of the call that it belongs to, if known.
        """
        level, data, name = params.get("level"), params.get("data"), params.get("logger")
        relays = [relay for relay in self._in_flight.values() if relay.may_log]
        if level not in LOG_LEVELS:
            return False
        if during is not None:
            self._says_when_it_logs = True
            relays = [relay for number, relay in self._in_flight.items() if number == during]
            is_clear = True
        elif (task := related_task(params)) is not None and self._past.knows(task):
            relays = [*self._past.about(task, self._in_flight).values()]
            if not relays:
                return False
            is_clear = _are_of_one_client(relays)
        elif self._says_when_it_logs or not (relays or self._is_shared):
            return False
        else:
            past = self._past
            is_clear = _are_of_one_client(relays) and not (past.others_given_up(relays) or past.others_answered(relays))
        if relays and is_clear:
            name = name if isinstance(name, str) else None
            relays[-1].log(LogMessage(level, data, name, forwarded_meta(params)))
        else:
            ours = _OUR_LEVELS.get(level, logging.WARNING)
            logger.log(ours, "upstream %r: %s", self._upstream, self._for_log(str(data)))
        return True

    def only_client(self, method: str, params: JSON) -> Hashable:
        """Return the only client for a notification that belongs to no call in flight; `None` for all clients."""
        if method == ELICITATION_COMPLETE:
            return self._past.asked_to_open(params)
        if method != LOG_MESSAGE:
            return None
        if (task := related_task(params)) is not None and self._past.knows(task):
            return self._past.maker_of(task)
        return None if self._says_when_it_logs else self._first_client


def _failed_of_others(relays: Sequence[Relay], ended: Sequence[Relay]) -> int:
    """Return how many calls of other clients failed: each perhaps because its question was put to nobody."""
    owners = {relay.owner for relay in relays}
    return sum(relay.has_failed and relay.owner not in owners for relay in ended)


def _are_of_one_client(relays: Sequence[Relay]) -> bool:
    return len({relay.owner for relay in relays}) < 2
