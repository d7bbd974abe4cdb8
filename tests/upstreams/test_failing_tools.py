"""The tools that servers are started with, really started: what they say of a failure is understood as it is today."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gaia_bridge_cli import main
from tests.support.installed_programs import PythonPackages, needs, required

UV = PythonPackages(("uv==0.13.9",))
NOWHERE = "http://127.0.0.1:9/"
"""Where nobody listens."""


@contextmanager
def empty_registry() -> Generator[str]:
    """A registry that has no package at all."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def added(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """The last line of what is said when a server is added that does not start."""
    assert main(("add", "x", *words)) == 69
    return capfd.readouterr().err.strip().splitlines()[-1]


@pytest.mark.thorough
@needs(UV)
def test_uvx(capfd: pytest.CaptureFixture[str]) -> None:
    with required("uv"):
        uvx = str(Path(UV.install()).with_name("uvx"))
    with empty_registry() as registry:
        said = added(capfd, uvx, "--no-cache", "--default-index", registry, "gaia-none-such")
        assert "was not found in the package registry" in said
        assert "there is no package gaia-none-such for Python" in said
    said = added(capfd, uvx, "--no-cache", "--default-index", NOWHERE, "gaia-none-such")
    assert "does it need a proxy" in said
    said = added(capfd, uvx, "--no-cache", "--no-python-downloads", "--python", "3.99", "gaia-none-such")
    assert "install Python 3.99" in said


@pytest.mark.skipif(shutil.which("npx") is None, reason="Node.js is not installed here")
def test_npx(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_cache", str(Path("cache").absolute()))
    with empty_registry() as registry:
        said = added(capfd, "npx", "-y", f"--registry={registry}", "gaia-none-such")
        assert "there is no npm package gaia-none-such" in said
    assert "does it need a proxy" in added(
        capfd, "npx", "-y", f"--registry={NOWHERE}", "--fetch-retries=0", "gaia-none"
    )


@pytest.mark.skipif(shutil.which("docker") is None, reason="Docker is not installed here")
def test_docker(capfd: pytest.CaptureFixture[str]) -> None:
    nowhere = f"unix://{os.getcwd()}/docker.sock"
    said = added(capfd, "docker", "-H", nowhere, "run", "-i", "--rm", "gaia/none")
    assert "start Docker" in said or "there is no such file" in said


def test_python(capfd: pytest.CaptureFixture[str]) -> None:
    assert "does not have gaia_none_such" in added(capfd, sys.executable, "-m", "gaia_none_such")
    Path("later.py").write_text("type Point = tuple[int, int]\nthis is no Python at all\n", encoding="utf-8")
    assert "is it written for another version" in added(capfd, sys.executable, "later.py")
