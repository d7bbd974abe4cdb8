"""A hundred clients with the same ids and the same progress tokens: everybody gets what is theirs."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Script, ScriptedTransport, Wire, legacy, modern
from tests.support.upstreams import FakeRequest, running, text_of

CLIENTS = 100
ERAS = {"modern": modern, "legacy": legacy}
NOBODY = StdioServerSpec("up", "none")


@pytest.mark.requirement("C-24")
@pytest.mark.parametrize("era", ERAS)
@settings(max_examples=5, deadline=None)
@given(order=st.permutations(range(CLIENTS)), pairs=st.integers(0, CLIENTS))
def test_a_hundred_clients_with_equal_ids_get_their_own_answers(era: str, order: Sequence[int], pairs: int) -> None:
    anyio.run(_check, era, order, pairs)


async def _check(era: str, order: Sequence[int], pairs: int) -> None:
    transport = ScriptedTransport(ERAS[era](_answering_in(order, pairs)))
    clients = [FakeRequest({"progressToken": 1, "example.org/trace": number}) for number in range(CLIENTS)]
    answers: dict[int, JSON] = {}

    async def call(number: int) -> None:
        answers[number] = await upstream.call_tool("echo", {"number": number}, clients[number])

    with anyio.fail_after(20):
        limits = UpstreamLimits(max_concurrency=CLIENTS)
        options = ServerOptions(era="2026-07-28" if era == "modern" else "handshake")
        async with running(replace(NOBODY, options=options), limits, transport=transport) as upstream:
            async with anyio.create_task_group() as tasks:
                for number in range(CLIENTS):
                    tasks.start_soon(call, number)
    assert {number: text_of(answer) for number, answer in answers.items()} == {
        number: f"{number} {number}" for number in range(CLIENTS)
    }
    assert [client.progress for client in clients] == [[(number, None, f"of {number}")] for number in range(CLIENTS)]


def _answering_in(order: Sequence[int], pairs: int) -> Script:
    """A server that waits for all calls, and then answers them in another order, some at once with their progress."""

    async def run(wire: Wire) -> None:
        calls: dict[int, JSON] = {}
        while len(calls) < CLIENTS:
            request = await wire.next("tools/call")
            calls[request["params"]["arguments"]["number"]] = request
        tokens = {request["params"]["_meta"]["progressToken"] for request in calls.values()}
        assert len(tokens) == len({request["id"] for request in calls.values()}) == CLIENTS
        for number in order[pairs:]:
            wire.progress(calls[number], number, message=f"of {number}")
        for number in reversed(order):
            if number in order[:pairs]:
                wire.progress(calls[number], number, message=f"of {number}")
            trace = calls[number]["params"]["_meta"]["example.org/trace"]
            result = {"resultType": "complete", "content": [{"type": "text", "text": f"{number} {trace}"}]}
            wire.answer(calls[number], result)

    return run
