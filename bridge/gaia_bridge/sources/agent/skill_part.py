"""The skills of an agent that lie in folders, as a part of it: resources, templates for their files, and entries."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

from gaia_bridge.errors import ResourceNotFoundError
from gaia_bridge.protocol.skills import SKILL_FILE, files_of, root_of
from gaia_bridge.settings import AgentLimits
from gaia_bridge.text.json_types import JSON

_FOLDER: Final = "skills"
_ATTRIBUTE: Final = "mcp_skills"
"""The attribute by which a class states its skills; beside `mcp_tools` and `mcp_ask`."""
_EXPECTED: Final = "expected True, False, the path of a folder, or several of them"


def skill_folders(agent: object) -> tuple[Path, ...]:
    """Return the folders of an agent's skills: those it states, or `skills/` beside its file, if there is one.

    Args:
        agent: The agent. Relative paths of its class begin at the file of that class.

    Raises:
        TypeError: The attribute has another type.
    """
    # Look statically: an agent may make up an attribute for any name that is asked of it.
    is_stated = inspect.getattr_static(agent, _ATTRIBUTE, None) is not None
    skills: Any = getattr(agent, _ATTRIBUTE) if is_stated else None
    if skills is False:
        return ()
    beside = _place_of(agent)
    if skills is None or skills is True:
        folder = None if beside is None else beside / _FOLDER
        return (folder,) if folder is not None and (skills is True or folder.is_dir()) else ()
    several: Any = (skills,) if isinstance(skills, str | Path) else skills
    if isinstance(several, bytes) or not isinstance(several, Iterable):
        raise TypeError(f"{_ATTRIBUTE} of {type(agent).__name__} is {skills!r}; {_EXPECTED}")
    folders: list[Path] = []
    for one in cast("Iterable[object]", several):
        if not isinstance(one, str | Path):
            raise TypeError(f"{_ATTRIBUTE} of {type(agent).__name__} has {one!r} in it; {_EXPECTED}")
        folders.append((beside or Path()) / one)
    return tuple(folders)


def _place_of(agent: object) -> Path | None:
    """Return the folder of the file that an agent is written in; if a class states its skills, of that class's file."""
    file: object = getattr(agent, "source_file", None)
    if isinstance(file, str):  # functions, which no class holds
        return Path(file).absolute().parent
    classes = type(agent).__mro__
    owner = next((one for one in classes if _ATTRIBUTE in vars(one)), classes[0])
    try:
        return Path(inspect.getfile(owner)).absolute().parent
    except (TypeError, OSError):  # it is written in no file
        return None


_SHOWN: Final = 10
"""Files of a skill that its template names."""


class SkillPart:
    """Skills in folders, with the methods of an agent. May be used in any thread."""

    def __init__(self, folders: Iterable[Path], limits: AgentLimits) -> None:
        from gaia_bridge.sources.skills.folders import SkillFolders

        self._folders = SkillFolders(folders, limits)
        self._lock = threading.Lock()
        self._listed: tuple[JSON, ...] = ()

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """Return no tools: skills have none."""
        return []

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Refuse: there are no tools."""
        raise ValueError(f"Unknown tool: {tool_name}")

    def get_mcp_skills(self) -> list[JSON]:
        """Return the skills that are there now, as `skills/list` has them."""
        with self._lock:
            self._listed = self._folders.read().entries
            return list(self._listed)

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """The skills that were not published at the last reading, and why."""
        return self._folders.current.left_out

    def get_mcp_resources(self) -> list[JSON]:
        """Return the `SKILL.md` of each skill as a resource: one for each skill, however many files it has."""
        with self._lock:
            return [_resource(entry) for entry in self._folders.current.entries]

    def get_mcp_resource_templates(self) -> list[JSON]:
        """Return a template for each skill that has further files."""
        with self._lock:
            return [_template(entry) for entry in self._folders.current.entries if len(files_of(entry)) > 1]

    def has(self, uri: str) -> bool:
        """Return whether a URI is inside of a skill."""
        return any(uri.startswith(f"{root_of(entry['uri'])}/") for entry in self._folders.current.entries)

    def read_mcp_resource(self, uri: str) -> JSON:
        """Read a file of a skill.

        Raises:
            ResourceNotFoundError: No skill has such a file.
        """
        from urllib.parse import unquote

        from gaia_bridge.sources.skills.media_types import contents_of

        with self._lock:
            content = self._folders.content(uri)
        if content is None:
            raise ResourceNotFoundError(uri)
        return {"contents": [contents_of(uri, unquote(uri.rpartition("/")[2]), content)]}

    @property
    def is_ahead(self) -> bool:
        """Whether a reading has other entries than `get_mcp_skills` returned last."""
        return self._folders.current.entries is not self._listed

    def is_changed(self) -> bool:
        """Return whether the folders hold something else than `get_mcp_skills` returned last."""
        with self._lock:
            return self.is_ahead or self._folders.is_changed()


def _resource(entry: JSON) -> JSON:
    frontmatter: JSON = entry["frontmatter"]
    size = next(file["size"] for file in entry["resources"] if file["uri"] == entry["uri"])
    return {
        "uri": entry["uri"],
        "name": frontmatter["name"],
        "description": frontmatter["description"],
        "mimeType": "text/markdown",
        "size": size,
    }


def _template(entry: JSON) -> JSON:
    name: str = entry["frontmatter"]["name"]
    shown = ", ".join(_further_files(entry))
    return {
        "uriTemplate": f"{root_of(entry['uri'])}/{{+path}}",
        "name": f"{name} files",
        "description": f"The files that {SKILL_FILE} of the skill {name} refers to: {shown}",
    }


def _further_files(entry: JSON) -> Iterator[str]:
    beginning = f"{root_of(entry['uri'])}/"
    further = [file["uri"].removeprefix(beginning) for file in files_of(entry) if file["uri"] != entry["uri"]]
    yield from further[:_SHOWN]
    if len(further) > _SHOWN:
        yield f"and {len(further) - _SHOWN:,} more"
