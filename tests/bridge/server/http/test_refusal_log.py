"""Refusals are told one by one, but only so many in a minute; the others are counted."""

from __future__ import annotations

import logging
import threading

import pytest

from gaia_bridge.server.http.refusal_log import Refusals
from gaia_bridge.settings import HttpLimits


@pytest.mark.requirement("F-204")
def test_the_first_refusals_are_told_and_of_the_others_how_many(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    refusals = Refusals(HttpLimits(refusals=2, refusal_window=0.2))
    for status in (403, 421, 403, 401, 403):
        refusals.tell("GET", "/mcp", status, "why")
    [timer] = [thread for thread in threading.enumerate() if thread.name == "gaia-refusals"]
    timer.join(10)
    assert caplog.messages == [
        "refused GET /mcp with 403: why",
        "refused GET /mcp with 421: why",
        "refused 3 more requests within 0.2 s: 1 with 401, 2 with 403",
    ]
    refusals.tell("GET", "/mcp", 404, "why")
    assert caplog.messages[3:] == ["refused GET /mcp with 404: why"]


@pytest.mark.requirement("F-204")
def test_few_refusals_cost_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    refusals = Refusals(HttpLimits(refusals=2, refusal_window=3600))
    before = threading.active_count()
    for _ in range(2):
        refusals.tell("GET", "/mcp", 403, "why")
    assert (len(caplog.messages), threading.active_count()) == (2, before)
