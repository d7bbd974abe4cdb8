"""`server.json` by the schema of the registry, and the rules that the registry has besides."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.bundles import (
    Project,
    claim_of,
    described,
    gathered,
    mcpb_files,
    project_arguments,
    read_project,
    readme_claims,
    registry_name,
    server_document,
)
from tests.support.published_schemas import problems

PROJECT = """
    [project]
    name = "Weather_Agent"
    version = "1.2.0"
    description = "Knows the weather."
    readme = "README.md"
    authors = [{name = "Ada", email = "ada@example.com"}]

    [project.scripts]
    Weather_Agent = "gaia_bridge.cli:main"

    [project.entry-points."gaia.agents"]
    weather = "weather_agent:WeatherAgent"
    tides = "tides_agent:TidesAgent"

    [project.urls]
    Homepage = "https://example.com/weather"
    Repository = "https://github.com/ada/weather"
"""


def project(folder: Path, text: str = PROJECT) -> Project:
    (folder / "pyproject.toml").write_text(textwrap.dedent(text), "utf-8")
    found = read_project(folder)
    assert found is not None
    return found


def document(found: Project, arguments: list[str] | None = None, **given: str | None) -> dict[str, Any]:
    about = described(found, found.distribution, given)
    name = registry_name(found, about, None)
    words = project_arguments(found) if arguments is None else arguments
    return server_document(found, about, name, words, ["API_KEY"])


def test_a_project_is_listed_as_the_registry_wants_it(tmp_path: Path) -> None:
    made = document(project(tmp_path))
    assert problems("registry-server-2025-12-11", made) == []
    assert (made["name"], made["version"]) == ("io.github.ada/Weather_Agent", "1.2.0")
    assert made["repository"] == {"url": "https://github.com/ada/weather", "source": "github"}
    [package] = made["packages"]
    assert (package["registryType"], package["identifier"], package["version"]) == ("pypi", "Weather_Agent", "1.2.0")
    words = [argument["value"] for argument in package["packageArguments"]]
    assert words == ["serve", "--stdio", "--no-servers", "weather", "tides"]
    assert [(each["name"], each["isSecret"]) for each in package["environmentVariables"]] == [("API_KEY", True)]


@pytest.mark.parametrize(
    "url", ["https://[bad", "not a url", "git@github.com:ada/hello.git", "https://github.com/a b/c"]
)
def test_an_address_that_is_none_is_not_told(tmp_path: Path, url: str) -> None:
    text = PROJECT.replace("https://example.com/weather", url).replace("https://github.com/ada/weather", url)
    found = project(tmp_path, text.replace("ada@example.com", "no address"))
    told = server_document(found, found.metadata, "io.github.ada/weather", [])
    assert problems("registry-server-2025-12-11", told) == []
    agent = tmp_path / "weather_agent.py"
    agent.write_text("", "utf-8")
    files = mcpb_files(found.metadata, gathered([agent.name], tmp_path, {}, tmp_path))
    manifest = json.loads(files["manifest.json"])
    assert problems("mcpb-manifest-0.4", manifest) == []
    assert (manifest["author"], "homepage" in manifest, "repository" in manifest) == ({"name": "Ada"}, False, False)
    with pytest.raises(ConfigError, match="nothing says its name"):
        registry_name(found, found.metadata, None)


def test_the_schema_is_one_that_can_say_no() -> None:
    wrong = {"name": "no-slash", "description": "x" * 101, "version": "1", "packages": [{"registryType": "pypi"}]}
    assert len(problems("registry-server-2025-12-11", wrong)) >= 3


def test_a_program_of_its_own_is_given_what_somebody_says(tmp_path: Path) -> None:
    text = PROJECT.replace('"gaia_bridge.cli:main"', '"weather_agent:main"')
    found = project(tmp_path, text)
    assert "packageArguments" not in document(found)["packages"][0]
    [package] = document(found, ["--stdio"])["packages"]
    assert package["packageArguments"] == [{"type": "positional", "value": "--stdio"}]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Weather_Agent =", "weather =", "has no program of its own name"),
        ("Knows the weather.", "Knows the weather. " * 9, "has 171 characters; the registry takes 100"),
        ("https://github.com/ada/weather", "https://example.com/x", "nothing says its name in the registry"),
        ('[project.entry-points."gaia.agents"]', "[project.optional]", "it announces no agents"),
        ('version = "1.2.0"', 'dynamic = ["version"]', "is no version"),
        ('version = "1.2.0"', 'version = ">=1.2"', "is no version"),
        ('description = "Knows the weather."', "", "missing option: --description"),
    ],
)
def test_what_the_registry_or_clients_would_refuse_is_refused_here(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        document(project(tmp_path, PROJECT.replace(old, new)))


@pytest.mark.parametrize("name", ["weather", "a/b/c", "io.github.ada/", "-x/y", "io.github.ada/we ather"])
def test_a_name_that_the_registry_would_refuse_is_refused_here(tmp_path: Path, name: str) -> None:
    found = project(tmp_path)
    with pytest.raises(ConfigError, match="expected NAMESPACE/NAME"):
        registry_name(found, found.metadata, name)


def test_a_readme_says_whose_the_package_is(tmp_path: Path) -> None:
    found, readme = project(tmp_path), tmp_path / "README.md"
    name = "io.github.ada/weather"
    assert not readme_claims(found, name)
    readme.write_text(f"# Weather\n\n{claim_of(name)}\n", "utf-8")
    assert readme_claims(found, name)
    assert not readme_claims(found, "io.github.ada/weath") and not readme_claims(found, f"{name}-2")


def test_a_folder_without_a_project_has_none(tmp_path: Path) -> None:
    assert read_project(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text("[tool.x]\n", "utf-8")
    assert read_project(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text("[project", "utf-8")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        read_project(tmp_path)
