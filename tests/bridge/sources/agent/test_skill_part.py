"""Where an agent's skills are, as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gaia_bridge.sources.agent.skill_part import skill_folders

HERE = Path(__file__).parent


class Silent:
    """Says nothing, and has no folder."""


class Parent:
    """Says it for its children as well."""

    mcp_skills = "x"


class Child(Parent):
    """Written elsewhere."""

    __module__ = "builtins"


def saying(said: object) -> Any:
    return type("Saying", (Silent,), {"mcp_skills": said, "__module__": __name__})()


@pytest.mark.parametrize(
    ("agent", "folders"),
    [
        (Silent(), ()),
        (Mock(), ()),
        (saying(None), ()),
        (saying(False), ()),
        (saying(True), (HERE / "skills",)),
        (saying("more/skills"), (HERE / "more/skills",)),
        (saying(Path("/skills")), (Path("/skills"),)),
        (saying(("a", Path("b"))), (HERE / "a", HERE / "b")),
        (Child(), (HERE / "x",)),
    ],
)
def test_paths_begin_at_the_file_of_the_class_that_says_them(agent: object, folders: tuple[Path, ...]) -> None:
    assert skill_folders(agent) == folders


@pytest.mark.parametrize("said", [7, b"skills", ["a", 7]])
def test_anything_else_is_refused_with_what_was_expected(said: object) -> None:
    with pytest.raises(TypeError, match="expected True, False, the path of a folder"):
        skill_folders(saying(said))
