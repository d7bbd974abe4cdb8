"""What is asked of a client is answered by it, refused, or given up: never lost, and never mixed up."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import anyio
import pytest

from gaia_bridge.errors import AnswerError, ProtocolError
from gaia_bridge.model import Progress
from gaia_bridge.server.connection import NOWHERE, ClientConnection
from gaia_bridge.text.json_types import JSON
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


class Channel:
    """What a client was sent."""

    can_ask = True

    def __init__(self, *, reads: bool = True) -> None:
        self.reads = reads
        self.sent: list[JSON] = []

    async def send(self, message: bytes) -> None:
        self.sent.append(json.loads(message))
        if not self.reads:
            await anyio.sleep_forever()

    def end(self) -> None: ...


class InFlight:
    """A request of the client."""

    def __init__(self) -> None:
        self.cancelled: list[str | None] = []

    def cancel(self, reason: str | None) -> None:
        self.cancelled.append(reason)


def asked(connection: ClientConnection, channel: Channel, told: Any = None) -> asyncio.Task[JSON]:
    return asyncio.get_running_loop().create_task(connection.ask(channel, "roots/list", {}, told))


async def done(task: asyncio.Task[JSON]) -> JSON:
    with anyio.fail_after(PATIENCE):
        return await task


async def test_answers_in_any_order_reach_whoever_asked() -> None:
    channel = Channel()
    connection = ClientConnection(channel)
    tasks = [asked(connection, channel) for _ in range(3)]
    await anyio.wait_all_tasks_blocked()
    for message in reversed(channel.sent):
        connection.answered({"jsonrpc": "2.0", "id": str(message["id"]), "result": {"of": message["id"]}})
    assert [await done(task) for task in tasks] == [{"of": message["id"]} for message in channel.sent]


async def test_what_answers_nothing_that_is_open_changes_nothing() -> None:
    channel = Channel()
    connection = ClientConnection(channel)
    task = asked(connection, channel)
    await anyio.wait_all_tasks_blocked()
    number = channel.sent[0]["id"]
    connection.answered({"jsonrpc": "2.0"})
    for stray in (None, [1], number + 1):
        connection.answered({"jsonrpc": "2.0", "id": stray, "result": {"stray": True}})
    for answer in ({"first": True}, {"second": True}):
        connection.answered({"jsonrpc": "2.0", "id": number, "result": answer})
    assert await done(task) == {"first": True}


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"error": {"code": -1, "message": "no"}}, "the client refused roots/list: no"),
        ({"error": "no"}, "the client refused roots/list: $"),
        ({"error": {"code": "x", "message": 5}}, "the client refused roots/list: $"),
        ({"result": 5}, "the client refused roots/list: $"),
        ({}, "the client refused roots/list: $"),
    ],
)
async def test_a_client_that_refuses_or_answers_nonsense_is_an_error_where_it_was_asked(
    response: JSON, words: str
) -> None:
    channel = Channel()
    connection = ClientConnection(channel)
    task = asked(connection, channel)
    await anyio.wait_all_tasks_blocked()
    connection.answered({"jsonrpc": "2.0", "id": channel.sent[0]["id"], **response})
    with pytest.raises(AnswerError, match=words):
        await done(task)


async def test_a_question_that_is_given_up_is_taken_back() -> None:
    channel = Channel()
    connection = ClientConnection(channel)
    task = asked(connection, channel)
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    await anyio.wait_all_tasks_blocked()
    assert task.cancelled()
    question, taken_back = channel.sent
    assert taken_back["method"] == "notifications/cancelled"
    assert taken_back["params"]["requestId"] == question["id"]


async def test_progress_with_an_answer_reaches_whoever_asked_and_nonsense_nobody() -> None:
    channel, heard = Channel(), list[Progress]()
    connection = ClientConnection(channel)

    async def told(report: Progress) -> None:
        heard.append(report)

    task = asked(connection, channel, told)
    await anyio.wait_all_tasks_blocked()
    token = channel.sent[0]["params"]["_meta"]["progressToken"]
    for odd in ({}, {"progress": "5"}, {"progress": True}):
        connection.progressed({"progressToken": token, **odd})
    connection.progressed({"progressToken": "another", "progress": 1})
    connection.progressed({"progressToken": token, "progress": 1})
    connection.progressed({"progressToken": str(token), "progress": 2.5, "total": 5, "message": "half"})
    connection.progressed({"progressToken": token, "progress": 3, "total": "5", "message": 5})
    await anyio.wait_all_tasks_blocked()
    connection.answered({"id": channel.sent[0]["id"], "result": {}})
    assert await done(task) == {}
    assert heard == [Progress(1), Progress(2.5, 5, "half"), Progress(3)]


async def test_where_there_is_no_way_back_and_after_the_end_nobody_is_asked() -> None:
    channel = Channel()
    connection = ClientConnection(channel)
    with pytest.raises(AnswerError, match="no way back to the client"):
        await connection.ask(NOWHERE, "roots/list", {}, None)
    connection.close()
    with pytest.raises(AnswerError, match="the client is gone"):
        await connection.ask(channel, "roots/list", {}, None)
    assert channel.sent == []


async def test_a_client_that_goes_leaves_no_question_open_and_every_request_given_up() -> None:
    channel, request = Channel(), InFlight()
    connection = ClientConnection(channel)
    connection.received.begin(1, request)
    task = asked(connection, channel)
    await anyio.wait_all_tasks_blocked()
    connection.close()
    with pytest.raises(AnswerError, match="the client is gone"):
        await done(task)
    assert request.cancelled == [None]


async def test_a_question_that_is_given_up_as_the_client_goes_is_no_error_of_the_loop() -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    channel = Channel(reads=False)
    connection = ClientConnection(channel)
    task = asked(connection, channel)
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    connection.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await anyio.wait_all_tasks_blocked()
    gc.collect()
    assert errors == []


async def test_a_cancellation_reaches_the_request_of_its_id_with_its_reason_if_that_is_one() -> None:
    connection, one, other = ClientConnection(NOWHERE), InFlight(), InFlight()
    connection.received.begin(1, one)
    connection.received.begin("two", other)
    connection.received.cancel("1", "enough")
    connection.received.cancel("two", {"not": "words"})
    connection.received.cancel(3, "nobody's")
    assert (one.cancelled, other.cancelled) == (["enough"], [None])
    connection.received.end(1, one)
    connection.received.cancel(1, "too late")
    assert one.cancelled == ["enough"]
    assert len(connection.received) == 1


async def test_the_second_of_two_requests_of_one_id_may_not_begin_and_leaves_the_first_in_flight() -> None:
    connection, first, second = ClientConnection(NOWHERE), InFlight(), InFlight()
    assert connection.received.begin(1, first)
    assert not connection.received.begin(1, second)
    assert connection.received.begin("1", second)
    connection.received.end(1, second)
    connection.received.cancel(1, None)
    connection.close()
    assert (first.cancelled, second.cancelled) == ([None, None], [None])


async def test_whoever_waits_for_the_end_hears_of_it_once_and_one_that_fails_keeps_it_from_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    connection, heard = ClientConnection(NOWHERE), list[str]()

    def fail() -> None:
        raise ProtocolError(-1, "on purpose")

    connection.when_closed(fail)
    connection.when_closed(lambda: heard.append("before"))
    for _ in range(2):
        connection.close()
    connection.when_closed(lambda: heard.append("after"))
    assert heard == ["before", "after"]
    assert "the end of a connection was not taken well" in caplog.text
