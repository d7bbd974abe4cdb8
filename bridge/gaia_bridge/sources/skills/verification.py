"""Verifies the files of a skill against its entry: size, digest, and the frontmatter of its `SKILL.md`."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from gaia_bridge.errors import SkillChangedError
from gaia_bridge.protocol.skills import DYNAMIC, files_of, root_of, skill_problem
from gaia_bridge.protocol.vocabulary import definition_problem
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.skills.frontmatter import FrontmatterError, is_same_frontmatter
from gaia_bridge.text.json_types import JSON


def uri_of(skill: Mapping[str, Any], path: str) -> str:
    """Return the URI of a file of a skill; if the entry lists files, the one that it lists.

    Raises:
        SkillChangedError: The entry has no such file, or is not valid.
    """
    uri = str(skill.get("uri"))
    if (problem := definition_problem("skill", skill)) is not None:
        raise SkillChangedError(uri, f"its entry must not be used: {problem}")
    root = root_of(uri)
    ways = (f"{root}/{path}", f"{root}/{quote(path)}", f"{root}/{quote(path, safe='/!$&()*+,;=~')}")
    files = {file.get("uri") for file in files_of(skill)}
    listed = next((way for way in ways if way in files), None)
    if skill["resources"] == DYNAMIC and not any(part in ("", ".", "..") for part in path.split("/")):
        return ways[1]
    if listed is None:
        raise SkillChangedError(f"{root}/{path}", "its entry lists no such file")
    return listed


def verified(skill: Mapping[str, Any], uri: str, contents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the bytes of a file, if they fit the entry.

    Args:
        contents: The contents in the result of `resources/read`.

    Raises:
        SkillChangedError: The bytes do not fit.
    """
    content = _bytes_of(uri, contents)
    file: JSON | None = next((file for file in files_of(skill) if file.get("uri") == uri), None)
    if file is not None and len(content) != file.get("size"):
        raise SkillChangedError(uri, f"it has {len(content):,} bytes; its entry says {file.get('size')!r}")
    if file is not None and f"sha256:{hashlib.sha256(content).hexdigest()}" != file.get("digest"):
        raise SkillChangedError(uri, "its digest is not that of its entry")
    if uri == skill["uri"]:
        if (problem := skill_problem(skill)) is not None:
            raise SkillChangedError(uri, problem)
        try:
            same = is_same_frontmatter(skill["frontmatter"], content, AgentLimits().skill_frontmatter_bytes)
        except FrontmatterError as error:
            raise SkillChangedError(uri, str(error)) from None
        if not same:
            raise SkillChangedError(uri, "its frontmatter is not that of its entry")
    return content


def _bytes_of(uri: str, contents: Iterable[Mapping[str, Any]]) -> bytes:
    for item in contents:
        text, blob = item.get("text"), item.get("blob")
        if isinstance(text, str):
            return text.encode(errors="surrogatepass")
        if isinstance(blob, str):
            try:
                return base64.b64decode(blob, validate=True)
            except (ValueError, binascii.Error):
                raise SkillChangedError(uri, "what came is no base64") from None
    raise SkillChangedError(uri, "nothing came")
