"""Progress reaches whoever waits for the request that it is about, and nonsense reaches nobody."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.calls.progress import pass_on
from gaia_bridge.model import Progress


def heard_of(token: object, params: dict[str, Any]) -> list[Progress]:
    heard = list[Progress]()
    pass_on({**params, "progressToken": token}, {1: heard.append}.get)
    return heard


def test_all_that_is_said_of_a_request_reaches_whoever_wants_to_know() -> None:
    assert heard_of(1, {"progress": 0.5, "total": 2, "message": "half"}) == [Progress(0.5, 2, "half")]
    assert heard_of(1, {"progress": 3, "total": "2", "message": 5}) == [Progress(3)]


def test_a_token_may_come_back_as_text() -> None:
    assert heard_of("1", {"progress": 1}) == [Progress(1)]


@pytest.mark.parametrize("token", [None, True, 1.5, "x", 2, [1]])
def test_progress_of_nothing_of_ours_reaches_nobody(token: object) -> None:
    assert heard_of(token, {"progress": 1}) == []


@pytest.mark.parametrize("progress", [None, True, "1"])
def test_progress_that_is_no_number_reaches_nobody(progress: object) -> None:
    assert heard_of(1, {"progress": progress}) == []
