"""`link`: clients of both eras, through a bridge, to a server of both eras."""

from __future__ import annotations

import os

import pytest

from tests.translation.through import ThroughLink

WAYS = (
    ("http", "modern", "http", "modern"),
    ("http", "modern", "http", "legacy"),
    ("http", "legacy", "http", "modern"),
    ("http", "legacy", "http", "legacy"),
    ("sse", "legacy", "sse", "legacy"),
)
"""With `CI` set, all are tried out; else those in which something is translated, and the oldest transport."""


@pytest.fixture(
    params=[way for way in WAYS if os.environ.get("CI") or way[1] != way[3] or way[0] == "sse"],
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
