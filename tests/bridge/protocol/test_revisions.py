"""The revisions are those that the SDK knows, in two eras."""

from __future__ import annotations

import pytest

from gaia_bridge.protocol.revisions import (
    HANDSHAKE_REVISIONS,
    LATEST_HANDSHAKE,
    PUBLISHED,
    RESUMABLE_REVISIONS,
    is_modern,
    negotiated,
)
from tests.support.on_demand import mcp_versions
from tests.support.schemas import REVISIONS


@pytest.mark.requirement("P-2")
def test_only_revisions_without_a_handshake_are_modern() -> None:
    assert all(map(is_modern, mcp_versions.MODERN_PROTOCOL_VERSIONS))
    assert not any(map(is_modern, mcp_versions.HANDSHAKE_PROTOCOL_VERSIONS))
    assert (HANDSHAKE_REVISIONS, PUBLISHED.names) == (
        mcp_versions.HANDSHAKE_PROTOCOL_VERSIONS,
        mcp_versions.MODERN_PROTOCOL_VERSIONS,
    )


def test_the_schema_of_each_published_revision_checks_messages() -> None:
    assert REVISIONS == (*HANDSHAKE_REVISIONS, *PUBLISHED.names)


@pytest.mark.parametrize("params", [None, 5, {}, {"protocolVersion": 5}, {"protocolVersion": "1999-01-01"}])
def test_who_asks_for_none_of_them_is_given_the_latest_with_a_handshake(params: object) -> None:
    assert negotiated(params) == LATEST_HANDSHAKE


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_who_asks_for_one_is_given_it(revision: str) -> None:
    assert negotiated({"protocolVersion": revision}) == revision


def test_a_stream_begins_with_an_event_without_data_since_2025_11_25() -> None:
    assert set(HANDSHAKE_REVISIONS) - {"2025-11-25"} == set(HANDSHAKE_REVISIONS) - RESUMABLE_REVISIONS
