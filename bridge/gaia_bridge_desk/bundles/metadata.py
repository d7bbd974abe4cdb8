"""The metadata of a bundle: from `pyproject.toml`, and from the options on the command line."""

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
"""The valid names of an Agent Plugin; every other form takes these names, too."""
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*[0-9A-Za-z.+-]*")
_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_AGENT: Final = "-agent"


class Metadata(Struct, frozen=True):
    """The metadata of a bundle.

    Args:
        name: Lower case, digits, hyphens and dots.
        version: One version, and no range.
        description: Its purpose.
        author: The author's name.
        email: The author's e-mail address.
        license: An SPDX identifier.
        homepage: The address of its website.
        repository: The address of its source.
        keywords: Words to find it by.
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
    """The parts of a `pyproject.toml` that bundles need.

    Args:
        path: The file.
        distribution: The project's name on PyPI.
        metadata: The project's metadata.
        scripts: Its programs, with the function that each calls.
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
    """Return the project in a folder; `None` if there is no `pyproject.toml` with a project.

    Args:
        folder: The folder.

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
    """Return the metadata of a bundle; the user's options override the project's values.

    Args:
        project: The project, if there is one.
        fallback: The name of an agent's file, after which a bundle without a project is named.
        given: The user's options, by the names of `Metadata`.
        docstring: The agent's docstring, the description where there is no other.
        has_author: Whether an author is required.

    Raises:
        ConfigError: A value is missing, or is not valid.
    """
    typed: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    base = project.metadata if project is not None else Metadata(_plain(fallback), "0.1.0", "")
    metadata = replace(base, **typed)
    if not _NAME.fullmatch(metadata.name):
        problem = (
            f"{one_line(metadata.name, 80)!r}: expected 1 to 64 of a-z 0-9 - . that begin and end with one of a-z 0-9"
        )
        raise ConfigError("--name", problem, f"such as {_plain(metadata.name)}")
    if not _VERSION.fullmatch(metadata.version):
        hint = "" if "version" in typed else "; pyproject.toml says none"
        raise ConfigError("--version", f"{one_line(metadata.version, 80)!r} is no version{hint}", "such as 0.1.0")
    metadata = metadata if metadata.description.strip() else replace(metadata, description=docstring)
    missing = {
        "--description says in one sentence what it is for": not metadata.description,
        "--author says who made it": has_author and metadata.author is None,
    }
    if any(missing.values()):
        wanted = [text for text, is_missing in missing.items() if is_missing]
        raise ConfigError(f"missing option{'s' * (len(wanted) > 1)}", "; ".join(wanted))
    return metadata


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
    """Return the first link that is a web address: editors and registries refuse a bundle for an invalid one."""
    urls = (_text(links.get(name)) for name in names)
    return next((url for url in urls if url is not None and is_web_address(url)), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
