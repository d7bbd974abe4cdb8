"""What is typed into the field of a form becomes the value that the form wants, or is refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_cli.servers.form_fields import FieldError, FormField

NAMED: JSON = {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
TITLED: JSON = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
DIGITS: JSON = {"type": "string", "enum": ["2", "1"]}
KEYS = ("type", "enum", "oneOf", "anyOf", "items", "const", "default", "title", "enumNames")
SEVERAL: JSON = {"type": "array", "items": {"anyOf": TITLED["oneOf"]}, "minItems": 1}


@pytest.mark.requirement("F-363")
@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, "007", "007"),
        ({"type": "string"}, " spaces ", " spaces "),
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, "7.5", 7.5),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "false", False),
        *[(schema, text, "g") for schema in (NAMED, TITLED) for text in ("g", "Green", "green", "2", " 2 ")],
        (DIGITS, "2", "2"),
        (SEVERAL, "2, Red", ["g", "r"]),
        ({"type": "array", "items": {"type": "string"}}, "a, b,", ["a", "b"]),
        ({}, '{"a": 1}', {"a": 1}),
        ({"type": "banana"}, "anything", "anything"),
    ],
)
def test_what_is_typed_is_understood_as_the_field_wants_it(schema: JSON, typed: str, value: Any) -> None:
    assert FormField("x", schema, required=True).read(typed) == value


@pytest.mark.requirement("F-363")
@pytest.mark.parametrize(
    ("schema", "typed", "reason"),
    [
        ({"type": "string", "minLength": 2}, "a", "shorter than 2"),
        ({"type": "integer"}, "x", "integer"),
        ({"type": "integer", "maximum": 5}, "6", "5"),
        ({"type": "boolean"}, "perhaps", "expected y or n"),
        (TITLED, "3", "'3' is no choice; expected 1 to 2"),
        (TITLED, "", "no choice"),
        (SEVERAL, "1, blue", "'blue' is no choice"),
        (SEVERAL, ",", "item"),
    ],
)
def test_what_is_no_value_is_refused_with_a_reason(schema: JSON, typed: str, reason: str) -> None:
    with pytest.raises(FieldError, match=reason):
        FormField("x", schema, required=True).read(typed)


@pytest.mark.requirement("F-363")
@pytest.mark.parametrize(
    ("schema", "required", "prompt"),
    [
        ({"type": "string", "title": "Your\x1b name"}, True, "Your name: "),
        ({"type": "string"}, False, "x (optional): "),
        ({"type": "boolean", "default": True}, False, "x (y/n) [y]: "),
        ({**NAMED, "default": "g"}, True, "x [Green]: "),
        ({**NAMED, "default": "blue"}, False, "x (optional): "),
        ({**SEVERAL, "default": ["r", "g"]}, True, "x (several, with commas) [Red, Green]: "),
        ({"type": "integer", "default": 3}, True, "x [3]: "),
    ],
)
def test_a_field_is_asked_with_its_title_and_its_default(schema: JSON, required: bool, prompt: str) -> None:
    assert FormField("x", schema, required=required).prompt == prompt


@pytest.mark.requirement("F-363")
def test_what_can_be_chosen_is_shown() -> None:
    described = {**TITLED, "description": "The\ncolour"}
    assert FormField("x", described, required=True).lines == ["The colour", "  1) Red", "  2) Green"]


@pytest.mark.requirement("F-363")
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
            )
        ),
    ),
    st.text(max_size=12),
)
def test_whatever_a_server_calls_a_field_it_can_be_asked_for(schema: Any, typed: str) -> None:
    field = FormField("x", schema if is_object(schema) else {}, required=True)
    assert field.prompt.isprintable()
    assert all(line.isprintable() for line in field.lines)
    try:
        field.read(typed)
    except FieldError as error:
        assert str(error).isprintable()
