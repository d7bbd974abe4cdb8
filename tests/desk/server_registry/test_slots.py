"""Places of a launch line: what is asked for each, and what stands there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge_desk.server_registry.documents import Input
from gaia_bridge_desk.server_registry.slots import AnswersError, Asked, Slot, asked_in, plain, slot_of


def kept(_: Asked, value: str) -> str:
    return value


def names(slot: Slot) -> list[str]:
    return [asked.name for asked in slot.asked]


def test_a_place_without_a_value_is_asked_for_by_its_name() -> None:
    slot = slot_of("city", Input(is_required=True))
    assert names(slot) == ["city"]
    assert slot.asked[0].required
    assert slot.values({"city": ["Rome"]}, kept) == ["Rome"]
    assert slot.values({}, kept) == []


def test_a_value_is_what_stands_there_and_its_variables_are_asked_for() -> None:
    slot = slot_of("x", Input(value="{a}-{b}/{c}", variables={"a": Input(), "b": Input(value="fixed")}))
    assert names(slot) == ["a"]
    assert slot.values({"a": ["1"]}, kept) == ["1-fixed/{c}"]
    assert slot.values({}, kept) == []


def test_a_place_of_which_one_part_has_no_value_is_left_out() -> None:
    about = Input(value="{a}{b}", variables={"a": Input(), "b": Input()})
    assert slot_of("x", about).values({"a": ["1"]}, kept) == []


def test_a_name_that_is_not_described_is_asked_for_where_names_are_open() -> None:
    slot = slot_of("url", Input(value="https://{host}/{not a name}/{2}"), open_names=True)
    assert names(slot) == ["host"]
    assert slot.asked[0].required
    assert slot.values({"host": ["h"]}, kept) == ["https://h/{not a name}/{2}"]


def test_a_reference_of_ours_is_no_place() -> None:
    slot = slot_of("x", Input(value="${HOME}/{a}", variables={"HOME": Input(), "a": Input()}), open_names=True)
    assert names(slot) == ["a"]
    assert slot.values({"a": ["1"]}, kept) == ["${HOME}/1"]


@pytest.mark.parametrize(
    ("default", "expected"),
    [(None, None), ("", None), ("x", "x"), (True, "true"), (8080, "8080"), ("${HOME}", None), ("a ${X:-b}", None)],
)
def test_a_default_is_a_value_and_no_reference(default: str | int | None, expected: str | None) -> None:
    assert Asked("a", Input(default=default), required=True).default == expected


def test_several_values_stand_there_one_after_the_other() -> None:
    about = Input(value="{a}={b}", variables={"a": Input(), "b": Input()})
    slot = slot_of("x", about, repeated=True)
    assert slot.values({"a": ["1", "2"], "b": ["x", "y"]}, kept) == ["1=x", "2=y"]
    assert slot.values({"a": ["1", "2"], "b": ["x"]}, kept) == ["1=x", "2=x"]
    with pytest.raises(AnswersError, match="'b' has 2 values; expected 1 or 3 of them"):
        slot.values({"a": ["1", "2", "3"], "b": ["x", "y"]}, kept)
    with pytest.raises(AnswersError, match="'a' has 2 values; expected one"):
        slot_of("x", about).values({"a": ["1", "2"], "b": ["x"]}, kept)


def test_what_is_kept_of_a_value_is_what_stands_there() -> None:
    slot = slot_of("x", Input(value="Bearer {t}", variables={"t": Input(is_secret=True)}))
    assert slot.values({"t": ["s3cret"]}, lambda asked, _: f"<{asked.name}>") == ["Bearer <t>"]


@pytest.mark.parametrize("secret_first", [True, False])
def test_a_name_that_is_asked_for_twice_is_asked_once_and_is_secret_if_it_is_anywhere(secret_first: bool) -> None:
    places = [slot_of("t", Input(is_secret=True)), slot_of("t", Input(is_required=True), repeated=True)]
    [asked] = asked_in(places if secret_first else reversed(places))
    assert (asked.required, asked.about.is_secret, asked.repeated) == (True, True, False)


@given(st.text(), st.dictionaries(st.text(max_size=3), st.just(Input()), max_size=3))
def test_a_text_whose_places_have_their_own_names_as_values_is_itself(text: str, variables: dict[str, Input]) -> None:
    slot = slot_of("x", Input(value=text, variables=variables))
    answers = {name: ["{" + name + "}"] for name in names(slot)}
    assert slot.values(answers, kept) == [text]


def test_a_value_is_written_as_the_api_means_it() -> None:
    assert [plain(value) for value in (True, False, 1, 1.5, "x")] == ["true", "false", "1", "1.5", "x"]
