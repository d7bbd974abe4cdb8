"""A prompt for each skill, for clients that know prompts and no skills."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from gaia_bridge.contract import Source
from gaia_bridge.protocol.names import SourceName
from gaia_bridge.protocol.skills import SKILL_KEY, root_of
from gaia_bridge.text.json_types import JSON, is_object

_Listed = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
_OTHERWISE: Final = "skill"


def skill_prompts(source: Source) -> Iterator[tuple[SourceName, str, _Listed]]:
    """The prompts that stand for the skills of a source, in both eras, each with the URI of its skill.

    What the source has a prompt for itself has no second one. The name is that of the skill; of two skills of one name,
    and where a prompt has it, that of its path.
    """
    taken: set[str] = set()
    covered: set[object] = set()
    for new, old in source.features.listed("prompts", "name"):
        for prompt in (new, old):
            if prompt is not None:
                taken.add(prompt["name"])
                meta = prompt.get("_meta")
                covered.add(meta.get(SKILL_KEY) if is_object(meta) else None)
    for new, old in source.features.listed("skills", "uri"):
        entry = new or old or {}
        if entry["uri"] in covered:
            continue
        name = _free(entry, taken)
        taken.add(name)
        modern = None if new is None else _prompt(name, new)
        legacy = modern if old is new else None if old is None else _prompt(name, old)
        yield SourceName(source.name, source.kind, name), entry["uri"], (modern, legacy)


def _free(entry: Mapping[str, Any], taken: Collection[str]) -> str:
    name: str = entry["frontmatter"]["name"]
    path = "-".join(map(unquote, root_of(entry["uri"]).partition("://")[2].split("/")))
    ways = (name, path, f"{_OTHERWISE}-{name}", f"{_OTHERWISE}-{path}")
    numbered = (f"{_OTHERWISE}-{path}-{number}" for number in range(2, len(taken) + 3))
    return next(way for way in (*ways, *numbered) if way not in taken)


def _prompt(name: str, entry: Mapping[str, Any]) -> JSON:
    description = entry["frontmatter"]["description"]
    return {"name": name, "description": description, "_meta": {SKILL_KEY: entry["uri"]}}
