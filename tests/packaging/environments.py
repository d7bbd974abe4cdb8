"""Fresh virtual environments without a network: the dependencies are those of the running environment.

They are linked into a folder of their own, one link for each entry of site-packages, without our own distribution and
without any `.pth` file: neither an editable nor a plain install of this project can leak into what is tested.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

__all__ = ["DISTRIBUTION", "ROOT", "Environment", "build", "create_environment", "write_wheel"]

ROOT = Path(__file__).parent.parent.parent
DISTRIBUTION = "gaia-mcp-bridge"

TIMEOUT = 50
"""Seconds for one build, installation or import: below the limit for a test, so that the output is shown."""

FOREIGN = ("agents", "amd_gaia", "gaia", "openai_agents")
"""What other distributions bring that the tests install as stubs: not linked, should a developer have the real ones."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One virtual environment."""

    folder: Path

    @property
    def site_packages(self) -> Path:
        """Where distributions are installed."""
        return Path(sysconfig.get_path("purelib", "venv", vars={"base": str(self.folder)}))

    @property
    def scripts(self) -> Path:
        """Where commands are installed."""
        return Path(sysconfig.get_path("scripts", "venv", vars={"base": str(self.folder)}))

    def pip(self, *arguments: str | Path) -> None:
        """Run the running environment's pip on this one, without an index.

        Raises:
            AssertionError: pip failed; the message holds its output.
        """
        _run(sys.executable, "-m", "pip", "--python", self.scripts / "python", *arguments)

    def install(self, *targets: str | Path) -> None:
        """Install wheels, or `-e` and a folder, and nothing that they depend on."""
        self.pip("install", "--no-deps", "--no-compile", "--no-build-isolation", *targets)

    def run(self, code: str) -> str:
        """Run Python code in the root folder, so that nothing is found by accident; returns what it prints."""
        return _run(self.scripts / "python", "-c", code).strip()

    def command(self, name: str, *arguments: str) -> str:
        """Run an installed command; returns what it prints."""
        return _run(self.scripts / name, *arguments)

    def files(self, distribution: str) -> set[Path]:
        """Every file that an installed distribution's RECORD names."""
        return {_resolved(file) for file in self._record(distribution)}

    def damaged(self, distribution: str) -> set[Path]:
        """The files of an installed distribution that are missing or not what its RECORD says."""
        return {_resolved(file) for file in self._record(distribution) if not _intact(file)}

    def _record(self, distribution: str) -> list[importlib.metadata.PackagePath]:
        (found,) = importlib.metadata.distributions(name=distribution, path=[str(self.site_packages)])
        return found.files or []


def create_environment(folder: Path) -> Environment:
    """A new environment that has the dependencies of the running one, but not this project."""
    environment = Environment(folder / "venv")
    venv.create(environment.folder, symlinks=True)
    links = folder / "dependencies"
    links.mkdir()
    for site_packages in {Path(str(found.locate_file(""))) for found in importlib.metadata.distributions()}:
        if site_packages.name in ("site-packages", "dist-packages"):
            _link(site_packages, links)
    # Sorted before every other path file: dependencies stand where they would stand if they were installed here.
    (environment.site_packages / "0_dependencies.pth").write_text(f"{links}\n", encoding="utf-8")
    return environment


def build(kind: str, source: Path, target: Path) -> Path:
    """Build with the project's own backend, in a process of its own.

    Args:
        kind: `wheel` or `sdist`.
        source: The project's folder.
        target: Where the result goes.

    Returns:
        The file that was built.
    """
    code = f"import sys, hatchling.build; print(hatchling.build.build_{kind}(sys.argv[1]))"
    return target / _run(sys.executable, "-c", code, target, cwd=source).split()[-1]


def write_wheel(folder: Path, name: str, files: Mapping[str, str], entry_points: str = "") -> Path:
    """Write a small wheel by hand; pip adds the hashes to RECORD when it installs it."""
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    everything = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    wheel = folder / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for path, text in everything.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*everything, f"{info}/RECORD"]))
    return wheel


def _link(site_packages: Path, links: Path) -> None:
    unwanted = {*FOREIGN, *_own_entries()}
    for entry in site_packages.iterdir():
        link = links / entry.name
        if entry.suffix != ".pth" and entry.name.split("-")[0] not in unwanted and not link.exists():
            link.symlink_to(entry)


def _own_entries() -> Iterable[str]:
    """The names in site-packages that belong to this project, if it is installed there."""
    for found in importlib.metadata.distributions(name=DISTRIBUTION):
        yield from (file.parts[0].split("-")[0] for file in found.files or [] if file.parts[0] != "..")


def _resolved(file: importlib.metadata.PackagePath) -> Path:
    return Path(os.path.normpath(str(file.locate())))


def _intact(file: importlib.metadata.PackagePath) -> bool:
    path = _resolved(file)
    if file.hash is None:
        return path.exists()
    return path.exists() and _digest(path, file.hash.mode) == file.hash.value


def _digest(path: Path, mode: str) -> str:
    return base64.urlsafe_b64encode(hashlib.new(mode, path.read_bytes()).digest()).decode("ascii").rstrip("=")


def _run(*command: str | Path, cwd: Path = Path("/")) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    environment |= {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        encoding="utf-8",
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
