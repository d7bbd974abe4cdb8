"""Which launch lines download what they start, and which lines of error output come from the download."""

from __future__ import annotations

import pytest

from gaia_bridge.config.launching.launchers import is_of_launcher, launcher_in


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("npx -y some-server", "npx"),
        ("/usr/local/bin/uvx some-server", "uvx"),
        (r"C:\\tools\\npx.cmd some-server", "npx"),
        ("docker run -i --rm mcp/time", "docker"),
        ("pnpm dlx some-server", "pnpm"),
        ("env DEBUG=1 npx some-server", "npx"),
        ("cmd /c npx some-server", "npx"),
        ("python3 -m npx", ""),
        ("node server.js npx", ""),
        ("./run.sh", ""),
    ],
)
def test_a_launcher_is_known_by_the_beginning_of_its_line(line: str, launcher: str) -> None:
    assert launcher_in(line.split()) == launcher


@pytest.mark.parametrize(
    "line",
    [
        "npm warn deprecated glob@7.2.3: no longer supported",
        "Downloading pydantic-core (2.2MiB)",
        "Installed 31 packages in 52ms",
        "Unable to find image 'mcp/time:latest' locally",
        "fa7e0f4c3a1d: Pull complete",
        "Progress: resolved 12, reused 0, downloaded 3, added 0",
    ],
)
def test_what_launchers_say_while_they_download_is_known(line: str) -> None:
    assert is_of_launcher(line)


@pytest.mark.parametrize("line", ["Server running on stdio", "listening on port 3000", "Error: API_KEY is not set"])
def test_what_servers_say_is_no_download(line: str) -> None:
    assert not is_of_launcher(line)
