"""The time of a request: signs of life renew it, up to what it may take in all, and it stands still while held."""

from __future__ import annotations

import asyncio

import pytest

from gaia_bridge.peer.deadlines import Clock, Deadline

pytestmark = pytest.mark.anyio


def left(clock: Clock) -> float:
    """Seconds until the request ends, if nothing is heard."""
    when = clock.timeout.when()
    assert when is not None
    return round(when - asyncio.get_running_loop().time())


async def test_a_request_ends_when_nothing_is_heard_and_never_later_than_its_cap() -> None:
    async with (patient := Clock(Deadline(100, 1_000))).timeout:
        assert (left(patient), patient.seconds) == (100, 100)
    async with (hurried := Clock(Deadline(100, 50))).timeout:
        assert (left(hurried), hurried.seconds) == (50, 50)
        hurried.restart()
        assert left(hurried) == 50


async def test_while_the_other_side_waits_for_us_no_sign_of_life_is_expected() -> None:
    clock = Clock(Deadline(100, 1_000))
    async with clock.timeout:
        clock.hold()
        clock.hold()
        clock.release()
        clock.restart()
        assert left(clock) == 1_000
        clock.release()
        assert left(clock) == 100


async def test_a_request_that_has_ended_is_not_given_more_time() -> None:
    clock = Clock(Deadline(0, 1_000))
    with pytest.raises(TimeoutError):
        async with clock.timeout:
            await asyncio.Event().wait()
    clock.restart()
    assert clock.timeout.expired()
