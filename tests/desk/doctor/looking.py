"""Has the doctor look at one subject, in a home that a test has broken."""

from __future__ import annotations

import inspect
import json
import os
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.settings import DoctorLimits
from gaia_bridge_desk.doctor.checks import Finding, Level, Subject
from gaia_bridge_desk.doctor.surroundings import Surroundings, look_around

__all__ = ["SOON", "bad", "by_id", "foreign", "has_servers", "look", "program", "repaired", "swapped"]

SOON = DoctorLimits(connect_timeout=0.5)
"""Limits for tests in which something hangs."""


def look(subject: Subject, at: Surroundings | None = None, **options: Any) -> list[Finding]:
    """What is found of one subject. The options are those of `look_around`."""
    around = at or look_around(**options)

    async def check() -> list[Finding]:
        found: Any = subject.check(around)
        return list(await found) if inspect.isawaitable(found) else list(found)

    return anyio.run(check)


def by_id(findings: Sequence[Finding]) -> dict[str, Finding]:
    """Findings by their ids; of several with one, the first."""
    return {finding.kind.id: finding for finding in reversed(findings)}


def bad(findings: Sequence[Finding]) -> set[str]:
    """The ids of what is wrong."""
    return {finding.kind.id for finding in findings if finding.level in (Level.WARNING, Level.ERROR)}


def repaired(finding: Finding) -> None:
    """Do what `--fix` does."""
    assert finding.repair is not None and finding.kind.is_repairable
    finding.repair.apply()


@contextmanager
def swapped(path: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Inside of it, a link takes the place of a file as soon as somebody has looked at it."""

    def meanwhile(real: Any) -> Any:
        def look(at: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return real(at, *arguments, **options)
            finally:
                if not path.is_symlink():
                    path.unlink()
                    path.symlink_to(other)

        return look

    with monkeypatch.context() as patched:
        for name in ("fstat", "lstat"):
            patched.setattr(os, name, meanwhile(getattr(os, name)))
        yield


def has_servers(servers: Mapping[str, Any], path: str = ".gaia/mcp_servers.json", mode: int = 0o600) -> Path:
    """Write a file of servers."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    file.chmod(mode)
    return file.absolute()


def program(folder: Path, name: str, script: str) -> str:
    """Write a program that a shell runs."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def foreign(path: str | Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a file belong to another user: really, where we may, else by taking ourselves for somebody else."""
    if os.getuid() == 0:
        os.chown(path, 12_345, -1, follow_symlinks=False)
        return
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    monkeypatch.setattr(os, "geteuid", lambda: other)
