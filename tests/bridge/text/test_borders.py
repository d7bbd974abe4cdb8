"""Where texts are cut, and where not."""

from __future__ import annotations

import pytest

from gaia_bridge.text.borders import border_after, border_before


@pytest.mark.parametrize("one", ["👩\u200d👩\u200d👧🏽", "e\u0301\u0323", "\r\n", "❤\ufe0f"])
def test_what_is_one_to_the_eye_is_not_parted(one: str) -> None:
    text = f"a{one}b"
    for place in range(2, 1 + len(one)):
        assert (border_before(text, place), border_after(text, place)) == (1, 1 + len(one))


def test_everywhere_else_texts_are_cut_where_it_is_wanted() -> None:
    for text in ("", "abc", "\n\r", "e\u0301"):
        for place in {0, len(text)}:
            assert border_before(text, place) == place == border_after(text, place)
    assert [border_before("ab\n", place) for place in range(4)] == [0, 1, 2, 3]
    assert (border_before("a" + "\u0301" * 90, 50), border_after("a" + "\u0301" * 90, 50)) == (34, 66)
