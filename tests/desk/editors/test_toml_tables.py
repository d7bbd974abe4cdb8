"""A table of TOML is put in and taken out; comments, order and blank lines of all else stay byte for byte."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge_desk.editors.jsonc import EditError
from gaia_bridge_desk.editors.toml_tables import put, read, take, written

PATH = ("mcp_servers", "gaia-bridge")
ENTRY = {"command": "/opt/x y/gaia-bridge", "args": ["connect", 'a"b\\'], "enabled": True, "env": {"A B": "ü\x7f"}}

PARTS = (
    "# a comment\n",
    'model = "x" # the usual\n',
    "\n",
    '[mcp_servers.time]\ncommand = "uvx" # from uv\nargs = [\n  "mcp-server-time",\n]\n',
    '[mcp_servers.time.env]\nA = "1"\n# last\n',
    '[projects."/home/me"]\ntrust_level = "trusted"\n',
    "[mcp_servers.'odd name']\nurl = 'https://x.org'\n",
    "[[hooks]]\nname = 'a'\n",
)


@given(st.lists(st.sampled_from(PARTS), unique=True), st.booleans(), st.booleans())
def test_a_table_comes_and_goes_and_all_else_stays(parts: list[str], windows: bool, ends: bool) -> None:
    text = "".join(parts)
    text = text.replace("\n", "\r\n") if windows else text
    text = text if ends else text.rstrip("\r\n")
    try:
        before = read(text)
    except EditError:
        return  # a key behind a table
    changed = put(text, PATH, ENTRY)
    assert changed.startswith(text)
    assert tomllib.loads(changed.replace("\r\n", "\n"))["mcp_servers"]["gaia-bridge"] == ENTRY
    assert put(changed, PATH, ENTRY) == changed
    left = take(changed, PATH)
    assert read(left) == before
    assert left == text or left == text + ("\r\n" if "\r\n" in text else "\n")


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.booleans() | st.lists(st.text(max_size=5))))
def test_whatever_is_written_reads_back_the_same(table: dict[str, Any]) -> None:
    try:
        text = written(PATH, table)
        text.encode()
    except UnicodeEncodeError:
        return
    assert tomllib.loads(text) == {"mcp_servers": {"gaia-bridge": table}}


def test_a_table_is_replaced_at_its_place_with_those_below_it() -> None:
    text = (
        "# mine\n[mcp_servers.\"gaia-bridge\"] # ours\ncommand = 'old'\n\n[mcp_servers.gaia-bridge.env]\nA = '1'\n\n"
        "# of z\n[z]\na = 1\n"
    )
    assert put(text, PATH, {"command": "new"}) == (
        '# mine\n[mcp_servers.gaia-bridge]\ncommand = "new"\n\n\n# of z\n[z]\na = 1\n'
    )
    assert read(take(text, PATH)) == {"z": {"a": 1}}
    assert "# of z" in take(text, PATH)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = ", "Invalid value"),
        ('mcp_servers = {a = {command = "x"}}\n', r"begins with \[mcp_servers\.gaia-bridge\]"),
        ("mcp_servers = 1\n", "not written as tables"),
        ("[mcp_servers]\ngaia-bridge = {command = 'x'}\n", "not written as tables"),
        ("mcp_servers.gaia-bridge.command = 'x'\n", "not written as tables"),
    ],
)
def test_what_is_written_otherwise_is_left_alone(text: str, reason: str) -> None:
    with pytest.raises(EditError, match=reason):
        put(text, PATH, ENTRY)
    with pytest.raises(EditError):
        take(text, PATH)


def test_a_head_in_a_text_of_several_lines_is_not_taken_for_one() -> None:
    text = "x = '''\n[mcp_servers.gaia-bridge]\n'''\n"
    changed = put(text, PATH, ENTRY)
    assert read(changed)["x"] == "[mcp_servers.gaia-bridge]\n"
    with pytest.raises(EditError, match="not written as tables"):
        take(changed, PATH)
    with pytest.raises(EditError, match="there is no"):
        take(text, PATH)
