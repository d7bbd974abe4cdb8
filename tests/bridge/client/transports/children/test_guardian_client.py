"""Our side of the guardian: one program for all children of this process, for as long as there are any."""

from __future__ import annotations

import sys

import psutil
import pytest

from gaia_bridge.client.transports.children.guardian_client import Guardian
from tests.support.obedient_children import child, do, launched
from tests.support.processes import command_of
from tests.support.waiting import PATIENCE, comes_true, wait_in_thread

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


def guardians() -> list[psutil.Process]:
    return [process for process in psutil.Process().children() if "guardian.py" in command_of(process)]


@pytest.mark.requirement("F-047")
async def test_a_guardian_that_died_is_replaced_and_knows_all_children() -> None:
    async with launched(child()), launched(child()):
        [old] = guardians()
        old.kill()
        old.wait(PATIENCE)
        async with launched(child()):
            [new] = guardians()
            assert new.pid != old.pid
    assert guardians() == []


@pytest.mark.requirement("F-225")
async def test_a_guardian_that_is_killed_is_replaced_without_any_news() -> None:
    async with launched(child()):
        [old] = guardians()
        old.kill()
        await wait_in_thread(comes_true(lambda: [new.pid for new in guardians() if new.pid != old.pid] != []))
    assert guardians() == []


async def test_a_process_without_children_has_no_guardian() -> None:
    assert guardians() == []
    async with launched(child()) as link:
        await do(link, "reply()")
        assert len(guardians()) == 1
    assert guardians() == []


def test_a_guardian_that_cannot_be_started_is_told_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    guardian = Guardian()
    guardian.watch("a")
    guardian.group("a", 1)
    guardian.leave("a")
    assert "no guardian" in caplog.text
