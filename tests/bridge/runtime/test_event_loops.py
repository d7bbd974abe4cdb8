"""anyio finds its event loop in callbacks, also where `sniffio` is installed, which looks for a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

import anyio
import pytest

from gaia.background_loop import BackgroundLoop
from gaia_bridge.bridge import Bridge
from gaia_bridge.runtime.event_loops import mark_thread_as_asyncio

pytest.importorskip("sniffio")


async def time_in_a_callback() -> float | BaseException:
    """What `anyio.current_time()` says where there is no task, in the context of nobody."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    found: list[float | BaseException] = []

    def look() -> None:
        try:
            found.append(anyio.current_time())
        except BaseException as error:  # noqa: B036 - told to the test
            found.append(error)
        told.set()

    loop.call_soon(look, context=Context())
    await told.wait()
    return found[0]


def test_it_is_not_found_by_itself() -> None:
    assert isinstance(asyncio.run(time_in_a_callback()), RuntimeError)


def test_it_is_found_until_that_is_taken_back() -> None:
    async def main() -> tuple[object, object]:
        take_back: Callable[[], None] = mark_thread_as_asyncio()
        said = await time_in_a_callback()
        take_back()
        return said, await time_in_a_callback()

    said, afterwards = asyncio.run(main())
    assert isinstance(said, float)
    assert isinstance(afterwards, RuntimeError)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["as they began", "the other way round"])
def test_the_last_of_several_takes_it_back_in_whatever_order_they_end(order: tuple[int, int]) -> None:
    async def main() -> list[object]:
        took = [mark_thread_as_asyncio(), mark_thread_as_asyncio()]
        found: list[object] = []
        for number in order:
            took[number]()
            found.append(await time_in_a_callback())
        return found

    between, afterwards = asyncio.run(main())
    assert isinstance(between, float)
    assert isinstance(afterwards, RuntimeError)


def test_it_is_found_on_the_background_loop() -> None:
    with BackgroundLoop().acquire() as lease:
        assert isinstance(lease.run(time_in_a_callback), float)


def test_it_is_found_in_a_bridge_and_not_after_it() -> None:
    async def main() -> tuple[object, object]:
        async with Bridge():
            inside = await time_in_a_callback()
        return inside, await time_in_a_callback()

    inside, afterwards = asyncio.run(main())
    assert isinstance(inside, float)
    assert isinstance(afterwards, RuntimeError)
