"""A sealed state comes back as it was, for the same request, in time, and to the endpoint that sealed it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.protocol.sealed_state import StateSeal

CALL = "tools/call"
PARAMS = {"name": "work", "arguments": {"a": 1, "b": [True, None]}}
SEAL = StateSeal(600)
SEALED = SEAL.seal("secret", CALL, PARAMS)


def is_refused(sealed: str, method: str = CALL, params: Any = PARAMS, seal: StateSeal = SEAL) -> bool:
    """Whether a state is refused; a refusal never says why."""
    try:
        assert seal.opened(sealed, method, params) == "secret"
    except ProtocolError as error:
        told = (error.code, error.message, error.data)
        assert told == (INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        return True
    return False


@given(st.text(st.characters()))
def test_any_state_comes_back_as_it_was(state: str) -> None:
    assert SEAL.opened(SEAL.seal(state, CALL, PARAMS), CALL, PARAMS) == state


@pytest.mark.requirement("S-31")
def test_a_state_is_refused_once_its_lifetime_is_over() -> None:
    now = 1_000_000.0
    seal = StateSeal(600, lambda: now)
    sealed = seal.seal("secret", CALL, PARAMS)
    now += 599
    assert not is_refused(sealed, seal=seal)
    now += 1
    assert is_refused(sealed, seal=seal)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", PARAMS),
        (CALL, {**PARAMS, "name": "other"}),
        (CALL, {**PARAMS, "arguments": {"a": 1}}),
        (CALL, {**PARAMS, "arguments": {"a": True, "b": [True, None]}}),
        (CALL, {"name": "work"}),
    ],
    ids=["method", "name", "fewer arguments", "true for one", "no arguments"],
)
def test_a_state_is_refused_for_another_request(method: str, params: dict[str, Any]) -> None:
    assert is_refused(SEALED, method, params)


def test_a_state_is_good_for_the_same_request_however_its_arguments_are_written() -> None:
    reordered = {"arguments": {"b": [True, None], "a": 1}, "name": "work", "_meta": {"progressToken": 2}}
    assert not is_refused(SEALED, params=reordered)
    bare = SEAL.seal("secret", CALL, {"name": "work"})
    assert not is_refused(bare, params={"name": "work", "arguments": {}})


def test_the_state_of_a_read_belongs_to_its_uri() -> None:
    sealed = SEAL.seal("secret", "resources/read", {"uri": "x://a"})
    assert not is_refused(sealed, "resources/read", {"uri": "x://a"})
    assert is_refused(sealed, "resources/read", {"uri": "x://b"})


def test_a_state_is_refused_by_every_other_endpoint() -> None:
    assert is_refused(SEALED, seal=StateSeal(600))


def test_a_state_cannot_be_read_and_is_never_sealed_alike_twice() -> None:
    assert "secret" not in SEALED
    assert SEAL.seal("secret", CALL, PARAMS) != SEALED


@settings(max_examples=200)
@given(place=st.integers(0, len(SEALED) - 1), letter=st.sampled_from("abzAZ09-_=+/. é\ud800"))
def test_a_state_that_was_changed_anywhere_is_refused(place: int, letter: str) -> None:
    changed = SEALED[:place] + letter + SEALED[place + 1 :]
    assert is_refused(changed) == (changed != SEALED)


short = st.binary(max_size=30).map(lambda raw: "s1." + base64.urlsafe_b64encode(raw).decode().rstrip("="))
"""Without a whole nonce, or with nothing behind it."""


@given(short | st.text(max_size=80).map("s1.".__add__) | st.text(max_size=80))
def test_a_text_that_is_no_state_is_refused(text: str) -> None:
    assert is_refused(text)


def test_a_state_has_one_spelling() -> None:
    for other in (SEALED + "=", SEALED + " ", SEALED.removeprefix("s1."), SEALED.replace("s1.", "s1.\n", 1)):
        assert is_refused(other)
