"""How long a request may take while its server waits for an answer of ours. In virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gaia_bridge.client import Connection, Deadline, RequestTimeoutError
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Role, Script, Wire, connected, legacy, modern
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

DEADLINE = Deadline(1, 60)
ANSWERED = "answered"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


class Slow(Role):
    """Answers each question after the time that it names, in seconds."""

    def __init__(self) -> None:
        super().__init__({"roots": {}}, roots=self.think)

    async def think(self, params: JSON) -> JSON:
        await anyio.sleep(params["seconds"])
        return {"roots": []}


async def heard_out(wire: Wire, number: str) -> None:
    """Wait for the answer to a question."""
    while (await wire.next()).get("id") != number:
        pass


async def outcomes(script: Script, calls: int, deadline: Deadline = DEADLINE) -> list[tuple[str, float]]:
    """How each of some simultaneous calls of a server ended, and after how many seconds."""
    ended: dict[int, tuple[str, float]] = {}

    async def call(connection: Connection, number: int) -> None:
        began = anyio.current_time()
        try:
            await connection.request("tools/call", deadline=deadline, on_progress=ignore)
            outcome = ANSWERED
        except RequestTimeoutError as error:
            outcome = str(error)
        ended[number] = outcome, round(anyio.current_time() - began, 3)

    async def ignore(*report: Any) -> None:
        pass

    async with connected(legacy(script), delegate=Slow()) as (connection, _), anyio.create_task_group() as tasks:
        for number in range(calls):
            tasks.start_soon(call, connection, number)
    return [ended[number] for number in range(calls)]


def late(seconds: float) -> str:
    return f"did not answer tools/call within {seconds:g} s"


async def test_a_call_that_a_question_belongs_to_is_waited_for_and_others_are_not() -> None:
    async def asks(wire: Wire) -> None:
        first = await wire.next("tools/call")
        await wire.next("tools/call")
        wire.ask("q", "roots/list", {"seconds": 2}, during=first["id"])
        await heard_out(wire, "q")
        wire.answer(first, {})

    assert await outcomes(asks, calls=2) == [(ANSWERED, 2), (late(1), 1)]


@pytest.mark.parametrize("during", [None, 999])
async def test_every_call_is_waited_for_where_nobody_knows_which_a_question_belongs_to(during: int | None) -> None:
    async def asks(wire: Wire) -> None:
        calls = [await wire.next("tools/call") for _ in range(2)]
        wire.ask("q", "roots/list", {"seconds": 2}, during=during)
        await heard_out(wire, "q")
        for call in calls:
            wire.answer(call, {})

    assert await outcomes(asks, calls=2) == [(ANSWERED, 2)] * 2


@pytest.mark.parametrize("known", [True, False])
async def test_progress_before_the_answer_does_not_start_the_idle_time(known: bool) -> None:
    async def asks(wire: Wire) -> None:
        call = await wire.next("tools/call")
        wire.ask("q", "roots/list", {"seconds": 2}, during=call["id"] if known else None)
        await anyio.sleep(0.5)
        wire.progress(call, 1)
        await heard_out(wire, "q")
        wire.answer(call, {})

    assert await outcomes(asks, calls=1) == [(ANSWERED, 2)]


@pytest.mark.parametrize("known", [True, False])
async def test_the_idle_time_starts_anew_with_the_answer(known: bool) -> None:
    async def asks(wire: Wire) -> None:
        call = await wire.next("tools/call")
        await anyio.sleep(0.5)
        wire.ask("q", "roots/list", {"seconds": 2}, during=call["id"] if known else None)

    assert await outcomes(asks, calls=1) == [(late(1), 3.5)]


async def test_of_several_questions_the_last_answer_counts_each_for_its_own_call() -> None:
    async def asks(wire: Wire) -> None:
        first, second = [await wire.next("tools/call") for _ in range(2)]
        wire.ask("a", "roots/list", {"seconds": 0.5}, during=first["id"])
        wire.ask("b", "roots/list", {"seconds": 2}, during=first["id"])
        wire.ask("c", "roots/list", {"seconds": 0.5}, during=second["id"])

    assert await outcomes(asks, calls=2) == [(late(1), 3), (late(1), 1.5)]


@pytest.mark.requirement("S-13")
async def test_a_question_does_not_put_off_the_cap() -> None:
    async def asks(wire: Wire) -> None:
        call = await wire.next("tools/call")
        wire.ask("q", "roots/list", {"seconds": 4}, during=call["id"])

    assert await outcomes(asks, calls=1, deadline=Deadline(1, 2)) == [(late(2), 2)]


@pytest.mark.parametrize("era", [legacy, modern])
async def test_progress_keeps_a_request_alive_that_nobody_wants_to_hear_it_of(era: Callable[[Script], Script]) -> None:
    async def works(wire: Wire) -> None:
        request = await wire.next("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        for place in range(4):
            await anyio.sleep(3)
            params = {"progressToken": str(token) if place % 2 else token, "progress": 1}
            wire.notify("notifications/progress", params)
        wire.answer(request, {"done": True})

    async with connected(era(works)) as (connection, _):
        assert (await connection.request("tools/call", deadline=Deadline(5, 100)))["done"]
        with pytest.raises(RequestTimeoutError, match="within 5 s"):
            await connection.request("tools/call", deadline=Deadline(5, 100))
