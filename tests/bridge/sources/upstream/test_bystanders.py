"""The proof that a fault costs others nothing can fail: every kind of cost is noticed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import anyio
import psutil
import pytest

from gaia_bridge.model import SourceState
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.sources.upstream.source import Upstream
from tests.support import bystanders
from tests.support.bystanders import Holdings, answering
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@contextmanager
def a_descriptor() -> Any:
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    yield
    os.close(descriptor)


@contextmanager
def a_process() -> Any:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield
        process.kill()


@contextmanager
def a_process_that_nobody_waited_for() -> Any:
    with subprocess.Popen([sys.executable, "-S", "-c", "pass"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield


@contextmanager
def a_thread() -> Any:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="forgotten")
    thread.start()
    yield
    done.set()
    thread.join()


@contextmanager
def a_task() -> Any:
    task = asyncio.create_task(asyncio.sleep(3600), name="forgotten")
    yield
    task.cancel()


@pytest.mark.parametrize("something", [a_descriptor, a_process, a_process_that_nobody_waited_for, a_thread, a_task])
async def test_what_is_left_over_is_named(something: Callable[[], AbstractContextManager[None]]) -> None:
    before = Holdings.now()
    with something():
        assert len(Holdings.now().beyond(before)) >= 1
    await before.nothing_more()


async def test_what_is_left_over_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bystanders, "SETTLES", 0.05)
    before = Holdings.now()
    with a_thread(), pytest.raises(AssertionError, match="thread forgotten"):
        await before.nothing_more()


async def test_a_loop_that_stands_still_is_noticed(
    working: Upstream, endpoint: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bystanders, "PATIENCE", 0.2)
    with pytest.raises(AssertionError, match="those beside it needed"):
        async with answering(working, endpoint):
            await anyio.sleep(0.01)
            time.sleep(0.3)  # noqa: ASYNC251 - that is the fault


async def test_a_server_that_does_not_answer_is_noticed(
    working: Upstream, endpoint: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bystanders, "PATIENCE", 0.2)
    monkeypatch.setattr(bystanders, "SETTLES", 0.3)
    process = psutil.Process(int(await bystanders.pid_of(working)))
    with pytest.raises(AssertionError, match="those beside it needed"):
        async with answering(working, endpoint):
            process.suspend()
    process.resume()


@pytest.fixture
async def fresh() -> AsyncGenerator[Upstream]:
    async with bystanders.working_server() as upstream:
        yield upstream


async def test_a_server_that_was_restarted_is_noticed(fresh: Upstream) -> None:
    async with bystanders.shared_endpoint(fresh) as catalog:
        with pytest.raises(AssertionError, match="the server beside it"):
            async with answering(fresh, catalog):
                psutil.Process(int(await bystanders.pid_of(fresh))).kill()
                await until(lambda: fresh.status.state is not SourceState.READY)
