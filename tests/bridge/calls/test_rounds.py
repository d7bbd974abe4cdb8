"""Rounds: a request is made again with what its result asked for, and that comes to an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from gaia_bridge.calls.rounds import InputRequest, RoundsError, play_rounds
from gaia_bridge.errors import ProtocolError
from gaia_bridge.server.call import Call
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.server.rounds import brought_to_an_end
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON

pytestmark = pytest.mark.anyio

ROOTS: JSON = {"method": "roots/list"}
DONE: JSON = {"content": []}
MODERN: JSON = {"resultType": "input_required"}


def asks(requests: Any = None, **more: Any) -> JSON:
    return {**MODERN, **({} if requests is None else {"inputRequests": requests}), **more}


class Server:
    """Gives one result after the other, the last of them for ever.

    Args:
        results: What it gives.
    """

    def __init__(self, *results: JSON) -> None:
        self.asked: list[JSON] = []
        self._results = list(results)

    async def again(self, more: JSON) -> JSON:
        self.asked.append(more)
        return self._results.pop(0) if len(self._results) > 1 else self._results[0]

    async def played(self, *, rounds: int = 5) -> JSON:
        return await play_rounds("tools/call", await self.again({}), self.again, answer, rounds=rounds, questions=2)


async def answer(questions: Mapping[str, InputRequest]) -> JSON:
    return {key: {"to": question.method, **question.params} for key, question in questions.items()}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, which takes no time here."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    return pauses


async def test_a_request_is_made_again_with_the_answers_and_the_state_of_the_last_round_alone() -> None:
    link = {"method": "elicitation/create", "params": {"mode": "url"}}
    server = Server(asks({"a": ROOTS, "b": link}, requestState="s"), asks({"c": {**ROOTS, "params": None}}), DONE)
    assert await server.played() == DONE
    assert server.asked[1:] == [
        {
            "inputResponses": {"a": {"to": "roots/list"}, "b": {"to": "elicitation/create", "mode": "url"}},
            "requestState": "s",
        },
        {"inputResponses": {"c": {"to": "roots/list"}}},
    ]


async def test_a_result_that_asks_nothing_is_asked_for_again_after_longer_and_longer_pauses(
    pauses: list[float],
) -> None:
    server = Server(asks(requestState="1"), asks({}), asks(), asks(), DONE)
    assert await server.played() == DONE
    assert server.asked[1:] == [{"requestState": "1"}, {}, {}, {}]
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[-1] <= 0.25


async def test_the_last_round_that_is_allowed_may_be_the_end_and_one_more_is_an_error() -> None:
    assert await Server(asks({"a": ROOTS}), DONE).played(rounds=1) == DONE
    server = Server(asks({"a": ROOTS}))
    with pytest.raises(RoundsError, match="asked for input 3 times without coming to an end of tools/call"):
        await server.played(rounds=3)
    assert len(server.asked) == 4


NONSENSE: list[Any] = [
    [ROOTS],
    "x",
    {"a": None},
    {"a": []},
    {"a": {}},
    {"a": {"method": 5}},
    {"a": {**ROOTS, "params": [1]}},
]


@pytest.mark.parametrize("requests", [*NONSENSE, dict.fromkeys("abc", ROOTS)])
async def test_questions_that_make_no_sense_are_an_error_before_any_is_asked(requests: Any) -> None:
    with pytest.raises(RoundsError, match="answered tools/call with"):
        await Server(asks(requests)).played()


@pytest.mark.parametrize("requests", NONSENSE)
async def test_a_client_that_plays_no_rounds_is_told_whose_questions_make_no_sense(requests: Any) -> None:
    async def ask(call: Call) -> JSON:
        return asks(requests)

    call = Call(ClientConnection(NOWHERE), NOWHERE, {"id": 1, "method": "tools/call"})
    with pytest.raises(ProtocolError, match="The server answered tools/call with"):
        await brought_to_an_end(ask, call, AgentLimits())


async def test_a_server_that_has_nothing_to_ask_yet_is_waited_for_on_behalf_of_a_client_that_plays_no_rounds(
    pauses: list[float],
) -> None:
    server = Server(asks(requestState="1"), asks(requestState="2"), DONE)
    states: list[str | None] = []

    async def ask(call: Call) -> JSON:
        states.append(call.request_state)
        return await server.again({})

    call = Call(ClientConnection(NOWHERE), NOWHERE, {"id": 1, "method": "tools/call"})
    assert await brought_to_an_end(ask, call, AgentLimits()) == DONE
    assert states == [None, "1", "2"]
    assert len(pauses) == 2
