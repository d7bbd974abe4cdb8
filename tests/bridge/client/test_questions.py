"""What a server asks of us."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia_bridge.client import ClientDelegate
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Role, Wire, connected, legacy
from tests.support.on_demand import mcp_types

pytestmark = pytest.mark.anyio

FORM: JSON = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
ACCEPTED: JSON = {"action": "accept", "content": {"name": "Ada"}}


class Replies:
    """A server that asks, and remembers what was answered."""

    def __init__(self, *questions: tuple[Any, str, JSON | None], expected: int | None = None) -> None:
        self.questions = questions
        self.received: list[JSON] = []
        self.complete = anyio.Event()
        self._expected = len(questions) if expected is None else expected

    async def __call__(self, wire: Wire) -> None:
        for question in self.questions:
            wire.ask(*question)
        while len(self.received) < self._expected:
            self.received.append(await wire.next())
        self.complete.set()

    def by_id(self) -> dict[Any, Any]:
        return {reply["id"]: reply.get("result", reply.get("error")) for reply in self.received}


async def test_a_ping_is_answered_at_once_whatever_its_id() -> None:
    replies = Replies((0, "ping", None), ("a", "ping", {}), (1.5, "ping", None), (-1, "ping", None))
    async with connected(legacy(replies)):
        await replies.complete.wait()
    assert replies.received == [{"jsonrpc": "2.0", "id": number, "result": {}} for number in (0, "a", 1.5, -1)]


@pytest.mark.requirement("F-038", "S-32", "P-6")
async def test_what_was_not_declared_is_refused_and_the_role_is_not_asked() -> None:
    delegate = Role({"roots": {}})
    replies = Replies(
        (1, "sampling/createMessage", {"messages": [], "maxTokens": 1}),
        (2, "elicitation/create", FORM),
        (3, "tasks/get", {}),
        (4, "tools/call", {"name": "x"}),
    )
    async with connected(legacy(replies), delegate=delegate):
        await replies.complete.wait()
    assert {number: error["code"] for number, error in replies.by_id().items()} == dict.fromkeys(
        (1, 2, 3, 4), mcp_types.METHOD_NOT_FOUND
    )
    assert delegate.asked == []


async def test_the_base_role_declares_nothing_and_answers_nothing() -> None:
    replies = Replies((1, "roots/list", None))
    async with connected(legacy(replies), delegate=ClientDelegate()):
        await replies.complete.wait()
    assert replies.by_id()[1]["code"] == mcp_types.METHOD_NOT_FOUND
    with pytest.raises(ProtocolError, match="^Method not found: roots/list$"):
        await ClientDelegate().answer("roots/list", {})


async def test_what_was_declared_is_answered_by_the_role() -> None:
    delegate = Role({"elicitation": {}, "roots": {}}, elicitation=ACCEPTED, roots={"roots": []})
    replies = Replies(("q", "elicitation/create", FORM), (7, "roots/list", None))
    async with connected(legacy(replies), delegate=delegate):
        await replies.complete.wait()
    assert replies.by_id() == {"q": ACCEPTED, 7: {"roots": []}}
    assert delegate.asked == [("elicitation/create", FORM), ("roots/list", {})]


@pytest.mark.requirement("S-32")
async def test_a_question_in_a_mode_that_was_not_declared_is_refused() -> None:
    delegate = Role({"elicitation": {}}, elicitation=ACCEPTED)
    url = {"mode": "url", "message": "Go", "url": "https://example.com", "elicitationId": "1"}
    replies = Replies((1, "elicitation/create", url))
    async with connected(legacy(replies), delegate=delegate):
        await replies.complete.wait()
    assert replies.by_id()[1]["code"] == INVALID_PARAMS
    assert delegate.asked == []


async def test_what_the_role_raises_becomes_an_error_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    async def refuses(params: JSON) -> JSON:
        raise ProtocolError(-1, "The user said no", {"why": "busy"})

    async def breaks(params: JSON) -> JSON:
        raise ValueError("the key is 1234")

    async def lies(params: JSON) -> Any:
        return None

    delegate = Role({"elicitation": {}, "sampling": {}, "roots": {}}, elicitation=refuses, sampling=breaks, roots=lies)
    replies = Replies((1, "elicitation/create", FORM), (2, "sampling/createMessage", {}), (3, "roots/list", {}))
    async with connected(legacy(replies), delegate=delegate):
        await replies.complete.wait()
    assert replies.by_id() == {
        1: {"code": -1, "message": "The user said no", "data": {"why": "busy"}},
        2: {"code": INTERNAL_ERROR, "message": "Internal error"},
        3: {"code": INTERNAL_ERROR, "message": "Internal error"},
    }
    assert "answering sampling/createMessage failed" in caplog.messages


@pytest.mark.requirement("F-038")
async def test_only_so_many_questions_are_open_at_once_and_pings_are_answered_meanwhile() -> None:
    release = anyio.Event()

    async def waits(params: JSON) -> JSON:
        await release.wait()
        return {"roots": []}

    async def asks(wire: Wire) -> None:
        for number in range(5):
            wire.ask(number, "roots/list")
        wire.ask("p", "ping")
        first = [await wire.next() for _ in range(4)]
        assert {reply["id"]: reply.get("error", {}).get("code") for reply in first} == {
            2: INTERNAL_ERROR,
            3: INTERNAL_ERROR,
            4: INTERNAL_ERROR,
            "p": None,
        }
        release.set()
        assert {(await wire.next())["id"] for _ in range(2)} == {0, 1}
        wire.ask(5, "roots/list")
        assert (await wire.next()) == {"jsonrpc": "2.0", "id": 5, "result": {"roots": []}}
        done.set()

    done = anyio.Event()
    delegate = Role({"roots": {}}, roots=waits)
    async with connected(legacy(asks), delegate=delegate, limits=UpstreamLimits(requests_in=2)):
        await done.wait()


@pytest.mark.requirement("F-038")
async def test_a_flood_of_pings_is_bounded() -> None:
    async def floods(wire: Wire) -> None:
        for number in range(10_000):
            wire.ask(number, "ping")
        wire.ask("last", "ping")
        while (await wire.next())["id"] != "last":
            pass
        done.set()

    done = anyio.Event()
    async with connected(legacy(floods), limits=UpstreamLimits(notes=10)) as (_, wire):
        await done.wait()
        assert len(wire.received) - 3 == 10


@pytest.mark.requirement("P-6")
async def test_a_question_that_the_server_withdraws_is_cancelled_and_not_answered() -> None:
    cancelled = anyio.Event()

    async def waits(params: JSON) -> JSON:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return {}

    async def asks(wire: Wire) -> None:
        wire.ask("q", "roots/list")
        await anyio.wait_all_tasks_blocked()
        for odd in ("other", None, [1], True):
            wire.notify("notifications/cancelled", {"requestId": odd})
        await anyio.wait_all_tasks_blocked()
        assert not cancelled.is_set()
        wire.notify("notifications/cancelled", {"requestId": "q"})
        await cancelled.wait()
        wire.ask("p", "ping")
        assert (await wire.next())["id"] == "p"
        done.set()

    done = anyio.Event()
    async with connected(legacy(asks), delegate=Role({"roots": {}}, roots=waits)):
        await done.wait()


async def test_an_id_that_is_still_open_cannot_be_used_again() -> None:
    async def waits(params: JSON) -> JSON:
        await release.wait()
        return {"roots": []}

    async def asks(wire: Wire) -> None:
        wire.ask(1, "roots/list")
        wire.ask(1, "roots/list")
        assert (await wire.next())["error"]["code"] == mcp_types.INVALID_REQUEST
        release.set()
        assert (await wire.next())["result"] == {"roots": []}
        wire.ask(1, "roots/list")
        assert (await wire.next())["result"] == {"roots": []}
        done.set()

    release, done = anyio.Event(), anyio.Event()
    async with connected(legacy(asks), delegate=Role({"roots": {}}, roots=waits)):
        await done.wait()


async def test_a_question_that_could_not_be_answered_is_ignored() -> None:
    delegate = Role({"roots": {}}, roots={"roots": []})
    odd: list[Any] = [None, True, [1], {"a": 1}]
    replies = Replies(*((number, "roots/list", None) for number in odd), ("last", "ping", None), expected=1)
    async with connected(legacy(replies), delegate=delegate) as (_, wire):
        await replies.complete.wait()
        wire.notify("", None)
    assert [reply["id"] for reply in replies.received] == ["last"]
    assert delegate.asked == []


async def test_an_answer_that_cannot_be_sent_does_no_harm() -> None:
    async def asks(wire: Wire) -> None:
        wire.failure = UpstreamError("does not read")
        wire.ask(1, "ping")
        wire.ask(2, "roots/list")
        await anyio.wait_all_tasks_blocked()
        wire.failure = None
        wire.ask(3, "ping")
        assert (await wire.next())["id"] == 3
        done.set()

    done = anyio.Event()
    async with connected(legacy(asks), delegate=Role({"roots": {}}, roots={"roots": []})):
        await done.wait()


async def test_questions_end_with_the_connection() -> None:
    ended = anyio.Event()

    async def waits(params: JSON) -> JSON:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return {}

    async def asks(wire: Wire) -> None:
        wire.ask(1, "roots/list")

    delegate = Role({"roots": {}}, roots=waits)
    async with connected(legacy(asks), delegate=delegate):
        await anyio.wait_all_tasks_blocked()
        assert delegate.asked
        assert not ended.is_set()
    assert ended.is_set()
