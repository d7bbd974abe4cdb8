"""Clients get the same from a server through a bridge as directly; what differs is what is allowed to."""

from __future__ import annotations

import fnmatch

import pytest

from tests.interaction.connecting import ERAS
from tests.support.installed_programs import needs
from tests.translation.comparison import (
    Allowed,
    Difference,
    allowed,
    compare_agent,
    compare_everything,
    differences,
    routes_of,
    unexpected,
)
from tests.translation.raw_comparison import merged_routes, raw_routes
from tests.translation.recording import Recording
from tests.upstreams.servers import EVERYTHING, TYPESCRIPT, everything_servers

pytestmark = [pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]


@pytest.mark.anyio
@pytest.mark.requirement("P-2", "P-12")
@pytest.mark.parametrize(
    "era", [pytest.param(era, marks=[pytest.mark.thorough] if era == "legacy" else []) for era in ERAS]
)
async def test_our_own_server_is_the_same_through_the_bridge(era: str) -> None:
    found = await compare_agent(era)
    assert unexpected(found, allowed(), routes_of(f"agent-{era}")) == []


@pytest.mark.anyio
@pytest.mark.requirement("P-2", "P-12")
@pytest.mark.thorough
@pytest.mark.timeout(600)  # many programs start, on a machine that may be busy
@needs(*TYPESCRIPT)
async def test_a_server_of_other_hands_is_the_same_through_the_bridge() -> None:
    with everything_servers() as servers:
        found = [difference for name, spec in servers.items() for difference in await compare_everything(name, spec)]
    assert unexpected(found, allowed(), routes_of(*EVERYTHING)) == []


def test_every_allowed_difference_is_looked_for_and_has_a_reason() -> None:
    compared = [*routes_of(*EVERYTHING, "agent-modern", "agent-legacy"), *raw_routes(), *merged_routes()]
    for entry in allowed():
        assert entry.why
        for pattern in entry.routes:
            assert fnmatch.filter(compared, pattern), pattern
        assert len(unexpected([], [entry], compared)) >= len(entry.routes) * len(entry.at)


@pytest.mark.core
def test_differences_are_told_as_deep_inside_as_they_are() -> None:
    directly: Recording = {"call": {"answers": [{"a": 1, "b": [1]}], "asked": []}, "gone": {"answers": []}}
    through: Recording = {"call": {"answers": [{"a": 2, "b": [1, 2]}], "asked": []}, "new": {"answers": []}}
    assert {(found.at, str(found.directly), str(found.through)) for found in differences("x", directly, through)} == {
        ("call / answers / 0 / a", "1", "2"),
        ("call / answers / 0 / b", "[1]", "[1, 2]"),
        ("gone", "{'answers': []}", "(nothing)"),
        ("new", "(nothing)", "{'answers': []}"),
    }


@pytest.mark.core
def test_what_is_not_allowed_and_what_no_longer_differs_is_wrong() -> None:
    found = [Difference("x modern", "call a / asked", 1, 2), Difference("x modern", "call b / asked", 1, 2)]
    known = [Allowed(["x *"], ["call a / *", "call c / *"], "because"), Allowed(["y *"], ["call a / *"], "because")]
    wrong, stale = unexpected(found, known, ["x modern"])
    assert wrong.startswith("x modern: call b / asked:")
    assert stale == "x modern: call c / *: is allowed to differ, and does not"
