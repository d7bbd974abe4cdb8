"""What a process knows of those that started it."""

from __future__ import annotations

import pytest

from gaia_bridge.calls.process_ancestry import LINEAGE_VARIABLE, Lineage, LineageError
from gaia_bridge.constants import MAX_HOPS


def test_a_child_learns_of_all_who_are_above_it() -> None:
    first = Lineage({})
    first.serve("one")
    second = Lineage(first.environment("b", "launch b"))
    second.serve("two")
    third = Lineage(second.environment("c", "launch c"))
    told = [(ancestor.serves, ancestor.entry) for ancestor in third.above]
    assert told == [("one", "b"), ("two", "c")]
    assert len({ancestor.id for ancestor in third.above}) == 2


def test_a_process_that_serves_what_one_above_it_serves_is_told_which_entry_started_it() -> None:
    first = Lineage({})
    first.serve("one")
    second = Lineage(first.environment("b", "launch b"))
    second.serve("two")
    third = Lineage(second.environment("c", "launch c"))
    with pytest.raises(LineageError, match="server 'b' of the configuration: it starts the bridge that it belongs to"):
        third.serve("one")


def test_nobody_launches_what_it_was_launched_by() -> None:
    child = Lineage(Lineage({}).environment("self", "the same"))
    with pytest.raises(LineageError, match="server 'again'"):
        child.environment("again", "the same")
    assert child.environment("again", "another")


def test_the_number_of_generations_is_bounded() -> None:
    lineage = Lineage({})
    for number in range(MAX_HOPS):
        lineage = Lineage(lineage.environment("next", f"launch {number}"))
    with pytest.raises(LineageError, match="that is taken for a loop"):
        lineage.environment("next", "one more")


@pytest.mark.parametrize("text", ["", "nonsense", "7", "[7]", '[{"id": "a"}]', "[" * 100_000])
def test_a_variable_that_is_none_of_ours_tells_of_nobody(text: str) -> None:
    assert Lineage({LINEAGE_VARIABLE: text}).above == ()
