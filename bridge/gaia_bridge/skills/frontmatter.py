"""Reads the frontmatter of a `SKILL.md`: YAML between two lines of dashes, as JSON."""

from __future__ import annotations

import re
from typing import Any, Final

from gaia_bridge.protocol.json_types import JSON, is_object
from gaia_bridge.protocol.skills import SKILL_FILE, frontmatter_problem

__all__ = ["FrontmatterError", "read_frontmatter"]

_FRONTMATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

_EXPECTED: Final = f"expected {SKILL_FILE} to begin with '---', name, description, and '---' again"


class FrontmatterError(ValueError):
    """The frontmatter cannot be read, or is not what the Agent Skills specification wants; says what to do."""


def read_frontmatter(content: bytes, most: int) -> JSON:
    """The frontmatter of a `SKILL.md`, every field that its author wrote.

    Args:
        content: The file.
        most: Bytes that the frontmatter may have.

    Raises:
        FrontmatterError: There is none, or it is not valid.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise FrontmatterError(f"{SKILL_FILE} is no UTF-8 (byte {error.start}); save it as UTF-8") from None
    found = _FRONTMATTER.match(text)
    if found is None:
        raise FrontmatterError(f"it has no frontmatter; {_EXPECTED}")
    if (size := len(found[1].encode())) > most:
        raise FrontmatterError(f"its frontmatter has {size:,} bytes; at most {most:,} are read")
    read = _parsed(found[1])
    if not is_object(read):
        raise FrontmatterError(f"its frontmatter is no mapping; {_EXPECTED}")
    if (problem := frontmatter_problem(read)) is not None:
        raise FrontmatterError(problem)
    return read


def _parsed(text: str) -> Any:
    """The value of a YAML document without what is not JSON, or has no single meaning.

    Raises:
        FrontmatterError: It cannot be read.
    """
    import yaml  # it costs a start more than all that is ours, and few agents have skills

    from gaia_bridge.skills.yaml_loader import PlainLoader

    try:
        return yaml.load(text, PlainLoader)
    except yaml.YAMLError as error:
        raise FrontmatterError(f"its frontmatter is no YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError, OverflowError) as error:  # a value that its own type does not take
        said = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise FrontmatterError(f"its frontmatter cannot be read: {said}") from None
