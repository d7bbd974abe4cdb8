"""A bridge in the background knows whether anybody uses it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from gaia_bridge_daemon.background.usage import UserCounter
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A clock that jumps: nothing here waits for anything but timers."""
    return VIRTUAL_TIME


async def test_some_time_after_the_last_one_it_is_unused() -> None:
    ended = anyio.Event()
    usage = UserCounter(60, 10, ended.set)
    with usage.one_more():
        await anyio.sleep(1000)
        with usage.one_more():
            assert usage.users == 2
    assert usage.users == 0
    await anyio.sleep(59)
    with usage.one_more():
        await anyio.sleep(1000)
    await anyio.sleep(59)
    assert not ended.is_set()
    await anyio.sleep(2)
    assert ended.is_set()


async def test_the_first_one_is_given_its_time_however_short_it_stays_afterwards() -> None:
    ended = anyio.Event()
    usage = UserCounter(0, 10, ended.set)
    await anyio.sleep(9)
    assert not ended.is_set()
    with usage.one_more():
        await anyio.sleep(10)
    await anyio.sleep(0.001)
    assert ended.is_set()


async def test_one_that_nobody_ever_comes_to_ends_as_well() -> None:
    ended = anyio.Event()
    UserCounter(5, 10, ended.set)
    await anyio.sleep(11)
    assert ended.is_set()


@pytest.mark.parametrize("keep", [None, 5.0])
async def test_one_that_stays_for_ever_or_is_closed_is_never_unused(keep: float | None) -> None:
    ended = anyio.Event()
    usage = UserCounter(keep, 1, ended.set)
    with usage.one_more():
        pass
    usage.close()
    await anyio.sleep(1000)
    assert not ended.is_set()


async def test_it_stays_as_was_said_last() -> None:
    ended = anyio.Event()
    usage = UserCounter(5, 1, ended.set)
    usage.stay(None)
    await anyio.sleep(1000)
    assert not ended.is_set()
    usage.stay(60)
    with usage.one_more():
        usage.stay(5)
        await anyio.sleep(1000)
        assert not ended.is_set()
    await anyio.sleep(4)
    assert not ended.is_set()
    await anyio.sleep(2)
    assert ended.is_set()
    assert usage.keep == 5


async def test_a_request_is_a_user_while_it_lasts_and_what_is_no_request_is_none() -> None:
    usage = UserCounter(None, 1, lambda: None)
    seen: dict[str, int] = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen[scope["type"]] = usage.users
        raise RuntimeError

    for kind in ("http", "lifespan"):
        with pytest.raises(RuntimeError):
            await usage.of(app)({"type": kind}, None, None)  # type: ignore[arg-type]
    assert seen == {"http": 1, "lifespan": 0}
    assert usage.users == 0
    with anyio.fail_after(1):
        await usage.none_left()
