"""Skills over MCP (the extension `io.modelcontextprotocol/skills`, SEP-2640): its names, and checks of its entries.

An entry describes one skill: the URI of its `SKILL.md`, the frontmatter of that file, and the list of its files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from gaia_bridge.text.json_types import JSON, is_array, is_object

SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
SKILLS_LIST: Final = "skills/list"
SKILLS_GET: Final = "skills/get"
DIRECTORY_READ: Final = "resources/directory/read"
SKILL_FILE: Final = "SKILL.md"
"""The file that makes a directory a skill."""
DIRECTORY_TYPE: Final = "inode/directory"
"""The MIME type of a directory."""
DYNAMIC: Final = "dynamic"
"""The value in place of the list of files, for a skill that is generated whenever it is read."""
SKILL_KEY: Final = "io.gaia-mcp-bridge/skill"
"""Ours, in the `_meta` of a prompt that offers a skill to clients without skills: the URI of that skill."""
SOURCE_KEY: Final = "io.gaia-mcp-bridge/source"
"""Ours, in the `_meta` of a skill, where several sources share an endpoint: the name of its source."""
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_NAME_LENGTH: Final = 64
_DESCRIPTION_LENGTH: Final = 1_024
_COMPATIBILITY_LENGTH: Final = 500
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_END: Final = f"/{SKILL_FILE}"
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^\s?#\x00-\x1f\x7f\\\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+"
)
"""A URI with a path and no query or fragment, as hosts make folders and files of it; without invisible characters."""
_MOST_BYTES: Final = 2**53 - 1
"""The largest size that every JSON parser reads exactly (RFC 8259, section 6)."""


def declares_skills(capabilities: Mapping[str, Any]) -> bool:
    """Whether capabilities, of a server or of a client, have the extension."""
    extensions = capabilities.get("extensions")
    return is_object(extensions) and is_object(extensions.get(SKILLS_EXTENSION))


def reads_directories(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server has `resources/directory/read`."""
    return declares_skills(capabilities) and capabilities["extensions"][SKILLS_EXTENSION].get("directoryRead") is True


def root_of(uri: str) -> str:
    """Return the directory of a skill from the URI of its `SKILL.md`; without a slash at its end."""
    return uri.removesuffix(_END)


def is_child(uri: str, directory: str) -> bool:
    """Whether a file or directory is directly in a directory, by their URIs."""
    part = uri.removeprefix(f"{directory}/")
    return part != uri and _is_part(part.removesuffix("/"))


def skill_labels(entries: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Return the URI, name and description of each skill: all that a prompt needs."""
    return [(entry["uri"], entry["frontmatter"]["name"], entry["frontmatter"]["description"]) for entry in entries]


def changed_files(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the URIs of files of skills that changed or disappeared."""
    old, new = ({file["uri"]: file["digest"] for entry in of for file in files_of(entry)} for of in (before, after))
    return [uri for uri, digest in old.items() if new.get(uri) != digest]


def files_of(entry: Mapping[str, Any]) -> tuple[JSON, ...]:
    """Return the files that an entry lists; none for a skill that is `dynamic`."""
    resources = entry["resources"]
    return tuple(resources) if is_array(resources) else ()


def children(
    uri: str,
    entries: Iterable[Mapping[str, Any]],
    resources: Iterable[Mapping[str, Any]],
    kind_of: Callable[[str], str | None],
) -> list[JSON] | None:
    """Return the children of a directory, in the form of `resources/directory/read`; `None` if there is none.

    Args:
        resources: All resources that are listed; a file that is among them has its description from there.
        kind_of: Returns the MIME type of a file by its name, or `None` if the name does not tell.
    """
    described = {item["uri"]: item for item in resources}
    beginning = f"{uri}/"
    children: dict[str, JSON] = {}
    for file in _all_files(entries, described):
        path: str = file["uri"]
        if not path.startswith(beginning):
            continue
        part, slash, _ = path.removeprefix(beginning).partition("/")
        child, name = beginning + part, unquote(part)
        if not part or child in children:
            continue
        if slash:
            children[child] = {"uri": child, "name": name, "mimeType": DIRECTORY_TYPE}
        elif child in described:
            children[child] = dict(described[child])
        else:
            about = {"mimeType": kind_of(name), "size": file.get("size")}
            facts = {key: value for key, value in about.items() if value is not None}
            children[child] = {"uri": child, "name": name, **facts}
    return list(children.values()) or None


def _all_files(entries: Iterable[Mapping[str, Any]], described: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield all files of skills; for `dynamic` ones, the `SKILL.md` and the listed resources below its directory."""
    for entry in entries:
        files = files_of(entry)
        yield from files
        if not files:
            root = f"{root_of(entry['uri'])}/"
            yield {"uri": entry["uri"]}
            yield from ({"uri": uri} for uri in described if uri.startswith(root))


def name_problem(name: object) -> str | None:
    """Explain why a name is not valid for a skill; return `None` if it is."""
    if isinstance(name, str) and len(name) <= _NAME_LENGTH and _NAME.fullmatch(name):
        return None
    return f"its name is {_short(name)}; expected 1 to {_NAME_LENGTH} of a-z 0-9, with single hyphens in between"


def frontmatter_problem(frontmatter: Mapping[str, Any]) -> str | None:
    """Explain how the frontmatter of a skill breaks the Agent Skills specification; return `None` if it does not."""
    if (problem := name_problem(frontmatter.get("name"))) is not None:
        return problem
    for field, most in (("description", _DESCRIPTION_LENGTH), ("compatibility", _COMPATIBILITY_LENGTH)):
        value = frontmatter.get(field)
        if value is None and field == "compatibility" and field not in frontmatter:
            continue
        if not isinstance(value, str) or not value.strip() or len(value) > most:
            fault = f"has {len(value):,} characters" if isinstance(value, str) else f"is {_short(value)}"
            return f"its {field} {fault}; expected a text of 1 to {most:,} characters"
    for field in ("license", "allowed-tools"):
        if field in frontmatter and not isinstance(frontmatter[field], str):
            return f"its {field} is {_short(frontmatter[field])}; expected a text"
    metadata = frontmatter.get("metadata", {})
    if not is_object(metadata):
        return f"its metadata is {_short(metadata)}; expected texts by their names"
    for key, value in metadata.items():
        if not isinstance(value, str):
            return f"{key} in its metadata is {_short(value)}; expected a text: write it in quotes"
    return _json_problem(frontmatter)


def skill_problem(entry: Mapping[str, Any]) -> str | None:
    """Explain how an entry breaks the rules of the extension; return `None` if it does not.

    The entry has a `uri`, and a `frontmatter` that is an object.
    """
    uri: str = entry["uri"]
    frontmatter: JSON = entry["frontmatter"]
    if (problem := frontmatter_problem(frontmatter)) is not None:
        return problem
    root = root_of(uri)
    if root == uri or "://" not in root:
        return f"its uri is {uri!r}; expected that of its {SKILL_FILE}"
    # A bridge may write the URI of a skill behind the name of its server.
    authority, *path = root.partition("://")[2].replace("://", "/").split("/")
    parts = [authority, *path] if authority else path  # some schemes have none, such as file:
    if _URI.fullmatch(uri) is None or not all(map(_is_part, parts)):
        return f"its uri is {uri!r}; expected a path of names, with ? and # and such written as %3F and %23"
    if unquote(root.rpartition("/")[2]) != frontmatter["name"]:
        return f"its uri is {uri!r}, and its name {frontmatter['name']!r}; expected that name before {_END}"
    resources = entry["resources"]
    return None if resources == DYNAMIC else _files_problem(uri, f"{root}/", resources)


def _files_problem(uri: str, beginning: str, resources: object) -> str | None:
    if not is_array(resources):
        return f"its resources are {_short(resources)}; expected a list of its files, or {DYNAMIC!r}"
    listed: set[str] = set()
    for file in resources:
        if (problem := _file_problem(file, beginning)) is not None:
            return problem
        if file["uri"] in listed:
            return f"it lists {file['uri']!r} twice"
        listed.add(file["uri"])
    return None if uri in listed else f"its resources lack its own {SKILL_FILE}"


def _file_problem(file: object, beginning: str) -> str | None:
    uri = file.get("uri") if is_object(file) else None
    if not is_object(file) or not isinstance(uri, str):
        return "one of its resources has no uri"
    rest = uri.removeprefix(beginning)
    if rest == uri or _URI.fullmatch(uri) is None or not all(map(_is_part, rest.split("/"))):
        return f"{uri!r} is no file below {beginning!r}"
    digest, size = file.get("digest"), file.get("size")
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        return f"the digest of {uri!r} is {_short(digest)}; expected sha256: and 64 hexadecimal digits"
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MOST_BYTES:
        return f"the size of {uri!r} is {_short(size)}; expected a number of bytes"
    return None


def _is_part(part: str) -> bool:
    """Whether a part of a path stays in its folder on every system, however it is decoded."""
    name = unquote(part)
    return name != "" and "/" not in name and "\0" not in name and not {".", ".."}.intersection(name.split("\\"))


def _json_problem(value: object, place: str = "") -> str | None:
    """Explain why a value of frontmatter is not JSON; return `None` if it is."""
    if is_object(value):
        for key, inner in value.items():
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] # YAML has others
                return f"a key of its frontmatter is {_short(key)}; expected a text: write it in quotes"
            if (problem := _json_problem(inner, f"{place}.{key}" if place else key)) is not None:
                return problem
    elif is_array(value):
        return next(filter(None, (_json_problem(inner, place) for inner in value)), None)
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{place} is no finite number; write it in quotes"
    elif not (value is None or isinstance(value, bool | int | float | str)):
        return f"{place} is a {type(value).__name__}, which JSON does not have: write it in quotes"
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
