"""`link`: every transport in every era."""

from __future__ import annotations

from collections.abc import Generator
from itertools import product
from pathlib import Path

import pytest

from tests.interaction.connecting import ERAS, TRANSPORTS, Link


@pytest.fixture(params=product(TRANSPORTS, ERAS), ids="-".join)
def link(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Link]:
    """How to reach an `EverythingAgent`. A server process that failed inside says so in its standard error."""
    transport, era = request.param
    errors = tmp_path / "stderr"
    with errors.open("w", encoding="utf-8") as file:
        yield Link(transport, era, file)
    said = errors.read_text(encoding="utf-8")
    assert "gaia_bridge" not in said, said
