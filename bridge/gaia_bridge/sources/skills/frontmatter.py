"""Reads the frontmatter of a `SKILL.md`: YAML between two lines of dashes, as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gaia_bridge.protocol.skills import SKILL_FILE, frontmatter_problem
from gaia_bridge.text.json_types import JSON, is_array, is_object

_FRONTMATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_EXPECTED: Final = f"expected {SKILL_FILE} to begin with '---', name, description, and '---' again"


class FrontmatterError(ValueError):
    """The frontmatter cannot be read, or breaks the Agent Skills specification; the message says what to do."""


def read_frontmatter(content: bytes, most: int) -> JSON:
    """Return the frontmatter of a `SKILL.md`, with every field that its author wrote.

    The values in `metadata` are texts, as the Agent Skills specification requires: a value without quotes, such as
    `1.0`, is taken literally. So is a date, anywhere.

    Args:
        most: The most bytes of the frontmatter.

    Raises:
        FrontmatterError: There is no frontmatter, or it is not valid.
    """
    text = _yaml_of(content, most)
    parsed = _parsed(text)
    read: JSON | None = parsed if is_object(parsed) else None
    if read is None:
        raise FrontmatterError(f"its frontmatter is no mapping; {_EXPECTED}")
    metadata = read.get("metadata")
    if is_object(metadata) and not all(isinstance(value, str) for value in metadata.values()):
        written = _parsed(text, as_text=True)["metadata"]
        texts = {key: value for key, value in written.items() if key in metadata and isinstance(value, str)}
        read = {**read, "metadata": {**metadata, **texts}}
    if (problem := frontmatter_problem(read)) is not None:
        raise FrontmatterError(problem)
    return read


def is_same_frontmatter(frontmatter: Mapping[str, Any], content: bytes, most: int) -> bool:
    """Return whether the frontmatter of a `SKILL.md` equals an entry's, whose writer may read YAML in another way.

    YAML has two versions: in one `yes` is true, in the other a text; and some programs read all values as texts.

    Raises:
        FrontmatterError: There is no frontmatter, or it is not valid.
    """
    read = read_frontmatter(content, most)
    return _is_same(frontmatter, read, read) or _is_same(
        frontmatter, read, _parsed(_yaml_of(content, most), as_text=True)
    )


def _is_same(entry: object, read: object, written: object) -> bool:
    if is_object(entry):
        if not is_object(read) or not is_object(written) or entry.keys() != read.keys():
            return False
        return all(_is_same(value, read[key], written.get(key)) for key, value in entry.items())
    if is_array(entry):
        if not is_array(read) or not is_array(written) or len(entry) != len(read):
            return False
        return all(map(_is_same, entry, read, written))
    # In Python, true is the number one.
    return any(entry == value and isinstance(entry, bool) == isinstance(value, bool) for value in (read, written))


def _yaml_of(content: bytes, most: int) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise FrontmatterError(f"{SKILL_FILE} is no UTF-8 (byte {error.start}); save it as UTF-8") from None
    match = _FRONTMATTER.match(text)
    if match is None:
        raise FrontmatterError(f"it has no frontmatter; {_EXPECTED}")
    if (size := len(match[1].encode())) > most:
        raise FrontmatterError(f"its frontmatter has {size:,} bytes; at most {most:,} are read")
    return match[1]


def _parsed(text: str, *, as_text: bool = False) -> Any:
    """Return the value of a YAML document; features that are not JSON, or have no single meaning, are refused.

    Args:
        as_text: Whether values without quotes are texts, too.
    """
    import yaml  # it costs a start more than all that is ours, and few agents have skills

    from gaia_bridge.sources.skills.yaml_loader import PlainLoader, TextLoader

    try:
        return yaml.load(text, TextLoader if as_text else PlainLoader)
    except yaml.YAMLError as error:
        raise FrontmatterError(f"its frontmatter is no YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError, OverflowError) as error:  # a value that its own type does not take
        problem = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise FrontmatterError(f"its frontmatter cannot be read: {problem}") from None
