"""`side_by_side`: all at once, results in order, failures where they are waited for."""

from __future__ import annotations

import threading

import pytest

from gaia.mcp.client.parallel import side_by_side
from tests.support.waiting import PATIENCE


def test_all_items_are_worked_on_at_once_and_results_keep_their_order() -> None:
    together = threading.Barrier(5)

    def double(number: int) -> int:
        together.wait(PATIENCE)
        return 2 * number

    assert side_by_side(double, range(5)) == [0, 2, 4, 6, 8]
    assert side_by_side(double, []) == []


def test_what_is_raised_for_an_item_is_raised_here() -> None:
    def fail(number: int) -> None:
        raise (SystemExit if number else LookupError)(number)

    with pytest.raises(LookupError):
        side_by_side(fail, [0, 1])
