"""How long a reply, a busy server and a loading one are waited for, on a clock that jumps."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia.llm import ModelError, ModelLimits
from gaia.llm.failures import Refusal, Report
from gaia.llm.retries import Tries
from gaia.llm.settings import Place
from gaia.llm.wire import Patience
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

LIMITS = ModelLimits(
    first=100, between=10, total=300, retries=4, retry_pause=1, retry_wait=60, load_wait=9, load_pause=3
)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


def patience() -> Patience:
    return Patience(Report(Place("http://localhost:1/v1")), LIMITS)


async def waits(waiting: Patience, seconds: float) -> None:
    await waiting.wait(lambda: anyio.sleep(seconds))


async def test_the_first_word_may_take_long_and_all_signs_of_life_before_count_together() -> None:
    waiting = patience()
    await waits(waiting, 60)
    await waits(waiting, 39)
    with pytest.raises(ModelError, match=r"said nothing for 100 s\. .*ModelLimits\(first"):
        await waits(waiting, 2)


async def test_every_further_word_comes_sooner() -> None:
    waiting = patience()
    await waits(waiting, 99)
    waiting.has_begun = True
    await waits(waiting, 9)
    await waits(waiting, 9)
    with pytest.raises(ModelError, match=r"said nothing for 10 s\. .*ModelLimits\(between"):
        await waits(waiting, 11)


async def test_all_of_it_has_an_end() -> None:
    waiting = patience()
    waiting.has_begun = True
    for _ in range(33):
        await waits(waiting, 9)
    with pytest.raises(ModelError, match=r"ModelLimits\(total"):
        await waits(waiting, 9)


async def test_the_time_that_the_caller_takes_does_not_count() -> None:
    waiting = patience()
    await waits(waiting, 99)
    await anyio.sleep(10_000)
    waiting.has_begun = True
    await waits(waiting, 9)


async def test_pauses_before_trying_again_grow() -> None:
    tries, pauses = Tries(LIMITS), list[float]()
    while True:
        started = anyio.current_time()
        if not await tries.pause(Refusal(429, "")):
            break
        pauses.append(anyio.current_time() - started)
    assert pauses == [1, 2, 4, 8]


async def test_a_server_that_says_how_long_is_believed_up_to_a_limit() -> None:
    tries, started = Tries(LIMITS), anyio.current_time()
    assert await tries.pause(Refusal(503, "", {"retry-after": "60"}))
    assert anyio.current_time() - started == 60
    assert not await tries.pause(Refusal(503, "", {"retry-after": "61"}))


async def test_a_server_that_loads_is_asked_again_and_again_for_a_while() -> None:
    tries, started = Tries(LIMITS), anyio.current_time()
    loading = Refusal(503, '{"error": {"message": "Loading model", "type": "unavailable_error"}}')
    while await tries.pause(loading):
        pass
    assert anyio.current_time() - started == 9


async def test_other_refusals_are_final() -> None:
    tries = Tries(LIMITS)
    assert not any([await tries.pause(Refusal(status, "")) for status in (400, 401, 404, 500, 0)])
    assert not await tries.pause(Refusal(429, '{"error": {"message": "no", "code": "insufficient_quota"}}'))


async def test_a_server_that_wants_no_second_try_gets_none() -> None:
    final = {"retry-after": "1", "x-should-retry": "false"}
    assert not any([await Tries(LIMITS).pause(Refusal(status, "Loading model", final)) for status in (429, 503)])
