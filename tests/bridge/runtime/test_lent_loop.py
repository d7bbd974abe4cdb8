"""A bridge's event loop, lent to other threads until the bridge ends."""

from __future__ import annotations

import os
import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from gaia_bridge.errors import LoopEndedError
from gaia_bridge.runtime.lent_loop import Lease, LentLoop

pytestmark = pytest.mark.anyio

ENDED = "the bridge whose server this was has ended"


async def here() -> threading.Thread:
    return threading.current_thread()


async def test_other_threads_run_coroutines_on_it() -> None:
    lease = LentLoop().lease()
    assert lease.is_current
    assert await anyio.to_thread.run_sync(lease.run, here) is threading.current_thread()
    assert await lease.wait(here) is threading.current_thread()


async def test_its_own_thread_does_not_wait_for_itself() -> None:
    with pytest.raises(RuntimeError, match="it would wait for"):
        LentLoop().lease().run(here)


async def test_whoever_waits_when_it_is_closed_is_told_so() -> None:
    loop, began = LentLoop(), anyio.Event()
    ended: list[str] = []

    async def hang() -> None:
        began.set()
        await anyio.sleep_forever()

    def wait() -> None:
        with pytest.raises(LoopEndedError, match=ENDED) as raised:
            loop.lease().run(hang)
        ended.append(str(raised.value))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, wait)
        await began.wait()
        loop.close()
    assert len(ended) == 1


async def _closed() -> Lease:
    loop = LentLoop()
    lease = loop.lease()
    loop.close()
    return lease


async def _forked(monkeypatch: pytest.MonkeyPatch) -> Lease:
    lease = LentLoop().lease()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    return lease


@pytest.mark.parametrize("kind", ["closed", "forked"])
async def test_where_it_is_not_lent_nothing_can_be_started(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = await (_closed() if kind == "closed" else _forked(monkeypatch))
    assert not lease.is_alive

    def never() -> Any:
        raise AssertionError("it was called")

    with pytest.raises(LoopEndedError, match=ENDED):
        lease.start(never)
