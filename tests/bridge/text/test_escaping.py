"""Text of any origin can neither forge a line nor move the cursor."""

from __future__ import annotations

import pytest

from gaia_bridge.text.escaping import MAX_SHOWN, one_line, printable

HOSTILE = "one\nERROR forged\x1b[2J\u202e\ud800\ttab"


@pytest.mark.requirement("F-113")
def test_what_cannot_be_printed_is_escaped() -> None:
    assert printable(HOSTILE) == "one\\nERROR forged\\x1b[2J\\u202e\\ud800\\ttab"


def test_printable_text_stays_as_it_is() -> None:
    assert printable("Grüße, 世界 \\n") == "Grüße, 世界 \\n"


@pytest.mark.requirement("F-113")
def test_long_text_is_cut_unless_all_of_it_is_wanted() -> None:
    text = "x" * (MAX_SHOWN + 1)
    assert printable(text) == "x" * MAX_SHOWN + "..."
    assert printable(text, limit=None) == text


@pytest.mark.requirement("F-113")
def test_a_line_for_people_has_spaces_instead() -> None:
    assert one_line(f"  {HOSTILE}\r\n") == "one ERROR forged [2J tab"


def test_a_line_for_people_is_cut() -> None:
    assert one_line("x" * 900) == "x" * 499 + "…"
    assert one_line("x" * 100, 100) == "x" * 100
