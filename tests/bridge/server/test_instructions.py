"""Instructions of many sources in little room: who is cut, where, and what is said of it."""

from __future__ import annotations

import itertools
from typing import Final

from gaia_bridge.server.instructions import fitted, fitted_alone, whole

SENTENCES: Final = "".join(f"This is sentence {number}. " for number in range(500)).rstrip()
FAMILY: Final = "👩\u200d👩\u200d👧🏽"


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def shares(parts: list[tuple[str, str]], limit: int) -> dict[str, str]:
    """What is left of each source's instructions, by its name."""
    told = fitted(parts, limit).split("## ")[1:]
    return {name: text.strip() for name, _, text in (part.partition("\n\n") for part in told)}


def test_what_fits_is_told_as_it_is() -> None:
    parts = [("a", "One."), ("b", "Two.")]
    assert fitted(parts, units(whole(parts))) == whole(parts) == "## a\n\nOne.\n\n## b\n\nTwo."
    assert fitted(parts, units(whole(parts)) - 1) != whole(parts)


def test_the_short_stay_whole_and_the_long_share_the_rest_alike_in_their_order() -> None:
    parts = [("long", SENTENCES), ("short", "Short."), ("longer", SENTENCES * 2), ("middle", "m. " * 100)]
    told = shares(parts, 2_048)
    assert list(told) == ["long", "short", "longer", "middle"]
    assert told["short"] == "Short."
    assert told["middle"] == ("m. " * 100).strip()
    assert told["long"] == told["longer"]
    assert told["long"].endswith(". […]")
    assert len(told["long"]) > 700


def test_a_text_is_cut_at_the_end_of_a_line_a_sentence_or_a_word() -> None:
    assert fitted_alone("s", "one line\n" * 100, 200).splitlines()[-1].startswith("one line [… all of it: resource")
    assert ". [… all of it: resource gaia-instructions://s%2F1]" in fitted_alone("s/1", SENTENCES, 200)
    assert fitted_alone("s", "word " * 100, 200).count("word") * 5 - 1 == fitted_alone("s", "word " * 100, 200).index(
        " ["
    )
    assert "x [… all of it" in fitted_alone("s", "x" * 1_000, 200)


def test_nothing_is_ever_longer_than_its_room_and_no_character_is_parted() -> None:
    texts = (SENTENCES, "x" * 5_000, FAMILY * 900, "\ud83d" * 900, "語。" * 900, "e\u0301" * 900, "\n" * 900)
    for text, count, limit in itertools.product(texts, (1, 2, 3, 200), (1, 7, 60, 119, 121, 300, 2_048)):
        parts = [(f"s{number}", text) for number in range(count)]
        for told in (fitted(parts, limit), fitted_alone("s0", text, limit)):
            assert 0 <= units(told) <= limit
            if text is not texts[3]:
                told.encode()  # no half of a pair
    for limit in range(100, 140):
        told = fitted_alone("s", FAMILY * 100, limit)
        assert told.partition(" [")[0] == FAMILY * (len(told.partition(" [")[0]) // len(FAMILY))


def test_of_two_hundred_sources_those_are_told_that_there_is_room_for() -> None:
    parts = [(f"source{number:03}", SENTENCES) for number in range(200)]
    parts[150] = ("source150", "The short one.")
    told = shares(parts, 2_048)
    assert told["source150"] == "The short one."
    assert 10 < len(told) < 30
    assert list(told) == sorted(told)
    assert "or is left out" in fitted(parts, 2_048).splitlines()[0]


def test_the_same_is_told_each_time() -> None:
    parts = [(f"s{number}", SENTENCES[: 100 * number]) for number in range(1, 60)]
    assert len({fitted(parts, 2_048) for _ in range(3)}) == 1
