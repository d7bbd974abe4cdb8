"""Carries out `skills/get` and `resources/directory/read` on a catalog, and shows skills to clients without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio

from gaia_bridge.contract import Source
from gaia_bridge.errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, ResourceNotFoundError
from gaia_bridge.model import SourceKind
from gaia_bridge.protocol.codes import LEGACY_RESOURCE_NOT_FOUND, METHOD_NOT_FOUND
from gaia_bridge.protocol.skills import (
    DIRECTORY_READ,
    SKILL_FILE,
    SKILL_KEY,
    SKILLS_GET,
    children,
    declares_skills,
    files_of,
    is_child,
    reads_directories,
    root_of,
)
from gaia_bridge.protocol.vocabulary import definition_problem
from gaia_bridge.server.call import Call
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.pagination import Pager
from gaia_bridge.server.rounds import brought_to_an_end
from gaia_bridge.settings import Settings
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object

_NAMED_FILES: Final = 50
"""Files of a skill that its prompt names."""
_UNKNOWN: Final = frozenset({INVALID_PARAMS, LEGACY_RESOURCE_NOT_FOUND})
"""The codes of servers that have no such skill or directory."""


class SkillMethods:
    """The methods about the skills of a catalog. Their parameters are already validated."""

    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        self._catalog = catalog
        self._settings = settings

    async def get(self, call: Call) -> JSON:
        """Return the entry of one skill as it is now, requested anew from its server."""
        uri: str = call.params["uri"]
        if (server := self._catalog.server) is not None:
            return await server.forward(call.method, {"uri": uri}, call)
        refusal = f"No skill is served at {uri}"
        error = ProtocolError(INVALID_PARAMS, refusal, {"uri": uri})
        try:
            source, own = await self._target(call, refusal)
            if (entry := await self._entry(source, own, call)) is not None:
                return {"skill": self._catalog.addresses.skills.entry(source, entry, uri)}
        except ProtocolError as problem:
            error = problem
        if error.code != INVALID_PARAMS or (unlisted := await self._unlisted(uri, call)) is None:
            raise error
        call.served_by = unlisted[0].name
        return {"skill": self._catalog.addresses.skills.entry(*unlisted, uri)}

    async def read_directory(self, call: Call) -> JSON:
        """Return the files and directories that are directly in a directory of a skill."""
        uri: str = call.params["uri"]
        cursor = call.params.get("cursor")
        page: JSON = {} if cursor is None else {"cursor": cursor}
        if (server := self._catalog.server) is not None:
            return await server.forward(call.method, {"uri": uri, **page}, call)
        refusal = f"{uri} is not a directory resource"
        source, own = await self._target(call, refusal)
        await _look(source)
        features = source.features.for_era(modern=call.modern)
        if source.kind is SourceKind.SERVER and reads_directories(features.declared or {}):
            try:
                result = await source.forward(DIRECTORY_READ, {"uri": own, **page}, call)
            except ProtocolError as error:
                if error.code in _UNKNOWN:
                    raise ProtocolError(INVALID_PARAMS, refusal, {"uri": uri}) from None
                if error.code != METHOD_NOT_FOUND:
                    raise
            else:
                return _outward(source, own, uri, result)
        from gaia_bridge.sources.skills.media_types import media_type

        skills = source.features.skills_for(modern=call.modern)
        entries = (*skills, *await self._unlisted_above(source, uri, call))
        files = children(own, entries, features.resources, media_type)
        if files is None:
            raise ProtocolError(INVALID_PARAMS, refusal, {"uri": uri})
        items, following = Pager(self._settings.pages).page(files, cursor)
        more = {} if following is None else {"nextCursor": following}
        return _outward(source, own, uri, {"resources": list(items), **more})

    async def reader(self, uri: str, call: Call) -> tuple[Source, str]:
        """Return the source that reads a URI, and its own URI for it; also for the `SKILL.md` of an unlisted skill."""
        try:
            return await self._catalog.lookup(lambda: self._catalog.resource(uri))
        except ResourceNotFoundError:
            if await self._unlisted(uri, call) is None:
                raise
            return self._catalog.resource(uri)

    async def prompt(self, source: Source, uri: str, call: Call) -> JSON:
        """Return the prompt of a skill: its `SKILL.md`, by the URI of its source, and the URIs of its other files."""
        reading = call.with_params({"uri": uri}, "resources/read")
        result = await brought_to_an_end(partial(source.read_resource, uri), reading, self._settings.agent)
        contents: list[JSON] = result.get("contents") or []
        text = next((item["text"] for item in contents if isinstance(item.get("text"), str)), None)
        if text is None:
            raise ProtocolError(INTERNAL_ERROR, f"{uri} is no text")
        skills = source.features.skills_for(modern=call.modern)
        entry = next((item for item in skills if item["uri"] == uri), None)
        texts = [text, *self._where_files_are(source, uri, entry)]
        return {
            "description": "" if entry is None else entry["frontmatter"]["description"],
            "messages": [{"role": "user", "content": {"type": "text", "text": item}} for item in texts],
        }

    def _where_files_are(self, source: Source, uri: str, entry: Mapping[str, Any] | None) -> Iterable[str]:
        """Yield sentences for a model that reads paths of files in a `SKILL.md`."""
        further = [file["uri"] for file in files_of(entry or {"resources": ()}) if file["uri"] != uri]
        public = partial(self._catalog.addresses.public, source)
        whose = f"This skill comes from the MCP server {source.name!r}"
        if not further:
            yield f"{whose}."
            return
        shown = [f"- {public(file)}" for file in further[:_NAMED_FILES]]
        if len(further) > len(shown):
            shown.append(f"- and {len(further) - len(shown)} more")
        yield (
            f"{whose}. Paths in it begin at {public(root_of(uri))}/; "
            "its other files are resources of that server:\n" + "\n".join(shown)
        )

    async def _target(self, call: Call, refusal: str) -> tuple[Source, str]:
        """Return the source of a file or directory of a skill, and its own URI; raise the refusal if none has it."""
        uri: str = call.params["uri"]
        try:
            source, own = await self._catalog.lookup(lambda: self._catalog.resource(uri))
        except ResourceNotFoundError:
            raise ProtocolError(INVALID_PARAMS, refusal, {"uri": uri}) from None
        call.served_by = source.name
        declared = source.features.for_era(modern=call.modern).extras
        if not source.features.skills_for(modern=call.modern) and not declares_skills(declared):
            raise ProtocolError(INVALID_PARAMS, refusal, {"uri": uri})
        return source, own

    async def _unlisted(self, uri: str, call: Call) -> tuple[Source, Mapping[str, Any]] | None:
        """Return a skill that no list has, from the first server that has it. From then on its files can be read.

        A server may list some of its skills only, or none.
        """
        skills = self._catalog.addresses.skills
        if (root := root_of(uri)) == uri or "://" not in root:
            return None
        servers = [source for source in self._catalog.sources if _may_have_more(source, modern=call.modern)]
        if (named := skills.named(uri)) is not None:
            _, _, rest = uri.partition("://")[2].partition("/")
            ways = [(named, f"skill://{rest}"), (named, uri)] if named in servers else []
        else:
            ways = [(source, uri) for source in servers]
        entries: dict[int, Mapping[str, Any]] = {}

        async def ask(number: int, source: Source, own: str) -> None:
            with suppress(ProtocolError):
                if (entry := await self._entry(source, own, call)) is not None:
                    entries[number] = entry

        with anyio.move_on_after(self._settings.upstream.first_look):
            async with anyio.create_task_group() as tasks:
                for number, (source, own) in enumerate(ways):
                    tasks.start_soon(ask, number, source, own)
        if not entries:
            return None
        number = min(entries)
        source, own = ways[number]
        self._catalog.unlisted_skills.note(root, source, root_of(own))
        return source, entries[number]

    async def _unlisted_above(self, source: Source, uri: str, call: Call) -> list[Mapping[str, Any]]:
        """Return the unlisted skill that a file or directory is in, if it is in one."""
        name, _, root = self._catalog.unlisted_skills.find(uri) or ("", "", "")
        entry = await self._entry(source, f"{root}/{SKILL_FILE}", call) if name == source.name else None
        return [] if entry is None else [entry]

    async def _entry(self, source: Source, uri: str, call: Call) -> Mapping[str, Any] | None:
        await _look(source)
        skills = source.features.skills_for(modern=call.modern)
        listed = next((item for item in skills if item["uri"] == uri), None)
        if source.kind is SourceKind.AGENT:
            return listed
        try:
            result = await source.forward(SKILLS_GET, {"uri": uri}, call)
        except ProtocolError as error:
            if error.code in _UNKNOWN:
                return None
            if error.code == METHOD_NOT_FOUND:  # in the era of this client
                return listed
            raise
        entry = result.get("skill")
        problem = definition_problem("skill", entry) if is_object(entry) else "it is not an object"
        if problem is None and is_object(entry) and entry["uri"] != uri:
            problem = f"its uri is {one_line(entry['uri'], 200)!r}, and {one_line(uri, 200)!r} was asked for"
        if problem is not None or not is_object(entry):
            words = f"upstream {source.name!r} answered {SKILLS_GET} with a skill that is none: {problem}"
            raise ProtocolError(INTERNAL_ERROR, words)
        return entry


def _outward(source: Source, own: str, uri: str, result: JSON) -> JSON:
    """Return the items of a list that are directly in a directory, under the URIs that clients know."""
    resources = result.get("resources")
    if not is_array(resources):
        raise ProtocolError(INTERNAL_ERROR, f"{source.name!r} answered {DIRECTORY_READ} with no list")
    shown = [
        {**item, "uri": uri + item["uri"].removeprefix(own)}
        for item in resources
        if is_object(item) and definition_problem("resource", item) is None and is_child(item["uri"], own)
    ]
    following = result.get("nextCursor")
    return {"resources": shown, **({"nextCursor": following} if isinstance(following, str) else {})}


async def _look(source: Source) -> None:
    """Let an agent read its folders again; servers are asked for each skill anyway."""
    if source.kind is SourceKind.AGENT:
        await source.refresh()


def _may_have_more(source: Source, *, modern: bool) -> bool:
    """Return whether a source may have skills that it does not list."""
    features = source.features.for_era(modern=modern)
    return (
        source.kind is SourceKind.SERVER and declares_skills(features.extras) and "resources" in features.capabilities
    )


def without_skill_prompts(prompts: list[JSON]) -> list[JSON]:
    """Return the prompts without those that stand for skills, for clients that know skills."""
    return [prompt for prompt in prompts if SKILL_KEY not in (prompt.get("_meta") or {})]
