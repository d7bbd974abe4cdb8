"""Programs of other hands that tests need: installed before the first test that needs them, and kept for all runs.

    FAST = PythonPackages(("fastmcp==4.2.3",))

    @needs(FAST)
    def test_it() -> None:
        with required("FastMCP"):
            interpreter = FAST.install()

A test, or a fixture of it, says with `needs` what it takes; `tests/support/installing.py` installs that before the
first test begins, so that no test waits for a download. Everything is kept under the user's cache folder, by what
exactly was installed: test processes that run at once, and other checkouts, share it. Where it cannot be had the tests
are skipped, unless `CI` is set.
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
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pytest
from filelock import FileLock

from tests.conformance.runner import CACHE, CannotRunError, install_packages, packages_of

__all__ = [
    "CACHE",
    "FASTMCP",
    "HOME",
    "MCP1",
    "MCP2",
    "WITH_FASTMCP",
    "Installation",
    "NodePackages",
    "PythonPackages",
    "Source",
    "needs",
    "needs_of",
    "only",
    "place_for",
    "required",
    "with_fastmcp",
]

ROOT: Final = Path(__file__).parents[2]
HOME: Final = str(Path.home())
"""Found out when this module is imported, as `CACHE` is: npm's settings of this user are there."""
MCP1: Final = "mcp==1.30.0"
"""The first generation of the Python SDK: its last release."""
MCP2: Final = "mcp==2.3.0"
"""The second."""
FASTMCP: Final = "fastmcp==4.2.3"
INSTALL_SECONDS = 300
"""For one attempt; on an idle machine the largest takes half a minute."""

ATTEMPTS = 2

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
Installed = TypeVar("Installed", covariant=True)


class Installation(ABC, Generic[Installed]):
    """What can be installed, and is then kept; equal ones are one."""

    @property
    @abstractmethod
    def stamp(self) -> Path:
        """A file that is there once the installation is complete."""

    @abstractmethod
    def _install(self) -> Installed: ...

    def install(self) -> Installed:
        """Install it, unless it is there.

        Returns:
            The interpreter, the unpacked folder, or the `node_modules`.

        Raises:
            CannotRunError: It cannot be had. This process asks no more then.
            AssertionError: The running test does not say that it needs it.
        """
        assert _state.allowed is None or self in _state.allowed, f"no needs(...) of this test names {self}"
        if self in _state.failures:
            raise _state.failures[self]
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                return self._install()
            except (CannotRunError, OSError, subprocess.SubprocessError) as error:
                if not attempts_left:
                    _state.failures[self] = CannotRunError(str(error))
                    raise _state.failures[self] from error
        raise AssertionError("there is an attempt at least")


class _State:
    """What this test process knows."""

    def __init__(self) -> None:
        self.failures: dict[Installation[object], CannotRunError] = {}
        self.allowed: Container[Installation[object]] | None = None


_state: Final = _State()


@contextmanager
def only(installations: Container[Installation[object]]) -> Generator[None]:
    """Have a test fail that takes others while the block runs: it would wait for a download one day."""
    _state.allowed = installations
    try:
        yield
    finally:
        _state.allowed = None


@dataclass(frozen=True)
class PythonPackages(Installation[str]):
    """A virtual environment with packages of PyPI.

    Args:
        requirements: As for pip, with the versions that will do.
        beside: Whether what this project needs is there as well.
    """

    requirements: tuple[str, ...]
    beside: bool = False

    def __str__(self) -> str:
        return ", ".join(self.requirements)

    @property
    def place(self) -> Path:
        """The folder of the environment."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return CACHE / f"python{version}-{_digest(' '.join(self._wanted()))}"

    @property
    def stamp(self) -> Path:
        return self.place / "installed"

    def _install(self) -> str:
        place = self.place
        interpreter = place / "bin" / "python"
        with place_for(place):
            if not (interpreter.exists() and self.stamp.exists()):
                venv.create(place, clear=True, symlinks=True)
                _run_pip(str(self), "--python", str(interpreter), "install", *self._wanted())
                self.stamp.touch()
        return str(interpreter)

    def _wanted(self) -> list[str]:
        if not self.beside:
            return [*self.requirements]
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        return [*self.requirements, *project["dependencies"]]


@dataclass(frozen=True)
class Source(Installation[Path]):
    """The unpacked source distribution of a package: it has what wheels leave out, such as examples and tests.

    Args:
        requirement: Its name and version, as in `mcp==2.3.0`.
    """

    requirement: str

    def __str__(self) -> str:
        return f"the source of {self.requirement}"

    @property
    def place(self) -> Path:
        """The folder that it is unpacked into."""
        return CACHE / f"source-{_digest(self.requirement)}"

    @property
    def stamp(self) -> Path:
        return self.place / "unpacked"

    def _install(self) -> Path:
        place = self.place
        with place_for(place):
            if not self.stamp.exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                name = self.requirement.partition("==")[0]
                _run_pip(
                    str(self), "download", "--no-deps", "--no-binary", name, "--dest", str(place), self.requirement
                )
                [archive] = place.glob("*.tar.gz")
                with tarfile.open(archive) as packed:
                    packed.extractall(place, filter="data")
                archive.unlink()
                self.stamp.touch()
        [folder] = (path for path in place.iterdir() if path.is_dir())
        return folder


@dataclass(frozen=True)
class NodePackages(Installation[Path]):
    """The packages of npm that a folder pins.

    Args:
        folder: Has `package.json`, `package-lock.json` and `.npmrc`.
    """

    folder: Path

    def __str__(self) -> str:
        return f"the npm packages of {self.folder.relative_to(ROOT)}"

    @property
    def stamp(self) -> Path:
        return packages_of(self.folder) / ".installed"

    def _install(self) -> Path:
        return install_packages(self.folder)


WITH_FASTMCP: Final = PythonPackages((FASTMCP, "fastapi>=0.115", "pytest>=8.4"), beside=True)
"""FastMCP, and what tests need besides, where this project can be imported as well."""


def with_fastmcp() -> tuple[str, dict[str, str]]:
    """The Python of `WITH_FASTMCP`, and the variables with which it, and its programs, find this checkout.

    The test is skipped where that cannot be had.
    """
    with required("FastMCP"):
        interpreter = WITH_FASTMCP.install()
    paths = [str(ROOT / folder) for folder in ("bridge", "agents")]
    path = os.pathsep.join((str(Path(interpreter).parent), os.environ.get("PATH", os.defpath)))
    return interpreter, {"PYTHONPATH": os.pathsep.join(paths), "PATH": path}


def needs(*installations: Installation[object]) -> Callable[[AnyFunction], AnyFunction]:
    """Say what a test, or a fixture, takes; below `@pytest.fixture`.

    Args:
        installations: All of it.
    """

    def mark(function: AnyFunction) -> AnyFunction:
        function.__dict__["needs"] = installations
        return function

    return mark


def needs_of(functions: Iterable[Callable[..., Any]]) -> dict[Installation[object], None]:
    """Everything that functions take, in their order."""
    return dict.fromkeys(it for function in functions for it in getattr(function, "needs", ()))


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


def _run_pip(what: str, *words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--retries", "1", *words]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=INSTALL_SECONDS, check=False)
    if done.returncode != 0:
        raise CannotRunError(f"pip could not install {what}:\n{done.stderr}")


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
