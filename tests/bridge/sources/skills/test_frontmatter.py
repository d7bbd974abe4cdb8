"""The frontmatter of a `SKILL.md`, as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.sources.skills.frontmatter import FrontmatterError, is_same_frontmatter, read_frontmatter

MOST = 64 * 1024
GOOD = "name: one\ndescription: What it does\n"


def read(text: str, most: int = MOST) -> Any:
    return read_frontmatter(text.encode(), most)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_field_of_the_author_is_there_as_it_was_written(end: str) -> None:
    text = f"---\n{GOOD}license: MIT\nmetadata:\n  version: '1.0'\nhooks: [a, {{b: 1.5}}]\nx: ~\n---\nbody\n---\n"
    assert read(text.replace("\n", end)) == {
        "name": "one",
        "description": "What it does",
        "license": "MIT",
        "metadata": {"version": "1.0"},
        "hooks": ["a", {"b": 1.5}],
        "x": None,
    }


def test_a_mark_of_byte_order_is_no_part_of_it() -> None:
    assert read(f"\ufeff---\n{GOOD}---") == {"name": "one", "description": "What it does"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# No frontmatter", "it has no frontmatter"),
        (f"---\n{GOOD}", "it has no frontmatter"),
        ("---\n- a\n---\n", "no mapping"),
        ("---\nname: [\n---\n", "no YAML"),
        ("---\nname: One\ndescription: x\n---\n", "its name is 'One'"),
        ("---\nname: a--b\ndescription: x\n---\n", "single hyphens"),
        (f"---\nname: {'a' * 65}\ndescription: x\n---\n", "1 to 64"),
        ("---\nname: one\n---\n", "its description is None"),
        ("---\nname: one\ndescription: ' '\n---\n", "its description has 1 characters"),
        (f"---\nname: one\ndescription: {'x' * 1025}\n---\n", "1 to 1,024"),
        (f"---\n{GOOD}metadata:\n  versions: [1.0]\n---\n", "versions in its metadata is [1.0]; expected a text"),
        (f"---\n{GOOD}metadata:\n  1: x\n---\n", "a key of its frontmatter is 1"),
        (f"---\n{GOOD}released: !!timestamp 2026-01-01\n---\n", "released is a date"),
        (f"---\n{GOOD}x: .nan\n---\n", "no finite number"),
        (f"---\n{GOOD}1: x\n---\n", "a key of its frontmatter is 1"),
        (f"---\n{GOOD}x: !!binary aGk=\n---\n", "x is a bytes"),
        (f"---\n{GOOD}name: two\n---\n", "the key 'name' comes twice"),
        (f"---\n{GOOD}a: &a [x]\nb: [*a, *a]\n---\n", "aliases"),
        (f"---\n{GOOD}x: !!python/object/apply:os.system [true]\n---\n", "no YAML"),
        (f"---\n{GOOD}x: {'[' * 20_000}\n---\n", ""),
        (f"---\n{GOOD}x: !!timestamp 2026-99-99\n---\n", "cannot be read"),
        (f"---\n{GOOD}allowed-tools: [a]\n---\n", "its allowed-tools is"),
    ],
)
def test_what_is_not_valid_is_refused_with_what_to_do(text: str, said: str) -> None:
    with pytest.raises(FrontmatterError) as caught:
        read(text)
    assert said in str(caught.value)


def test_metadata_are_the_texts_that_are_written_and_so_are_dates() -> None:
    metadata = {"version": "1.0", "day": "2026-01-01", "flag": "yes", "none": "", "octal": "012", "quoted": "2"}
    lines = "".join(f"  {key}: {value}\n" for key, value in metadata.items()).replace("quoted: 2", "quoted: '2'")
    found = read(f"---\n{GOOD}metadata:\n{lines}day: 2026-01-01T10:00:00Z\nnumber: 1.5\nflag: true\n---\n")
    assert found["metadata"] == metadata
    assert (found["day"], found["number"], found["flag"]) == ("2026-01-01T10:00:00Z", 1.5, True)


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ({"x": "yes", "n": 1, "l": [1.5]}, True),  # YAML 1.2
        ({"x": True, "n": 1, "l": [1.5]}, True),  # YAML 1.1
        ({"x": "yes", "n": "1", "l": ["1.5"]}, True),  # texts only
        ({"x": True, "n": True, "l": [1.5]}, False),
        ({"x": 1, "n": 1, "l": [1.5]}, False),
        ({"x": False, "n": 1, "l": [1.5]}, False),
        ({"x": "no", "n": 1, "l": [1.5]}, False),
        ({"x": True, "n": 1, "l": [1.5, 2]}, False),
        ({"x": True, "n": 1, "l": {"0": 1.5}}, False),
        ({"x": True, "n": 1}, False),
        ({"x": True, "n": 1, "l": [1.5], "more": None}, False),
    ],
)
def test_whoever_reads_yaml_otherwise_says_the_same(said: dict[str, object], same: bool) -> None:
    content = f"---\n{GOOD}x: yes\nn: 1\nl: [1.5]\n---\n".encode()
    told = {"name": "one", "description": "What it does", **said}
    assert is_same_frontmatter(told, content, MOST) is same


def test_no_more_than_so_much_is_read() -> None:
    with pytest.raises(FrontmatterError, match="at most 10"):
        read(f"---\n{GOOD}---\n", 10)


def test_text_in_another_encoding_is_refused() -> None:
    with pytest.raises(FrontmatterError, match="UTF-8"):
        read_frontmatter(b"---\nname: \xff\n---\n", MOST)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: f"---\n{GOOD}{text}\n---\n".encode()))
def test_whatever_comes_it_is_json_or_refused(content: bytes) -> None:
    try:
        found = read_frontmatter(content, MOST)
    except FrontmatterError:
        return
    assert json.loads(json.dumps(found, allow_nan=False)) == found
