"""Whoever reads a skill gets what its entry says, or an error."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, cast

import pytest

from gaia_bridge import SkillChangedError
from gaia_bridge.sources.skills.verification import uri_of, verified

TEXT = "---\nname: one\ndescription: x\n---\nbody"
URI = "skill://one/SKILL.md"


def entry(text: str = TEXT, **more: Any) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    resources = [{"uri": URI, "digest": digest, "size": len(text.encode())}]
    return {"uri": URI, "frontmatter": {"name": "one", "description": "x"}, "resources": resources, **more}


def test_what_the_entry_says_is_returned_as_text_or_as_bytes() -> None:
    blob = base64.b64encode(TEXT.encode()).decode()
    assert verified(entry(), URI, [{"uri": URI, "text": TEXT}]) == TEXT.encode()
    assert verified(entry(), URI, [{"uri": URI, "blob": blob}]) == TEXT.encode()


@pytest.mark.parametrize(
    ("skill", "contents", "said"),
    [
        (entry(), [{"text": TEXT.replace("body", "evil")}], "digest"),
        (entry(), [{"text": TEXT + "!"}], "bytes; its entry says"),
        (entry(frontmatter={"name": "one", "description": "y"}), [{"text": TEXT}], "frontmatter is not"),
        (entry(), [], "nothing came"),
        (entry(), [{"blob": "?"}], "no base64"),
        (entry("no frontmatter"), [{"text": "no frontmatter"}], "no frontmatter"),
        (entry(frontmatter={"name": "two", "description": "x"}), [{"text": TEXT}], "its name"),
        (entry(resources="dynamic", frontmatter={"name": "one", "description": "y"}), [{"text": TEXT}], "is not"),
    ],
)
def test_anything_else_is_refused(skill: dict[str, Any], contents: list[dict[str, str]], said: str) -> None:
    with pytest.raises(SkillChangedError, match=said):
        verified(skill, URI, contents)


def test_only_files_that_the_entry_lists_have_a_uri() -> None:
    assert uri_of(entry(), "SKILL.md") == URI
    for path in ("other.md", "../two/SKILL.md", ""):
        with pytest.raises(SkillChangedError):
            uri_of(entry(), path)


def test_a_dynamic_skill_has_any_file_that_is_below_it() -> None:
    assert uri_of(entry(resources="dynamic"), "a b.md") == "skill://one/a%20b.md"
    with pytest.raises(SkillChangedError):
        uri_of(entry(resources="dynamic"), "../two/SKILL.md")


def test_an_entry_without_resources_is_none() -> None:
    with pytest.raises(SkillChangedError, match="must not be used"):
        uri_of({"uri": URI}, "SKILL.md")


@pytest.mark.parametrize(
    "more",
    cast(
        "list[dict[str, Any]]",
        [
            {"resources": [None]},
            {"resources": [{"uri": []}]},
            {"resources": None},
            {"resources": []},
            {"resources": [{"uri": URI, "digest": f"sha256:{'0' * 64}", "size": True}]},
            {"uri": None},
            {"frontmatter": None},
        ],
    ),
)
def test_an_entry_that_is_none_is_not_used(more: dict[str, Any]) -> None:
    for path in ("SKILL.md", "other.md"):
        with pytest.raises(SkillChangedError, match="its entry must not be used"):
            uri_of(entry(**more), path)
