"""`link`: every transport in every era."""

from __future__ import annotations

from collections.abc import Generator
from itertools import product
from pathlib import Path

import pytest

from tests.interaction.connecting import ERAS, HTTP_TRANSPORTS, TRANSPORTS, Link


@pytest.fixture(params=product(TRANSPORTS, ERAS), ids="-".join)
def link(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Link]:
    """How to reach an `EverythingAgent`. Whatever a server process complained of must have been expected."""
    transport, era = request.param
    with (tmp_path / "stderr").open("w+", encoding="utf-8") as errors:
        link = Link(transport, era, errors)
        yield link
        assert link.take_errors() == ""


@pytest.fixture(params=product(HTTP_TRANSPORTS, ERAS), ids="-".join)
def http_link(request: pytest.FixtureRequest) -> Link:
    """The same for servers that outlive a client."""
    return Link(*request.param)
