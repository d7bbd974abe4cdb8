"""Servers of other hands answer through their own endpoint as they do directly, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.installed_programs import needs
from tests.translation.comparison import allowed, unexpected
from tests.translation.raw_comparison import BOTH_ERAS, COMPARED, LANGUAGES, compare_raw, merged_routes, raw_routes
from tests.upstreams.servers import ALL, started

QUICK = ("filesystem", "mcp1")
"""One of each generation of SDK, and of each language; the others take their time to start."""


@pytest.mark.anyio
@pytest.mark.requirement("F-286", "P-2", "P-12")
@pytest.mark.timeout(600)  # many programs start, on a machine that may be busy
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.thorough) for name in COMPARED if name not in QUICK)]
)
@needs(*ALL)
async def test_a_server_answers_through_its_own_endpoint_as_it_does_directly(name: str, tmp_path: Path) -> None:
    with started(tmp_path) as fixtures:
        found = await compare_raw(fixtures.specs, name)
    assert unexpected(found, allowed(), raw_routes(name)) == []


@pytest.mark.anyio
@pytest.mark.thorough
@pytest.mark.requirement("F-286", "P-2", "P-12")
@pytest.mark.timeout(600)  # many programs start, on a machine that may be busy
@needs(*ALL)
async def test_servers_in_four_languages_are_the_same_on_their_own_endpoints_and_on_one(tmp_path: Path) -> None:
    with started(tmp_path) as fixtures:
        found = await compare_raw(fixtures.specs, *LANGUAGES)
    assert unexpected(found, allowed(), [*raw_routes(*LANGUAGES), *merged_routes()]) == []


def test_both_generations_of_the_protocol_are_compared() -> None:
    assert {route.split()[1] for route in raw_routes()} == {"legacy", "modern"}
    assert set(BOTH_ERAS) < set(COMPARED)
