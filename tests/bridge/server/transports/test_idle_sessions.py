"""Sessions that nobody uses end after their time, by a clock that jumps."""

from __future__ import annotations

import time
from typing import Any, Final

import anyio
import pytest

from gaia_bridge.server.transports.sessions import Session, Sessions
from gaia_bridge.settings import HttpLimits
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

IDLE: Final = 100.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


class Call:
    """A call of a client, which may have left it."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self, reason: str | None) -> None:
        self.is_cancelled = True


def opened(sessions: Sessions) -> Session:
    with sessions.opening() as session:
        sessions.add(session)
    return session


async def test_a_session_ends_when_nobody_has_used_it_for_long_enough() -> None:
    sessions = Sessions(HttpLimits(session_idle=IDLE))
    idle, used, open_, calling = (opened(sessions) for _ in range(4))
    call = Call()
    calling.connection.received.begin(1, call)
    open_.open += 1
    for _ in range(5):
        await anyio.sleep(0.6 * IDLE)
        used.open += 1
        used.leave(time.monotonic())
    assert [session.is_over for session in (idle, used, open_, calling)] == [True, False, False, False]
    assert sessions.get(idle.id) is None
    open_.leave(time.monotonic())
    await anyio.sleep(2.1 * IDLE)
    assert [session.is_over for session in (used, open_, calling)] == [True, True, False]
    calling.connection.received.end(1, call)
    await anyio.sleep(1.1 * IDLE)
    assert calling.is_over
    late = opened(sessions)
    await anyio.sleep(1.1 * IDLE)
    assert late.is_over
    sessions.close()


async def test_a_session_that_ends_cancels_its_calls() -> None:
    sessions = Sessions(HttpLimits())
    session, call = opened(sessions), Call()
    session.connection.received.begin(1, call)
    sessions.end(session)
    assert call.is_cancelled
    sessions.close()
