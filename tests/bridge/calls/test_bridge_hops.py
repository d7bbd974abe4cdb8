"""What requests and definitions say of the bridges that they have passed."""

from __future__ import annotations

import pytest

from gaia_bridge.calls.bridge_hops import (
    HOPS_META_KEY,
    came_through,
    check_hops,
    hops_of,
    is_loop,
    new_id,
    passed,
)
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.meta import without_key


def test_every_bridge_adds_its_id_and_leaves_the_rest_as_it_is() -> None:
    params = passed(passed({"name": "x", "_meta": {"trace": 1}}, "a"), "b")
    assert params == {"name": "x", "_meta": {"trace": 1, HOPS_META_KEY: ["a", "b"]}}
    assert passed(None, "a") == {"_meta": {HOPS_META_KEY: ["a"]}}
    assert new_id() != new_id()


def test_a_definition_says_what_it_came_through_until_that_is_taken_away() -> None:
    definition = {"name": "x", "_meta": {"kept": True}}
    shown = passed(passed(definition, "a"), "b")
    assert came_through(shown) == ("a", "b")
    assert without_key(shown, HOPS_META_KEY) == definition
    assert without_key(passed({"name": "x"}, "a"), HOPS_META_KEY) == {"name": "x"}
    assert without_key(definition, HOPS_META_KEY) is definition
    assert came_through({"name": "x", "_meta": 7}) == came_through(definition) == ()


def test_a_request_that_comes_back_is_refused_and_one_that_came_far_as_well() -> None:
    for hops, problem in (
        (["a"], "got it back directly"),
        (["a", "b", "c"], "by way of 2 more"),
        (["x"] * 3, "3 bridges"),
    ):
        with pytest.raises(ProtocolError, match=problem) as caught:
            check_hops({HOPS_META_KEY: hops}, "a", 2)
        assert (caught.value.code, is_loop(caught.value)) == (-32600, True)
    check_hops({HOPS_META_KEY: ["x", "y"]}, "a", 2)
    check_hops({}, "a", 2)


@pytest.mark.parametrize("hops", [None, "a", [1], ["x" * 65]])
def test_hops_that_are_no_list_of_ids_are_refused(hops: object) -> None:
    with pytest.raises(ProtocolError, match="must be a list of ids") as caught:
        hops_of({HOPS_META_KEY: hops})
    assert not is_loop(caught.value)
    assert came_through({"_meta": {HOPS_META_KEY: hops}}) == ()
