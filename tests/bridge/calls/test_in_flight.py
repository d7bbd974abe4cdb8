"""Our requests: each answer reaches whoever waits for it, once, and nobody waits when the connection is over."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from gaia_bridge.calls.in_flight import ReceivedRequests, SentRequests

pytestmark = pytest.mark.anyio


async def test_answers_reach_whoever_waits_in_any_order_and_once() -> None:
    requests = SentRequests()
    first, second = requests.add(1), requests.add(2)
    assert requests.resolve(2, {"of": 2})
    assert requests.resolve(1, {"of": 1})
    assert not requests.resolve(1, {"of": 0})
    assert (await first, await second) == ({"of": 1}, {"of": 2})


@pytest.mark.parametrize("number", [1, "1", 1.0])
async def test_an_id_may_come_back_as_text_or_with_a_fraction_of_zero(number: Any) -> None:
    requests = SentRequests()
    waiting = requests.add(1)
    assert requests.resolve(number, {"of": 1})
    assert await waiting == {"of": 1}


@pytest.mark.parametrize("number", [None, True, 1.5, "1.0", " 1", "-1", "", "1" * 5_000, "\u0661", 2, [1]])
async def test_what_answers_none_of_ours_reaches_nobody(number: Any) -> None:
    requests = SentRequests()
    waiting = requests.add(1)
    assert not requests.resolve(number, {})
    assert not waiting.done()


async def test_a_request_can_be_given_up_or_end_without_an_answer() -> None:
    requests = SentRequests()
    given_up, rejected = requests.add(1), requests.add(2)
    requests.forget(1)
    given_up.cancel()
    assert not requests.resolve(1, {})
    assert requests.reject(2, ValueError("unreadable"))
    assert not requests.reject(2, ValueError("unreadable"))
    with pytest.raises(ValueError, match="unreadable"):
        await rejected


async def test_when_the_connection_is_over_nobody_waits_and_nobody_begins_to() -> None:
    complaints = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    requests = SentRequests()
    waiting, answered, nobody_looks = requests.add(1), requests.add(2), requests.add(3)
    requests.resolve(2, {})
    requests.fail(ConnectionError("over"))
    with pytest.raises(ConnectionError):
        await waiting
    assert await answered == {}
    with pytest.raises(ConnectionError):
        requests.add(4)
    del nobody_looks
    gc.collect()
    assert complaints == []


class Request:
    """A request in flight."""

    def __init__(self) -> None:
        self.cancelled: list[str | None] = []

    def cancel(self, reason: str | None) -> None:
        self.cancelled.append(reason)


def test_the_second_of_two_requests_of_one_id_may_not_begin_and_its_end_leaves_the_first_in_flight() -> None:
    requests, first, second = ReceivedRequests(), Request(), Request()
    assert requests.begin(1, first)
    assert not requests.begin(1, second)
    assert requests.begin("1", second)
    requests.end(1, second)
    assert len(requests) == 2
    requests.cancel_all()
    assert (first.cancelled, second.cancelled) == ([None], [None])


def test_an_id_can_be_used_again_when_its_request_is_over() -> None:
    requests, first, second = ReceivedRequests(), Request(), Request()
    assert requests.begin("x", first)
    requests.end("x", first)
    requests.end("x", first)
    assert len(requests) == 0
    assert requests.begin("x", second)


@pytest.mark.parametrize(("own", "told"), [(7, 7), (7, "7"), ("7", 7), ("seven", "seven"), (1.5, 1.5)])
def test_a_cancellation_finds_its_request_also_where_a_number_is_written_as_text(own: Any, told: Any) -> None:
    requests, request, other = ReceivedRequests(), Request(), Request()
    requests.begin(own, request)
    requests.begin("another", other)
    requests.cancel(told, "enough")
    assert (request.cancelled, other.cancelled) == (["enough"], [])


def test_of_a_number_and_a_text_of_the_same_digits_the_one_that_is_meant_is_cancelled() -> None:
    requests, number, text = ReceivedRequests(), Request(), Request()
    requests.begin(7, number)
    requests.begin("7", text)
    requests.cancel("7", {"no": "text"})
    assert (number.cancelled, text.cancelled) == ([], [None])


@pytest.mark.parametrize("told", [None, True, 1.5, [], {}, "another"])
def test_a_cancellation_of_nothing_in_flight_cancels_nothing(told: object) -> None:
    requests, request = ReceivedRequests(), Request()
    for own in (1, "None", "True", "1.5", "[]", "{}"):
        requests.begin(own, request)
    requests.cancel(told, None)
    assert request.cancelled == []
