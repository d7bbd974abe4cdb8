"""What of an entry of a skill is believed: hosts make folders and files of its URIs."""

from __future__ import annotations

import pytest

from gaia_bridge.protocol.skills import skill_problem
from gaia_bridge.text.json_types import JSON

DIGEST = f"sha256:{'a' * 64}"


def entry(uri: str, *files: str, name: str = "b") -> JSON:
    resources = [{"uri": each, "digest": DIGEST, "size": 1} for each in (uri, *files)]
    return {"uri": uri, "frontmatter": {"name": name, "description": "d"}, "resources": resources}


@pytest.mark.parametrize(
    "uri",
    [
        "skill://a/../b/SKILL.md",
        "skill://../b/SKILL.md",
        "skill://a/%2e%2e/b/SKILL.md",
        "skill://a/..%2fc/b/SKILL.md",
        "://b/SKILL.md",
        "skill://a?/b/SKILL.md",
        "skill://a#/b/SKILL.md",
        "skill://a\n/b/SKILL.md",
        "skill://a b/b/SKILL.md",
        "skill://a//b/SKILL.md",
        "skill:////b/SKILL.md",
        "skill://a\u202e/b/SKILL.md",
        "skill://a\u200b/b/SKILL.md",
    ],
)
def test_a_skill_whose_uri_is_no_plain_path_is_refused(uri: str) -> None:
    assert "its uri is" in (skill_problem(entry(uri)) or "")


@pytest.mark.parametrize(
    "uri", ["skill://b/SKILL.md", "skill://a/%FF/b/SKILL.md", "file:///etc/b/SKILL.md", "x-y://é/b/SKILL.md"]
)
def test_no_scheme_is_privileged(uri: str) -> None:
    assert skill_problem(entry(uri)) is None


@pytest.mark.parametrize(
    "rest", ["..%2fx", "%2e%2e/x", "..\\..\\x", "..%5Cx", "x#y", "x?y", "a%00b", "a\nb", "a b", "", "a//b", "./a"]
)
def test_a_file_that_could_end_up_outside_of_its_folder_is_refused(rest: str) -> None:
    assert "is no file below" in (skill_problem(entry("skill://b/SKILL.md", f"skill://b/{rest}")) or "")


@pytest.mark.parametrize("rest", ["a%20b.md", "a%0Ab", "%FF", "a%5Cb", "x%3Fy%23z", "c/SKILL.md", "...", "é"])
def test_files_have_any_name_that_stays_there(rest: str) -> None:
    assert skill_problem(entry("skill://b/SKILL.md", f"skill://b/{rest}")) is None


@pytest.mark.parametrize("size", [-1, 1.0, True, "5", None, 2**53, 2**63])
def test_a_size_that_is_no_number_of_bytes_is_refused(size: object) -> None:
    skill = entry("skill://b/SKILL.md")
    skill["resources"][0]["size"] = size
    assert "the size of" in (skill_problem(skill) or "")


def test_the_largest_size_is_what_every_parser_reads() -> None:
    skill = entry("skill://b/SKILL.md")
    skill["resources"][0]["size"] = 2**53 - 1
    assert skill_problem(skill) is None
