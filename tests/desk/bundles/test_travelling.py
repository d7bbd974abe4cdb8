"""What becomes of the entries of servers on their way to another machine, and which cannot go."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.bundles.travelling import Variable, travelling, variables_in
from tests.support.bundled import SECRET

PLAIN: Final = "hunter2horse"
"""A secret that only its place gives away."""
RANDOM: Final = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"
"""A secret that only its form gives away."""


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
        (
            {"command": "npx", "env": {"PASSWORD": 123456789}},
            {"command": "npx", "env": {"PASSWORD": "${env:PASSWORD}"}},
        ),
        ({"command": "npx", "env": {"DB_PW": PLAIN}}, {"command": "npx", "env": {"DB_PW": "${env:DB_PW}"}}),
        ({"command": "npx", "env": {"T": f"${{TOKEN:-{PLAIN}}}"}}, {"command": "npx", "env": {"T": "${env:TOKEN}"}}),
        (
            {"command": "npx", "env": {"TOKEN": f"${{A:-{PLAIN}}}"}},
            {"command": "npx", "env": {"TOKEN": "${env:TOKEN}"}},
        ),
        ({"command": "npx", "args": [f"${{TOKEN:-{PLAIN}}}"]}, {"command": "npx", "args": ["${env:TOKEN}"]}),
        ({"command": "/usr/bin/npx -y 'a b'"}, {"command": "npx", "args": ["-y", "a b"]}),
        (
            {"url": "https://x.example/mcp", "token": PLAIN, "oauth": {"clientId": "a", "nested": {"secret": PLAIN}}},
            {"url": "https://x.example/mcp", "oauth": {"clientId": "a"}},
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
        *(
            ({"command": "npx", "args": ["-y", "x", *words]}, "a secret among its arguments")
            for words in (
                ["--api-key", PLAIN],
                [f"--key={PLAIN}"],
                ["-p", RANDOM],
                [RANDOM],
                ["--header", f"X-Api-Key: {PLAIN}"],
                ["--header", f"Authorization: Bearer ${{env:A}} {SECRET}"],
                ["-e", f"GITHUB_TOKEN={PLAIN}"],
                [f"postgres://ada:{PLAIN}@db/x"],
            )
        ),
        ({"command": f"npx -y x --token {PLAIN}"}, "a secret among its arguments"),
        ({"command": f"/opt/weather --token {PLAIN}"}, "starts /opt/weather, which is on this machine alone"),
        ({"command": f"C:\\weather.exe --token {PLAIN}"}, "starts C:\\weather.exe, which is on this machine alone"),
        ({"command": "npx", "args": f"--token {PLAIN}"}, "has no such 'args' as can be used"),
        ({"url": "https://x.example/mcp", "headers": [{"name": "X", "value": PLAIN}]}, "has no such 'headers'"),
        *(
            ({"url": f"https://x.example/{path}"}, "a secret in 'url'")
            for path in (f"s/{RANDOM}/mcp", f"mcp?key={PLAIN}", f"mcp?a=b&apiKey={PLAIN}", f"mcp#token={PLAIN}")
        ),
        ({"url": "unix:///run/user/1/x.sock#/mcp"}, "a place of this machine in 'url'"),
        *(
            ({"command": "npx", "args": [word]}, "a path of this machine")
            for word in ("./data", "..", "file:///home/ada/x", "cd /home/ada; x", "C:/Users/ada", "--root=../x")
        ),
        ({"agent": "code"}, "an agent of this process"),
        ("npx", "is no object"),
    ],
)
def test_what_is_on_this_machine_alone_stays_here(tmp_path: Path, entry: Any, problem: str) -> None:
    (tmp_path / "server.py").write_text("", "utf-8")
    with pytest.raises(ConfigError) as caught:
        travelled(entry, tmp_path)
    assert problem in str(caught.value) and "the server 'up'" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in (SECRET, PLAIN, RANDOM, "pass@"))


@pytest.mark.parametrize(
    "words",
    [
        ["mcp-remote", "https://x.example/mcp", "--header", "Authorization: Bearer ${env:TOKEN}"],
        ["mcp-remote", "https://x.example/mcp?token=${TOKEN}&a=b", "--header", "Authorization:${AUTH_HEADER}"],
        ["run", "-i", "--rm", "-e", "GITHUB_TOKEN", f"ghcr.io/github/github-mcp-server@sha256:{'0a' * 32}"],
        ["--from", f"git+https://github.com/ada/weather@{'0a' * 20}", "weather"],
        ["-y", "@scope/mcp-server-text2image-of-everything@1.2.3"],
        ["--max-tokens", "4096", "--auth-type", "oauth", "--key", "${env:KEY}", "--token", "--verbose"],
    ],
)
def test_arguments_without_secrets_and_paths_travel_as_they_are(words: list[str]) -> None:
    assert travelled({"command": "npx", "args": words})["args"] == words


def test_two_secrets_of_one_name_are_two_variables() -> None:
    entries = {
        "one": {"command": "npx", "env": {"API_KEY": PLAIN}},
        "two": {"command": "npx", "env": {"API_KEY": SECRET, "TOKEN": SECRET}},
        "three": {"command": "npx", "env": {"API_KEY": PLAIN, "T": "${TOKEN}"}},
        "a b": {"url": "https://x.example/mcp", "headers": {"X-Key": PLAIN, "-": RANDOM}},
        "a-b": {"url": "https://y.example/mcp", "headers": {"X-Key": SECRET}},
        "\u65e5": {"url": "https://z.example/mcp", "headers": {"-": RANDOM}},
    }
    made = travelling(entries, Path("/nowhere/servers.json"))
    assert [each.get("env") or each["headers"] for each in made.values()] == [
        {"API_KEY": "${env:API_KEY}"},
        {"API_KEY": "${env:TWO_API_KEY}", "TOKEN": "${env:TWO_TOKEN}"},
        {"API_KEY": "${env:API_KEY}", "T": "${TOKEN}"},
        {"X-Key": "${env:A_B_X_KEY}", "-": "${env:A_B}"},
        {"X-Key": "${env:A_B_X_KEY_2}"},
        {"-": "${env:SECRET}"},
    ]


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
