"""`link`: clients of both eras, through a bridge, to a server of both eras."""

from __future__ import annotations

import pytest

from tests.translation.through import ThroughLink

SAME = pytest.mark.thorough
"""Ways on which nothing is translated; tests/interaction does the same without a bridge between."""

ALONE = pytest.mark.thorough
"""Ways that are tried with other sources beside."""


@pytest.fixture(
    params=[
        pytest.param(("http", "modern", "http", "modern"), marks=SAME),
        pytest.param(("http", "modern", "http", "legacy"), marks=ALONE),
        pytest.param(("http", "legacy", "http", "modern"), marks=ALONE),
        pytest.param(("http", "legacy", "http", "legacy"), marks=SAME),
        ("sse", "legacy", "sse", "legacy"),
        ("http", "modern", "http", "legacy", True),
        ("http", "legacy", "http", "modern", True),
        pytest.param(("http", "modern", "http", "modern", True), marks=SAME),
        pytest.param(("sse", "legacy", "http", "legacy", True), marks=SAME),
    ],
    ids=lambda way: "{}-{}-to-{}-{}".format(*way) + "-of-several" * (len(way) > 4),
)
def link(request: pytest.FixtureRequest) -> ThroughLink:
    """How to reach an `EverythingAgent` through a bridge."""
    transport, era, upstream, upstream_era, *merged = request.param
    return ThroughLink(transport, era, upstream=upstream, upstream_era=upstream_era, merged=bool(merged))


@pytest.fixture
def http_link(link: ThroughLink) -> ThroughLink:
    """The same."""
    return link
