"""What becomes of the entries of servers on their way to another machine, and which cannot go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.bundles.travelling import Variable, travelling, variables_in
from gaia_bridge.errors import ConfigError
from tests.support.bundled import SECRET


def travelled(entry: dict[str, Any], folder: Path = Path("/nowhere")) -> dict[str, Any]:
    return travelling({"up": entry}, folder / "servers.json")["up"]


@pytest.mark.parametrize(
    ("entry", "made"),
    [
        ({"command": "/home/ada/.local/bin/uvx", "args": ["x"]}, {"command": "uvx", "args": ["x"]}),
        ({"command": "C:\\nodejs\\npx.cmd", "args": []}, {"command": "npx", "args": []}),
        (
            {"command": "docker", "args": ["run", "-i", "ghcr.io/a/b:1"]},
            {"command": "docker", "args": ["run", "-i", "ghcr.io/a/b:1"]},
        ),
        ({"command": "npx", "env": {"TOKEN": SECRET}}, {"command": "npx", "env": {"TOKEN": "${env:TOKEN}"}}),
        ({"command": "npx", "env": {"K": "${keyring:gaia/x}"}}, {"command": "npx", "env": {"K": "${env:K}"}}),
        (
            {"command": "npx", "env": {"MODE": "fast"}, "timeout": 9},
            {"command": "npx", "env": {"MODE": "fast"}, "timeout": 9},
        ),
        (
            {"url": "https://x.example/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
            {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${env:UP_AUTHORIZATION}"}},
        ),
        (
            {"url": "https://x.example/mcp", "headers": {"X-Api-Key": "${file:~/.gaia/secrets/x}"}},
            {"url": "https://x.example/mcp", "headers": {"X-Api-Key": "${env:UP_X_API_KEY}"}},
        ),
    ],
)
def test_secrets_become_variables_and_programs_are_called_by_their_names(
    entry: dict[str, Any], made: dict[str, Any]
) -> None:
    assert travelled(entry) == made


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"command": "/home/ada/venv/bin/weather"},
            "starts /home/ada/venv/bin/weather, which is on this machine alone",
        ),
        ({"command": "/home/ada/venv/bin/python", "args": ["-m", "x"]}, "which is on this machine alone"),
        (
            {"command": "npx", "tools": {"a": {"arguments": {"token": {"default": SECRET}}}}},
            "a secret in 'tools': the default of 'token'",
        ),
        ({"command": "./weather"}, "on this machine alone"),
        ({"command": "npx", "args": ["-y", "x", "/home/ada/data"]}, "a path of this machine"),
        ({"command": "npx", "args": ["--root=/home/ada"]}, "a path of this machine"),
        ({"command": "npx", "args": ["~/notes"]}, "a path of this machine"),
        ({"command": "python", "args": ["server.py"]}, "the argument server.py, a file of this machine"),
        ({"command": "npx", "args": ["--token", SECRET]}, "a secret among its arguments"),
        ({"command": "npx", "args": ["${file:/etc/key}"]}, "refers to a file of this machine"),
        ({"command": "npx", "cwd": "src"}, "has 'cwd'"),
        ({"command": "npx", "env": {"DATA": "/home/ada/data"}}, "a path of this machine in 'DATA'"),
        ({"url": f"https://x.example/mcp?token={SECRET}"}, "a secret in 'url'"),
        ({"url": "https://ada:pass@x.example/mcp"}, "a secret in 'url'"),
        ({"openapi": "petstore.json"}, "an OpenAPI document of this machine"),
        ({"agent": "code"}, "an agent of this process"),
        ("npx", "is no object"),
    ],
)
def test_what_is_on_this_machine_alone_stays_here(tmp_path: Path, entry: Any, problem: str) -> None:
    (tmp_path / "server.py").write_text("", "utf-8")
    with pytest.raises(ConfigError) as caught:
        travelled(entry, tmp_path)
    assert problem in str(caught.value) and "the server 'up'" in str(caught.value)
    assert SECRET not in str(caught.value) and "pass@" not in str(caught.value)


def test_variables_are_told_once_with_their_users_and_defaults() -> None:
    entries = {
        "a": {"command": "npx", "env": {"T": "${TOKEN}", "R": "${env:REGION:-eu}", "H": "${HOME}"}},
        "b": {"url": "https://${REGION:-us}.example.com", "headers": {"X": "${TOKEN:-none}", "Y": "${EMPTY:-}"}},
    }
    assert variables_in(entries) == [
        Variable("EMPTY", ("b",), ""),
        Variable("REGION", ("a", "b"), "eu"),
        Variable("TOKEN", ("a", "b")),
    ]
