"""Our requests: each answer reaches whoever waits for it, once, and nobody waits when the connection is over."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from gaia_bridge.calls.sent import SentRequests

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
