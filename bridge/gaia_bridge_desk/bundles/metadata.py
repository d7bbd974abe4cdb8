"""What a bundle says of itself: from `pyproject.toml`, and from what somebody typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config.file_reader import read_bytes
from gaia_bridge.constants import MIB
from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import is_web_address

_FILE: Final = "pyproject.toml"
_NAME: Final = re.compile(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
"""What an Agent Plugin may be called; every other form takes these names, too."""
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*[0-9A-Za-z.+-]*")
_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_AGENT: Final = "-agent"


class Metadata(Struct, frozen=True):
    """What a bundle says of itself.

    Args:
        name: Lower case, digits, hyphens and dots.
        version: One version, and no range.
        description: What it is for.
        author: Who made it.
        email: Where the author is reached.
        license: An SPDX identifier.
        homepage: Where people read about it.
        repository: Where its source is.
        keywords: What it is found by.
    """

    name: str
    version: str
    description: str
    author: str | None = None
    email: str | None = None
    license: str | None = None
    homepage: str | None = None
    repository: str | None = None
    keywords: tuple[str, ...] = ()


class Project(Struct, frozen=True):
    """What a `pyproject.toml` says.

    Args:
        path: The file.
        distribution: What it is installed as.
        metadata: What it says of itself.
        scripts: Its programs, and what each calls.
        agents: The agents that it announces.
        readme: Its README, if it has one.
    """

    path: Path
    distribution: str
    metadata: Metadata
    scripts: Mapping[str, str]
    agents: tuple[str, ...]
    readme: Path | None


def read_project(folder: Path) -> Project | None:
    """The project in a folder; `None` if there is no `pyproject.toml` with a project.

    Args:
        folder: Where.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = folder / _FILE
    if not path.is_file():
        return None
    import tomllib

    content, _ = read_bytes(path, MIB)
    try:
        document: JSON = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(str(path), f"is not valid TOML: {error}", "mend it") from None
    table = document.get("project")
    if not is_object(table) or not isinstance(name := table.get("name"), str):
        return None
    entries = table.get("entry-points")
    agents = entries.get("gaia.agents") if is_object(entries) else None
    scripts = table.get("scripts")
    readme = table.get("readme")
    readme = readme.get("file") if is_object(readme) else readme
    return Project(
        path,
        name,
        _metadata(name, table),
        {key: str(value) for key, value in scripts.items()} if is_object(scripts) else {},
        tuple(agents) if is_object(agents) else (),
        folder / readme if isinstance(readme, str) else None,
    )


def described(
    project: Project | None,
    fallback: str,
    given: Mapping[str, str | None],
    *,
    docstring: str = "",
    has_author: bool = False,
) -> Metadata:
    """What a bundle says of itself, with what somebody typed before what the project says.

    Args:
        project: The project, if there is one.
        fallback: What the bundle is called after where nobody says it: the name of an agent's file.
        given: What was typed, by the names of `Metadata`.
        docstring: What its agent says of itself, where nobody says more.
        has_author: Whether it needs an author.

    Raises:
        ConfigError: Something is missing, or cannot be.
    """
    typed: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    base = project.metadata if project is not None else Metadata(_plain(fallback), "0.1.0", "")
    found = replace(base, **typed)
    if not _NAME.fullmatch(found.name):
        problem = (
            f"{one_line(found.name, 80)!r}: expected 1 to 64 of a-z 0-9 - . that begin and end with one of a-z 0-9"
        )
        raise ConfigError("--name", problem, f"such as {_plain(found.name)}")
    if not _VERSION.fullmatch(found.version):
        hint = "" if "version" in typed else "; pyproject.toml says none"
        raise ConfigError("--version", f"{one_line(found.version, 80)!r} is no version{hint}", "such as 0.1.0")
    found = found if found.description.strip() else replace(found, description=docstring)
    missing = {
        "--description says in one sentence what it is for": not found.description,
        "--author says who made it": has_author and found.author is None,
    }
    if any(missing.values()):
        wanted = [text for text, is_missing in missing.items() if is_missing]
        raise ConfigError(f"missing option{'s' * (len(wanted) > 1)}", "; ".join(wanted))
    return found


def _plain(text: str) -> str:
    name = _NO_NAME.sub("-", text.lower()).strip("-")
    return (name.removesuffix(_AGENT) or name)[:64].strip("-") or "bundle"


def _metadata(name: str, table: JSON) -> Metadata:
    authors = table.get("authors")
    people = [each for each in authors if is_object(each)] if is_array(authors) else []
    author: JSON = people[0] if people else {}
    urls = table.get("urls")
    links = {str(key).lower().replace(" ", ""): url for key, url in urls.items()} if is_object(urls) else {}
    license_ = table.get("license")
    license_ = license_.get("text") if is_object(license_) else license_
    keywords = table.get("keywords")
    return Metadata(
        name=re.sub(r"[-_.]+", "-", name).lower(),
        version=_text(table.get("version")) or "",
        description=_text(table.get("description")) or "",
        author=_text(author.get("name")),
        email=email if (email := _text(author.get("email"))) is not None and _EMAIL.fullmatch(email) else None,
        license=_text(license_),
        homepage=_first(links, "homepage", "documentation", "docs"),
        repository=_first(links, "repository", "source", "sourcecode", "github", "code"),
        keywords=tuple(word for word in keywords if isinstance(word, str)) if is_array(keywords) else (),
    )


def _first(links: Mapping[str, object], *names: str) -> str | None:
    """The first of these that is an address: editors and registries refuse the whole bundle for one that is none."""
    urls = (_text(links.get(name)) for name in names)
    return next((url for url in urls if url is not None and is_web_address(url)), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
