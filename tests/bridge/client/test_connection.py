"""The rounds of a modern request that needs input."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia_bridge.client import Deadline, RequestTimeoutError
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import QUICK, Role, Script, Wire, connected, legacy, modern
from tests.support.on_demand import mcp_types

pytestmark = pytest.mark.anyio

FORM: JSON = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
ACCEPTED: JSON = {"action": "accept", "content": {"name": "Ada"}}
DONE: JSON = {"resultType": "complete", "content": []}


def asking(*names: str, state: Any = None, method: str = "elicitation/create") -> JSON:
    requests = {name: {"method": method, "params": FORM | {"message": name}} for name in names}
    result: JSON = {"resultType": "input_required"}
    result |= {"inputRequests": requests} if names else {}
    return result | ({} if state is None else {"requestState": state})


def answering(*results: JSON) -> Script:
    async def run(wire: Wire) -> None:
        for result in results:
            wire.answer(await wire.next("tools/call"), result)

    return run


async def test_a_question_is_answered_and_the_request_made_again_with_its_state() -> None:
    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    params = {"name": "x", "arguments": {"a": 1}, "_meta": {"vendor/key": 1}}
    state = "opaque \u2028 😀 ="
    async with connected(modern(answering(asking("who", state=state), DONE)), delegate=delegate) as (connection, wire):
        assert await connection.request("tools/call", params) == DONE
        first, second = wire.received[-2:]
        assert second["id"] != first["id"]
        meta = {**first["params"]["_meta"], "progressToken": second["id"]}
        more = {"_meta": meta, "inputResponses": {"who": ACCEPTED}, "requestState": state}
        assert second["params"] == first["params"] | more
        assert delegate.asked == [("elicitation/create", FORM | {"message": "who"})]
        assert params == {"name": "x", "arguments": {"a": 1}, "_meta": {"vendor/key": 1}}


async def test_a_round_without_state_is_repeated_without_one_and_old_answers_are_not_repeated() -> None:
    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    rounds = answering(asking("a", state="s1"), asking("b"), DONE)
    async with connected(modern(rounds), delegate=delegate) as (connection, wire):
        await connection.request("tools/call", {"name": "x"})
        more = [{key: value for key, value in sent["params"].items() if key != "_meta"} for sent in wire.received[1:]]
        assert more == [
            {"name": "x"},
            {"name": "x", "inputResponses": {"a": ACCEPTED}, "requestState": "s1"},
            {"name": "x", "inputResponses": {"b": ACCEPTED}},
        ]


async def test_all_questions_of_a_round_are_put_at_once() -> None:
    both = anyio.Event()
    open_questions: list[str] = []

    async def waits_for_the_other(params: JSON) -> JSON:
        open_questions.append(params["message"])
        if len(open_questions) == 2:
            both.set()
        await both.wait()
        return {"action": params["message"]}

    delegate = Role({"elicitation": {}}, elicitation=waits_for_the_other)
    async with connected(modern(answering(asking("a", "b"), DONE)), delegate=delegate) as (connection, wire):
        await connection.request("tools/call")
        assert wire.received[-1]["params"]["inputResponses"] == {"a": {"action": "a"}, "b": {"action": "b"}}


async def test_a_result_that_asks_nothing_is_asked_for_again() -> None:
    async with connected(modern(answering(asking(state="s1"), DONE))) as (connection, wire):
        assert await connection.request("tools/call") == DONE
        params = wire.received[-1]["params"]
        assert params["requestState"] == "s1"
        assert "inputResponses" not in params


async def test_rounds_come_to_an_end() -> None:
    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    limits = UpstreamLimits(max_rounds=3)
    async with connected(modern(answering(*[asking("a")] * 9)), delegate=delegate, limits=limits) as (connection, wire):
        with pytest.raises(UpstreamError, match="^asked for input 3 times without coming to an end of tools/call$"):
            await connection.request("tools/call")
        assert [sent["method"] for sent in wire.received].count("tools/call") == 4


async def test_the_caller_may_play_the_rounds_itself() -> None:
    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    async with connected(modern(answering(asking("a", state="s"))), delegate=delegate) as (connection, _):
        assert await connection.request("tools/call", rounds=False) == asking("a", state="s")
        assert delegate.asked == []


async def test_a_legacy_server_has_no_rounds() -> None:
    async with connected(legacy(answering(asking("a")))) as (connection, _):
        assert await connection.request("tools/call") == asking("a")


@pytest.mark.requirement("S-32")
async def test_a_question_that_was_not_declared_ends_the_request() -> None:
    delegate = Role({"roots": {}})
    rounds = answering(asking("a", method="sampling/createMessage"), DONE)
    async with connected(modern(rounds), delegate=delegate) as (connection, wire):
        with pytest.raises(UpstreamError, match=r"^asks for sampling/createMessage, which was not declared to it$"):
            await connection.request("tools/call")
        assert [sent["method"] for sent in wire.received].count("tools/call") == 1
    assert delegate.asked == []


async def test_a_role_that_refuses_ends_the_request_and_the_other_questions() -> None:
    cancelled = anyio.Event()

    async def refuses_one(params: JSON) -> JSON:
        if params["message"] == "b":
            raise ProtocolError(-1, "The user said no")
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return {}

    delegate = Role({"elicitation": {}}, elicitation=refuses_one)
    async with connected(modern(answering(asking("a", "b"))), delegate=delegate) as (connection, _):
        with pytest.raises(ProtocolError, match="^The user said no$"):
            await connection.request("tools/call")
    assert cancelled.is_set()


@pytest.mark.parametrize(
    "requests", ["text", [1], {"a": None}, {"a": {}}, {"a": {"method": 5}}, {"a": {"method": "x", "params": []}}]
)
async def test_questions_that_make_no_sense_are_the_failure_of_that_request_only(requests: Any) -> None:
    odd = {"resultType": "input_required", "inputRequests": requests}
    async with connected(modern(answering(odd, DONE))) as (connection, _):
        with pytest.raises(UpstreamError, match="^answered tools/call with "):
            await connection.request("tools/call")
        assert await connection.request("tools/call") == DONE


@pytest.mark.requirement("F-038")
async def test_a_round_has_only_so_many_questions() -> None:
    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    many = asking(*(str(number) for number in range(QUICK.requests_in_result + 1)))
    async with connected(modern(answering(many)), delegate=delegate) as (connection, _):
        with pytest.raises(UpstreamError, match="more than 16"):
            await connection.request("tools/call")
    assert delegate.asked == []


async def test_the_deadline_is_for_the_server_and_not_for_the_user() -> None:
    limit = 0.05

    async def thinks(params: JSON) -> JSON:
        with anyio.move_on_after(2 * limit):
            await anyio.sleep_forever()
        return ACCEPTED

    delegate = Role({"elicitation": {}}, elicitation=thinks)
    async with connected(modern(answering(asking("a"), DONE)), delegate=delegate) as (connection, _):
        assert await connection.request("tools/call", deadline=Deadline(limit, limit)) == DONE
        with pytest.raises(RequestTimeoutError):
            await connection.request("tools/call", deadline=Deadline(limit, limit))


async def test_progress_is_asked_for_in_every_round() -> None:
    reports: list[float] = []

    async def report(told: Progress) -> None:
        reports.append(told.progress)

    async def works(wire: Wire) -> None:
        first = await wire.next("tools/call")
        wire.progress(first, 1)
        wire.answer(first, asking("a"))
        second = await wire.next("tools/call")
        wire.progress(first, 100)
        wire.progress(second, 2)
        wire.answer(second, DONE)

    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    async with connected(modern(works), delegate=delegate) as (connection, _):
        await connection.request("tools/call", on_progress=report)
    assert reports == [1, 2]


async def test_an_error_in_a_later_round_is_raised() -> None:
    async def refuses(wire: Wire) -> None:
        wire.answer(await wire.next("tools/call"), asking("a", state="s"))
        wire.refuse(await wire.next("tools/call"), mcp_types.METHOD_NOT_FOUND, "gone")

    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    async with connected(modern(refuses), delegate=delegate) as (connection, _):
        with pytest.raises(ProtocolError, match="^gone$"):
            await connection.request("tools/call")


async def test_the_last_round_that_is_allowed_may_be_the_end() -> None:
    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    rounds = answering(asking("a"), asking("b"), DONE)
    async with connected(modern(rounds), delegate=delegate, limits=UpstreamLimits(max_rounds=2)) as (connection, _):
        assert await connection.request("tools/call") == DONE
