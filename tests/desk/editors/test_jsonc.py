"""A change of JSON with comments is about one value: all else stays byte for byte, and is there when it is undone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge_desk.editors.jsonc import EditError, append, has_value, put, read, strict, take

SETTINGS = """\
// Zed settings
{
  "theme": "One Dark", // dark
  /* all servers */
  "context_servers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]}, // a clock
    // "old": {}
  },
}
"""

ENTRY = {"command": "/x/gaia-bridge", "args": ["connect"]}


def test_comments_and_trailing_commas_are_read_as_blanks_of_the_same_length() -> None:
    assert read(SETTINGS)["context_servers"] == {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    assert len(strict(SETTINGS)) == len(SETTINGS)
    assert read('{"url": "http://x/*y*/", "a": [1,], }') == {"url": "http://x/*y*/", "a": [1]}
    assert read("") == read("// nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{\n  "a": }', "line 2, column 8"),
        ('{"a": 1, "a": 2}', "'a' appears twice"),
        ("[1]", "no object"),
        ("[,]", "line 1"),
        ('{"a": 1,,}', "line 1"),
        ('{"a": 1 /* open', "line 1"),
        ('{"a": "/* open', "line 1"),
        ("{/*/ }", "line 1"),
        ("[" * 200_000, "too deep"),
    ],
)
def test_what_is_no_such_text_is_refused_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(EditError, match=reason):
        read(text)
    with pytest.raises(EditError, match=reason):
        put(text, ["a"], 1)


def test_a_value_is_put_behind_the_others_with_their_comments_indentation_and_trailing_comma() -> None:
    changed = put(SETTINGS, ["context_servers", "gaia-bridge"], ENTRY)
    assert changed == SETTINGS.replace(
        '    // "old": {}\n',
        '    // "old": {}\n    "gaia-bridge": {\n      "command": "/x/gaia-bridge",\n      "args": [\n'
        '        "connect"\n      ]\n    },\n',
    )
    assert take(changed, ["context_servers", "gaia-bridge"]) == SETTINGS


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("{}", '{\n  "s": {\n    "n": 1\n  }\n}'),
        ("", '{\n  "s": {\n    "n": 1\n  }\n}\n'),
        ("// mine", '// mine\n{\n  "s": {\n    "n": 1\n  }\n}\n'),
        ('{"s":{"a":2}}', '{"s":{"a":2, "n": 1}}'),
        ('{"s": {"a": 2,}}', '{"s": {"a": 2, "n": 1,}}'),
        ('{\r\n\t"s": {\r\n\t\t"a": 2\r\n\t}\r\n}', '{\r\n\t"s": {\r\n\t\t"a": 2,\r\n\t\t"n": 1\r\n\t}\r\n}'),
        (
            '{\n    "s": {\n        "a": 2 // two\n    }\n}',
            '{\n    "s": {\n        "a": 2, // two\n        "n": 1\n    }\n}',
        ),
        ('{\n  "s": {\n    // none\n  }\n}', '{\n  "s": {\n    // none\n    "n": 1\n  }\n}'),
        ('{"a": 2,\n "b": 3}', '{"a": 2,\n "b": 3,\n "s": {\n   "n": 1\n }}'),
        ('{"s": {/* none */}}', '{"s": {/* none */\n  "n": 1\n}}'),
    ],
)
def test_a_value_is_put_where_it_belongs_in_the_style_of_the_text(text: str, changed: str) -> None:
    assert read(put(text, ["s", "n"], 1)) == read(changed)
    assert put(text, ["s", "n"], 1) == changed


def test_a_value_that_is_there_is_replaced_at_its_place() -> None:
    assert put('{"a": 1, /* x */ "b": 2}', ["a"], {"c": 3}) == '{"a": {"c": 3}, /* x */ "b": 2}'
    assert put('{\n  "a": [1] // x\n}', ["a"], {"c": 3}) == '{\n  "a": {\n    "c": 3\n  } // x\n}'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"x": 1}', "{}"),
        ('{ "x": 1, "b": 2 }', '{ "b": 2 }'),
        ('{"x": 1, "b": 2}', '{"b": 2}'),
        ('{"a": 1, "x": 2, "b": 3}', '{"a": 1, "b": 3}'),
        ('{"a": 1, "x": 2}', '{"a": 1}'),
        ('{\n  "a": 1, // one\n  "x": 2, // mine\n  "b": 3\n}', '{\n  "a": 1, // one\n  // mine\n  "b": 3\n}'),
        ('{\n  "a": 1, // one\n  "x": 2, "b": 3}', '{\n  "a": 1, // one\n  "b": 3}'),
        ('{\n  "a": 1 // one\n  , "x": 2}', '{\n  "a": 1 // one\n  }'),
        ('{\n  // mine\n  "x": 2\n}', "{\n  // mine\n}"),
        ('{\n  "a": 1,\n  "x": 2,\n}', '{\n  "a": 1,\n}'),
    ],
)
def test_what_is_taken_out_leaves_comments_and_the_others(text: str, left: str) -> None:
    assert take(text, ["x"]) == left


def test_a_list_grows_and_shrinks_the_same_way() -> None:
    text = '{\n  "inputs": [\n    {"id": "a"}\n  ]\n}\n'
    grown = append(text, ["inputs"], {"id": "b"})
    assert read(grown) == {"inputs": [{"id": "a"}, {"id": "b"}]}
    assert take(grown, ["inputs", 1]) == text
    assert append("{}", ["inputs"], 1) == '{\n  "inputs": [\n    1\n  ]\n}'
    with pytest.raises(EditError, match="no list"):
        append('{"inputs": {}}', ["inputs"], 1)


@pytest.mark.parametrize("text", ['{"s": []}', '{"s": 1}', '{"s": null}'])
def test_what_is_no_object_on_the_way_is_not_replaced(text: str) -> None:
    with pytest.raises(EditError, match="'s' is no object"):
        put(text, ["s", "n"], 1)
    with pytest.raises(EditError, match=r"there is no 's\.n'"):
        take(text, ["s", "n"])


BLANK = st.sampled_from(["", " ", "\n", "  ", "\t", "\r\n", " /* c */ ", "// c\n", "/**/", ' // , } ] "\n\n'])
KEYS = st.text(st.characters(codec="utf-8"), max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def texts(draw: st.DrawFn, depth: int = 3) -> str:
    """A well-formed object with blanks, comments and commas everywhere."""

    def value(level: int) -> str:
        kind = draw(st.sampled_from("slo" if level else "s"))
        if kind == "s":
            return json.dumps(draw(SCALARS), ensure_ascii=draw(st.booleans()))
        if kind == "l":
            return enclosed("[]", [value(level - 1) for _ in range(draw(st.integers(0, 3)))])
        return members(level - 1)

    def members(level: int) -> str:
        names = draw(st.lists(KEYS, max_size=3, unique=True))
        return enclosed("{}", [f"{json.dumps(name)}{draw(BLANK)}:{draw(BLANK)}{value(level)}" for name in names])

    def enclosed(brackets: str, items: list[str]) -> str:
        spaced = [f"{draw(BLANK)}{item}{draw(BLANK)}" for item in items]
        has_comma: bool = draw(st.booleans())
        trailing = f",{draw(BLANK)}" if items and has_comma else ""
        return f"{brackets[0]}{draw(BLANK)}{','.join(spaced)}{trailing}{brackets[1]}"

    return f"{draw(BLANK)}{members(depth)}{draw(BLANK)}"


@given(texts(), st.lists(KEYS, min_size=1, max_size=3), st.recursive(SCALARS, st.lists, max_leaves=4))
def test_a_put_changes_one_value_and_a_take_brings_the_others_back(text: str, path: list[str], value: Any) -> None:
    before = read(text)
    try:
        changed = put(text, path, value)
    except EditError as error:
        assert "is no object" in str(error)
        return
    found: Any = read(changed)
    for key in path:
        found = found[key]
    assert found == value
    assert read(put(changed, path, value)) == read(changed)
    if not has_value(before, path):
        assert comments(changed) == comments(text)
    if not has_value(before, path[:1]) and before:
        assert take(changed, path[:1]) == text
    elif has_value(before, path[:-1]) and not has_value(before, path) and owner(before, path):
        assert take(changed, path) == text


@given(texts(), st.data())
def test_a_take_leaves_everything_else(text: str, data: st.DataObject) -> None:
    document = read(text)
    if not document:
        return
    key = data.draw(st.sampled_from(sorted(document)))
    del document[key]
    assert read(take(text, [key])) == document


@given(texts())
def test_reading_agrees_with_json_where_there_is_nothing_to_leave_out(text: str) -> None:
    document = read(text)
    assert read(json.dumps(document)) == json.loads(strict(text) or "{}") == document


def owner(document: Any, path: list[str]) -> Any:
    """The object that a path's last key is looked for in."""
    for key in path[:-1]:
        document = document[key]
    return document


def comments(text: str) -> list[str]:
    """What is said in comments, character by character."""
    return [said for said, plain in zip(text, strict(text), strict=True) if said != plain and said != ","]
