"""`link`: clients of both eras, through a bridge, to a server of both eras."""

from __future__ import annotations

import pytest

from tests.translation.through import ThroughLink

SAME = pytest.mark.thorough
"""Ways on which nothing is translated; tests/interaction does the same without a bridge between."""


@pytest.fixture(
    params=[
        pytest.param(("http", "modern", "http", "modern"), marks=SAME),
        ("http", "modern", "http", "legacy"),
        ("http", "legacy", "http", "modern"),
        pytest.param(("http", "legacy", "http", "legacy"), marks=SAME),
        ("sse", "legacy", "sse", "legacy"),
    ],
    ids=lambda way: "{}-{}-to-{}-{}".format(*way),
)
def link(request: pytest.FixtureRequest) -> ThroughLink:
    """How to reach an `EverythingAgent` through a bridge."""
    transport, era, upstream, upstream_era = request.param
    return ThroughLink(transport, era, upstream=upstream, upstream_era=upstream_era)


@pytest.fixture
def http_link(link: ThroughLink) -> ThroughLink:
    """The same."""
    return link
