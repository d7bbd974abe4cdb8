"""What is in the wheel and the source archive, and what is not."""

from __future__ import annotations

import tarfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

from gaia_bridge.constants import BRIDGE_PACKAGES
from tests.packaging.environments import ROOT, build

PACKAGES = {
    **{name: ROOT / "bridge" / name for name in BRIDGE_PACKAGES},
    "gaia_agents": ROOT / "agents" / "gaia_agents",
    "_gaia_bridge_compat/gaia": ROOT / "agents" / "gaia",
}
"""Where each package stands in the wheel, and where it comes from."""


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def text(wheel: Path, suffix: str) -> str:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(suffix))
        return archive.read(name).decode("utf-8")


def metadata(wheel: Path) -> Message:
    return Parser().parsestr(text(wheel, ".dist-info/METADATA"))


def expected_modules() -> set[str]:
    return {
        f"{place}/{path.relative_to(source).as_posix()}"
        for place, source in PACKAGES.items()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_bridge_and_the_shipped_agents_stand_at_the_top_and_gaia_behind_a_path_file(wheel: Path) -> None:
    info = f"gaia_mcp_bridge-{metadata(wheel)['Version']}.dist-info"
    tops = {PurePosixPath(name).parts[0] for name in names(wheel)}
    assert tops == {*BRIDGE_PACKAGES, "gaia_agents", "_gaia_bridge_compat", "gaia_bridge.pth", info}


@pytest.mark.core
def test_the_wheel_holds_every_module_and_nothing_but_modules(wheel: Path) -> None:
    held = {name for name in names(wheel) if ".dist-info/" not in name and not name.endswith(".pth")}
    assert held == expected_modules()


def test_the_packages_are_marked_as_typed(wheel: Path) -> None:
    assert {f"{place}/py.typed" for place in PACKAGES} <= names(wheel)


def test_the_path_file_is_one_path_and_no_code(wheel: Path) -> None:
    """Import lines in path files are deprecated by PEP 829; path lines stay."""
    assert text(wheel, "gaia_bridge.pth") == "_gaia_bridge_compat\n"


def test_the_commands_and_the_shipped_agents_are_entry_points(wheel: Path) -> None:
    parser = ConfigParser()
    parser.read_string(text(wheel, ".dist-info/entry_points.txt"))
    assert dict(parser["console_scripts"]) == {
        "gaia-bridge": "gaia_bridge.cli:main",
        "gaia-mcp-bridge": "gaia_bridge.cli:main",
        "gaia": "gaia.cli:main",
    }
    assert dict(parser["gaia.agents"]) == {"code": "gaia_agents:CodeAgent", "project": "gaia_agents:ProjectAgent"}


def test_the_metadata_names_the_licence_and_carries_its_text(wheel: Path) -> None:
    assert metadata(wheel)["Name"] == "gaia-mcp-bridge"
    assert metadata(wheel)["License-Expression"] == "MIT"
    assert "The gaia-mcp-bridge authors" in text(wheel, ".dist-info/licenses/LICENSE")


@pytest.mark.thorough
def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path)) as archive:
        # Python 3.11.2, which Debian ships, knows no filter; 3.12 and 3.13 warn without one.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "source")
    (source,) = (tmp_path / "source").iterdir()
    assert names(build("wheel", source, tmp_path)) == names(wheel)
