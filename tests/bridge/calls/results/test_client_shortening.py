"""Texts in pieces of so many bytes of JSON: nothing is lost, and no more is looked at than is kept."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gaia_bridge.calls.results import client_shortening
from gaia_bridge.calls.results.client_shortening import both_ends, is_json_of, json_bytes, json_chunks, pieces
from gaia_bridge.protocol.messages import encoded

TEXTS: Final = ("x", "語", "\x00", '"\\', "a\n", "👩\u200d👧🏽", "e\u0301", "\r\n", "\ud800", "x語\x1f👍", "\U0001f1e9")


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1_536])
def test_pieces_are_small_enough_and_together_the_text(size: int) -> None:
    for one in TEXTS:
        for text in (one * 700, "x" + one * 699, f"{one * 40}\n" * 20):
            found = [*pieces(text, size)]
            assert "".join(found) == text
            assert all(len(encoded(piece)) - 2 <= max(size, 6) or len(piece) <= 1 for piece in found), (one, size)


@pytest.mark.parametrize("room", [-700, 0, 1, 2, 5, 100, 1_348])
def test_both_ends_are_ends_and_have_room(room: int) -> None:
    for one in TEXTS:
        text = one * 3_000
        head, tail = both_ends(text, room)
        assert text.startswith(head) and text.endswith(tail)
        assert len(encoded(head)) + len(encoded(tail)) - 4 <= max(room, 0)


def test_of_a_long_text_no_more_is_written_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0

    def counting(text: str) -> bytes:
        nonlocal written
        written += len(text)
        return encoded(text)

    monkeypatch.setattr(client_shortening, "encoded", counting)
    for one in ("x", "語\x00"):
        text = one * 500_000
        both_ends(text, 10_000)
        assert json_bytes(text, 10_000) > 10_000
        assert written < 50_000
        written = 0
    text = "line\n" * 100_000
    assert "".join(pieces(text, 7_500)) == text
    assert written < 3 * len(text)


# Each but the last is somewhat longer than a part.
VALUES: Final[tuple[Any, ...]] = (
    {"rows": [{"n": number, "text": "語 \x1f \u3000 😀" * 3} for number in range(1_500)]},
    {f"key {number}": [number, None, True, 0.5] for number in range(2_500)},
    [["x" * 70_000, "語" * 70_000, '"\\\n' * 30_000], {}, [], ""],
    {"k" * 70_000: {"a": ["y" * 70_000]}},
    [*range(15_000)],
    "plain",
)


@pytest.mark.parametrize("value", VALUES)
def test_what_is_written_in_parts_is_json_and_known_however_it_is_written(value: object) -> None:
    for in_ascii in (False, True):
        assert json.loads("".join(json_chunks(value, in_ascii=in_ascii))) == value
        for indent, separators in ((None, None), (2, None), (None, (",", ":"))):
            text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=in_ascii)
            assert is_json_of(text, value)
            assert is_json_of(f"  {text}\n", value)
            half = len(text) // 2
            for other in (
                f"{text}]",
                text[:-1],
                f"{text[:half]}?{text[half + 1 :]}",
                f"{text[:half]}?{text[half:]}",
                "",
            ):
                assert not is_json_of(other, value)
