"""What generators yield is gathered within bounds."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from gaia_bridge.errors import ToolError
from gaia_bridge.sources.functions import generators
from gaia_bridge.sources.functions.generators import Gathering, drained


def endless(piece: Any) -> Generator[Any]:
    while True:
        yield piece


@pytest.mark.parametrize("piece", ["x" * 100, b"x" * 100, {"key": ["x" * 90]}], ids=["text", "bytes", "object"])
def test_a_generator_without_an_end_is_stopped_by_its_bytes(piece: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "_MOST_BYTES", 1_000)
    with pytest.raises(ToolError, match="more than 1,000 bytes of a result"):
        drained(endless(piece), Gathering(Any))


@pytest.mark.parametrize("piece", ["", None, 1])
def test_a_generator_without_an_end_is_stopped_by_its_pieces(piece: Any) -> None:
    with pytest.raises(ToolError, match="more than 100,000 pieces"):
        drained(endless(piece), Gathering(Any))
