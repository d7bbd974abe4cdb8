"""Programs of other hands that tests need: installed on first use and kept, for all runs of this user.

They are kept under the user's cache folder, by what exactly was installed, so that test processes that run at once, and
other checkouts, share them. Where they cannot be had the tests are skipped, unless `CI` is set.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock

from tests.conformance.runner import CannotRunError, install_packages

__all__ = [
    "CACHE",
    "HOME",
    "MCP1",
    "MCP2",
    "node_modules",
    "place_for",
    "python_with",
    "required",
    "source_of",
    "with_fastmcp",
]

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "gaia-mcp-bridge-tests"
"""Found out when this module is imported: tests have homes of their own."""
HOME: Final = str(Path.home())
"""The same: npm's settings of this user are there."""
MCP1: Final = "mcp==1.30.0"
"""The first generation of the Python SDK: its last release."""
MCP2: Final = "mcp==2.3.0"
"""The second."""
FASTMCP: Final = "fastmcp==4.1.2"
INSTALL_SECONDS = 300


def python_with(*requirements: str) -> str:
    """The Python of a virtual environment that has what is required.

    Args:
        requirements: As for pip, with the versions that will do.

    Raises:
        CannotRunError: pip could not install them.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = _digest(" ".join(requirements))
    place = CACHE / f"python{version}-{digest}"
    interpreter, stamp = place / "bin" / "python", place / "installed"
    with place_for(place):
        if not (interpreter.exists() and stamp.exists()):
            venv.create(place, clear=True, symlinks=True)
            pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "--quiet", "--retries", "1"]
            done = subprocess.run(
                [*pip, *requirements], capture_output=True, encoding="utf-8", timeout=INSTALL_SECONDS, check=False
            )
            if done.returncode != 0:
                raise CannotRunError(f"pip could not install {' '.join(requirements)}:\n{done.stderr}")
            stamp.touch()
    return str(interpreter)


def python_beside(*requirements: str) -> tuple[str, dict[str, str]]:
    """The Python of a virtual environment that has packages, and what this project needs.

    Args:
        requirements: As for pip.

    Returns:
        The interpreter, and the variables with which it, and programs that it has installed, find this checkout.

    Raises:
        CannotRunError: pip could not install them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    interpreter = python_with(*requirements, *project["dependencies"])
    paths = [str(ROOT / folder) for folder in ("bridge", "agents")]
    path = os.pathsep.join((str(Path(interpreter).parent), os.environ.get("PATH", os.defpath)))
    return interpreter, {"PYTHONPATH": os.pathsep.join(paths), "PATH": path}


def with_fastmcp() -> tuple[str, dict[str, str]]:
    """As `python_beside`, with FastMCP and what tests need besides. The test is skipped where that cannot be had."""
    with required("FastMCP"):
        return python_beside(FASTMCP, "fastapi>=0.115", "pytest>=8.4")


def source_of(requirement: str) -> Path:
    """The unpacked source distribution of a package: it has what wheels leave out, such as examples and tests.

    Args:
        requirement: Its name and version, as in `mcp==2.3.0`.

    Raises:
        CannotRunError: pip could not fetch it.
    """
    place = CACHE / f"source-{_digest(requirement)}"
    stamp = place / "unpacked"
    with place_for(place):
        if not stamp.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            name = requirement.partition("==")[0]
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "1", "--no-deps"]
            done = subprocess.run(
                [*pip, "--no-binary", name, "--dest", str(place), requirement],
                capture_output=True,
                encoding="utf-8",
                timeout=INSTALL_SECONDS,
                check=False,
            )
            if done.returncode != 0:
                raise CannotRunError(f"pip could not fetch the source of {requirement}:\n{done.stderr}")
            [archive] = place.glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
            archive.unlink()
            stamp.touch()
    [folder] = (path for path in place.iterdir() if path.is_dir())
    return folder


def node_modules(folder: Path) -> Path:
    """The packages that a folder pins.

    Args:
        folder: Has `package.json`, `package-lock.json` and `.npmrc`.

    Raises:
        CannotRunError: npm could not install them.
    """
    digest = _digest((folder / "package-lock.json").read_text("utf-8"))
    place = CACHE / f"node-{digest}"
    with place_for(place):
        place.mkdir(exist_ok=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copyfile(folder / name, place / name)
        install_packages(place)
    return place / "node_modules"


@contextmanager
def required(what: str) -> Generator[None]:
    """Skip the test if something cannot be installed here; on a CI machine it has to be.

    Args:
        what: Names it.
    """
    try:
        yield
    except (CannotRunError, OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI"):
            raise
        reason = str(error).partition("\n")[0]
        pytest.skip(f"{what} cannot be installed here: {reason}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def place_for(place: Path, seconds: float = INSTALL_SECONDS) -> FileLock:
    """Keeps other test processes from a place while something is installed there.

    Args:
        place: A folder of `CACHE`.
        seconds: How long that takes at most.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(place.with_name(f"{place.name}.lock"), timeout=seconds * 2)
