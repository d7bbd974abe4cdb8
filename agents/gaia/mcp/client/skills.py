"""Skills of a server (SEP-2640), for clients that ask and wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gaia_bridge.protocol.skills import SKILLS_LIST
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import is_array, is_object

__all__ = ["Ask", "read_skill_file", "read_skills"]

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Makes one request: method and parameters."""

_PAGES: Final = UpstreamLimits().pages


def read_skills(ask: Ask) -> list[dict[str, Any]]:
    """Read the entries of all skills, to the last page.

    Args:
        ask: Makes one request.
    """
    listed: list[dict[str, Any]] = []
    params: dict[str, Any] = {}
    for _ in range(_PAGES):
        page = ask(SKILLS_LIST, params)
        skills, cursor = page.get("skills"), page.get("nextCursor")
        listed += [item for item in skills if is_object(item)] if is_array(skills) else []
        if not isinstance(cursor, str) or params.get("cursor") == cursor:
            break
        params = {"cursor": cursor}
    return listed


def read_skill_file(ask: Ask, skill: Mapping[str, Any], path: str) -> bytes:
    """Read a file of a skill, and verify it.

    Args:
        ask: Makes one request.
        skill: Its entry.
        path: The path of the file in the skill.

    Raises:
        SkillChangedError: It is not what the entry says.
    """
    from gaia_bridge.sources.skills.verification import uri_of, verified

    uri = uri_of(skill, path)
    contents = ask("resources/read", {"uri": uri}).get("contents")
    return verified(skill, uri, [item for item in contents if is_object(item)] if is_array(contents) else [])
