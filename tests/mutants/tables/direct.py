"""Direct calls, and the transports and connections that pass them on."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation, mutations

__all__ = ["TABLE"]

_SERVER: Final = "bridge/gaia_bridge/server/"
_TRANSPORTS: Final = f"{_SERVER}transports/"
_UPSTREAM: Final = "bridge/gaia_bridge/sources/upstream/"

_AGENT: Final = "bridge/gaia_bridge/sources/agent/"
_OF_AGENTS: Final = "tests/bridge/sources/agent/test_direct_tool.py"

_BEHAVIOURS: Final = "tests/bridge/server/test_direct_calls.py"
_IN_FLIGHT: Final = "tests/bridge/server/test_direct_calls_in_flight.py"
_SCENES: Final = f"{_IN_FLIGHT}::test_while_a_direct_call_is_in_flight"
_IN_TURN: Final = f"{_IN_FLIGHT}::test_calls_beyond_the_limit_of_a_server_wait_for_their_turn_in_order"
_TOO_LONG: Final = f"{_IN_FLIGHT}::test_a_call_that_waits_longer_than_a_quick_answer_is_an_ordinary_one"
_WHICH: Final = "tests/bridge/server/test_which_calls_are_direct.py"
_ORDINARY: Final = f"{_WHICH}::test_a_call_takes_the_ordinary_way_where"
_TESTS: Final = "tests/bridge/server/transports/"
_HTTP: Final = f"{_TESTS}test_direct_http.py"
_LINES: Final = f"{_TESTS}test_lines.py"
_UPSTREAM_HTTP: Final = "tests/bridge/sources/upstream/test_direct_upstream_http.py"
_PEER: Final = "tests/bridge/client/test_direct_peer.py"

TABLE: Final[tuple[Mutation, ...]] = (
    # Calls, and how they become ordinary ones.
    *mutations(
        "bridge/gaia_bridge/calls/direct_call.py",
        (_HTTP, _IN_TURN, _TOO_LONG, _SCENES),
        (
            "self.origin.answer(self, result):\n                return",
            "self.origin.answer(self, result):\n                pass",
        ),
        ("        self.reasons.append(reason)\n", "        pass\n"),
        ("            self.route.abandon(self)\n            self.adopt()", "            self.adopt()"),
        ("            self.route.release(self)\n", "            pass\n"),
        ("            self.origin.release(self)\n", "            pass\n"),
        ('or result.get("isError", False) is not False', ""),
        ("and not direct.is_withdrawn else", "else"),
    ),
    *mutations(
        f"{_SERVER}direct_calls.py",
        (_HTTP, _LINES),
        ("        self.routes.clear()\n", "        pass\n"),
        (" or self._name not in (None, name):", ":"),
        ("        if not call.place.can_answer:\n", "        if False:\n"),
        ("if (size := len(body)) > self._most:", "if (size := len(body)) < 0:"),
        ("        self.leave(now)\n        call.route", "        call.route"),
        ("            leave(CallRecord(", "            (CallRecord("),
    ),
    *mutations(
        f"{_SERVER}direct_calls.py",
        (_WHICH, _IN_TURN, _SCENES),
        ("return envelope.keys() <= _ENVELOPE", "return True"),
        ("if route is not None and route.deadline < self._patience:", "if False:"),
        ("or number in self._received or", "or"),
        ("            self.leave(call.began)\n", "            pass\n"),
        ("        call.route.answered(call, now)\n", "        pass\n"),
    ),
    *mutations(
        f"{_AGENT}invoker.py",
        (_OF_AGENTS,),
        ("            active.cancel(_UNPUBLISHED)\n", "            pass\n"),
        ("                active.direct.make_ordinary()\n", "                pass\n"),
        ("except (BusyError, RuntimeError):", "except ZeroDivisionError:"),
        ("        direct.adopt()\n", "        pass\n"),
    ),
    *mutations(
        f"{_AGENT}invocation.py",
        (_OF_AGENTS,),
        ("elif outcome is None or self._notes:", "elif outcome is None:"),
        ("            direct.make_ordinary()\n", "            pass\n"),
    ),
    *mutations(
        "bridge/gaia_bridge/sources/composition/composed.py",
        (_OF_AGENTS,),
        ("        return route.begin(call, arguments)\n", "        return False\n"),
    ),
    *mutations(
        f"{_SERVER}backlog.py",
        ("tests/bridge/server/test_backlog.py",),
        ("if target not in self.sizes or self.sizes[target] >= self.limits.large:", "if False:"),
        ("if (state := self.clients[client]).waiting or state.held", "if (state := self.clients[client]).held"),
    ),
    # How they come, and how they are answered.
    *mutations(
        f"{_TRANSPORTS}http_direct.py",
        (_HTTP, f"{_SCENES}[its_session_ends-2025-11-25]"),
        ("        if session.is_over:\n", "        if False:\n"),
        ("            self.session.leave(now)\n", "            pass\n"),
    ),
    *mutations(
        f"{_TRANSPORTS}streams.py",
        (_LINES,),
        (
            "        if self._owed.count >= self._owed.most:\n            return False",
            "        if False:\n            return False",
        ),
        ("        self._owed.count -= 1\n\n\n", "        pass\n\n\n"),
        ("is_plain = is_bare(call.meta) if call.modern else not call.meta", "is_plain = True"),
    ),
    *mutations(
        f"{_TRANSPORTS}lines.py",
        (_LINES,),
        ("            self._waiting += 1\n            return\n", "            return\n"),
        ("(body)\n        self._count_answer()", "(body)"),
    ),
    *mutations(
        f"{_TRANSPORTS}stdio.py",
        (f"{_TESTS}test_stdio.py",),
        ("            client.close()\n", "            pass\n"),
    ),
    *mutations(
        f"{_TRANSPORTS}event_writer.py",
        (f"{_TESTS}test_event_writer.py",),
        ("        self.wait()\n", "        pass\n"),
        ("remove = when_gone(response.cancel)", "remove = when_gone(lambda: None)"),
    ),
    *mutations(
        f"{_TRANSPORTS}handshake_http.py",
        (f"{_TESTS}test_handshake_http.py",),
        ("            connection.close()\n", "            pass\n"),
    ),
    *mutations(
        f"{_TRANSPORTS}modern_http.py",
        (_HTTP, _ORDINARY),
        ("elif exchange.direct is None and (problem :=", "elif (problem :="),
        ("if schema is None or not ParameterHeaders(schema).is_empty:", "if False:"),
    ),
    *mutations(
        f"{_TRANSPORTS}sessions.py",
        (f"{_TESTS}test_idle_sessions.py",),
        ("if not session.is_in_use and session.idle_since <= longest:", "if session.idle_since <= longest:"),
        ("return self.open > 0 or len(self.connection.received) > 0", "return self.open > 0"),
        ("                self.end(session)\n        self._watch()", "                self.end(session)"),
    ),
    *mutations(
        f"{_SERVER}http/connection.py",
        (_HTTP, f"{_SCENES}[it_is_cancelled_by_its_client-2026-07-28]"),
        ("if last.facts[ADMITTED]() and (call", "if (call"),
        ("self._direct, self._part = call, _Part.NEXT", "self._direct = call"),
        ("        self._make_ordinary()\n        self._part", "        self._part"),
        ("        self._make_ordinary()\n        super().shutdown()", "        super().shutdown()"),
    ),
    # How they go to a server.
    *mutations(
        f"{_UPSTREAM}direct_tool.py",
        (_WHICH, f"{_SCENES}[it_is_cancelled_by_its_client-2026-07-28]"),
        ('if plain is None or "structuredContent" not in plain:', "if True:"),
        ("        connection.abandon(call)\n", "        pass\n"),
    ),
    *mutations(
        f"{_UPSTREAM}direct_tool.py",
        (_WHICH, _IN_TURN, _UPSTREAM_HTTP),
        ("modern is not client.modern:\n            return None", "modern is None:\n            return None"),
        ("            self.release(call)\n            return False", "            return False"),
        ("            return\n        call.make_ordinary()", "            return"),
        (
            "None if call.is_withdrawn else self._ready(call)",
            "self._ready(call)",
            "it counts if a call is cancelled between the end of another and the next step of the event loop",
        ),
    ),
    *mutations(
        f"{_UPSTREAM}supervised_connection.py",
        (_WHICH, _IN_TURN, _UPSTREAM_HTTP),
        ("        relay.direct = None\n", "        pass\n"),
    ),
    *mutations(
        f"{_UPSTREAM}turns.py",
        (_WHICH, _IN_TURN, _UPSTREAM_HTTP),
        (
            "        self._free -= 1\n        self.count += 1\n        return True",
            "        self._free -= 1\n        return True",
        ),
    ),
    *mutations(
        f"{_UPSTREAM}direct_tool.py",
        (f"{_IN_FLIGHT}::test_a_log_message_of_a_cancelled_call_reaches_no_other_client",),
        ("        self._relays.note_given_up(call.origin)  # first", "        pass  # first"),
    ),
    *mutations(
        f"{_UPSTREAM}relay.py",
        (_ORDINARY, f"{_WHICH}::test_what_a_server_logs_for_a_stranger_reaches_nobody_else"),
        ("        if self.askers:\n            return False", "        if False:\n            return False"),
        ("        if level != self._level and is_loud_enough(self._level, level):\n", "        if False:\n"),
        ("self._past.note_answer(client.principal, now)", "pass"),
        ("            self._note_user(who, who)\n", "            pass\n"),
    ),
    *mutations(
        f"{_UPSTREAM}source.py",
        (_WHICH,),
        (
            "if self._tracker.published.is_transformed(name) or self._private is not None:",
            "if self._private is not None:",
        ),
        (
            "if self._tracker.published.is_transformed(name) or self._private is not None:",
            "if self._tracker.published.is_transformed(name):",
        ),
    ),
    *mutations(
        "bridge/gaia_bridge/client/json_rpc_peer.py",
        (_PEER, _WHICH),
        ("        if self.direct:\n            self._deferred", "        if False:\n            self._deferred"),
        ("(call.number)\n        self._tell_deferred()", "(call.number)"),
        (" or self._deferred:\n            return False", ":\n            return False"),
        ("                self._direct_link.abandon(call.number)\n\n", "                pass\n\n"),
    ),
    *mutations(
        "bridge/gaia_bridge/client/json_rpc_peer.py",
        (_BEHAVIOURS,),
        ("            meta = {**meta, HOPS_META_KEY: [own]}\n", "            pass\n"),
    ),
    *mutations(
        "bridge/gaia_bridge/client/transports/children/stdio.py",
        (
            "tests/bridge/client/transports/children/test_stdio.py",
            f"{_SCENES}[it_is_cancelled_by_its_client-2025-11-25]",
        ),
        ("if self._reason is not None or not self._input.is_ready:", "if self._reason is not None:"),
        ("        self._input.post(encoded_message(cancellation(number)))\n\n    async", "        pass\n\n    async"),
    ),
    *mutations(
        "bridge/gaia_bridge/client/transports/children/stdio.py",
        (_BEHAVIOURS,),
        (
            "        except UpstreamError:\n            return False",
            "        except KeyError:\n            return False",
        ),
    ),
    *mutations(
        "bridge/gaia_bridge/client/transports/http/http_link.py",
        (_UPSTREAM_HTTP, "tests/bridge/client/transports/http/test_streamable_http.py"),
        ("            self._cancellation.take_reason()\n", "            pass\n"),
        (
            "except Exception as error:\n            self._waiter.set_exception(error)\n",
            "except Exception:\n            raise\n",
        ),
        ("            begun.interrupt(self.error_of_end)\n", "            pass\n"),
        ("            self._link.withdraw(self._message)\n", "            pass\n"),
        ('or response["id"] != number or', "or"),
    ),
    *mutations(
        "bridge/gaia_bridge/protocol/kinds.py",
        ("tests/bridge/protocol/test_kinds.py",),
        ("            yield None, definition\n", "            pass\n"),
    ),
)
