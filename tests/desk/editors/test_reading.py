"""Every editor's way to write a server leads to the entry that our file has for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config import EntryError, parse_entry
from gaia_bridge_desk.editors.finding import editor_called
from gaia_bridge_desk.editors.jsonc import EditError
from gaia_bridge_desk.editors.reading import (
    Found,
    ReferenceValues,
    document_of,
    entry_of_ours,
    servers_in,
    servers_of,
)
from gaia_bridge_desk.editors.references import variable_of_input
from gaia_bridge_desk.editors.table import EDITORS

TIME = {"command": "uvx", "args": ["mcp-server-time"]}


def around(name: str | None = None, workspace: str | None = "/src/project", **more: Any) -> ReferenceValues:
    editor = editor_called(name) if name is not None else None
    return ReferenceValues("/home/me", workspace, None if editor is None else editor.shape, **more)


def servers_of_text(text: str, around: ReferenceValues, *, toml: bool = False) -> list[Found]:
    return servers_of(document_of(text, toml=toml), around)


def only(text: str, around: ReferenceValues, *, toml: bool = False) -> Found:
    [found] = servers_of_text(text, around, toml=toml)
    return found


def entry(server: Any, surroundings: ReferenceValues | None = None) -> Any:
    return only(json.dumps({"mcpServers": {"x": server}}), surroundings or around()).entry


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"type": "stdio", **TIME}, TIME),
        ({"type": "local", "command": ["uvx", "mcp-server-time"], "enabled": True}, TIME),
        ({"source": "custom", "command": {"path": "uvx", "args": ["mcp-server-time"], "env": {}}}, TIME),
        ({"command": "uvx"}, {"command": "uvx", "args": []}),
        ({**TIME, "disabled": False, "autoApprove": ["x"]}, TIME),
        ({**TIME, "enabled": False}, {**TIME, "disabled": True}),
        ({**TIME, "environment": {"A": "1"}}, {**TIME, "env": {"A": "1"}}),
        ({**TIME, "env": {"N": 1, "UNSET": None}}, {**TIME, "env": {"N": 1}}),
        ({**TIME, "tools": ["*"]}, TIME),
        ({**TIME, "tools": ["now"]}, {**TIME, "allowed_tools": ["now"]}),
        ({**TIME, "includeTools": ["a"]}, {**TIME, "allowed_tools": ["a"]}),
        ({**TIME, "excludeTools": ["b"]}, {**TIME, "disabled_tools": ["b"]}),
        ({**TIME, "timeout": 60000}, {**TIME, "timeout": 60.0}),
        ({**TIME, "timeout": 60}, {**TIME, "timeout": 60}),
        ({"serverUrl": "https://x.org"}, {"url": "https://x.org"}),
        ({"httpUrl": "https://x.org", "url": "https://y.org"}, {"url": "https://y.org"}),
        ({"type": "remote", "url": "https://x.org"}, {"url": "https://x.org", "type": "http"}),
        ({"type": "streamableHttp", "url": "https://x.org"}, {"url": "https://x.org", "type": "http"}),
        ({"transport": {"type": "sse", "url": "https://x.org"}}, {"url": "https://x.org", "type": "sse"}),
        (
            {"url": "https://x.org", "auth": {"CLIENT_ID": "a", "CLIENT_SECRET": "${env:S}", "scopes": ["b"], "x": 1}},
            {"url": "https://x.org", "oauth": {"clientId": "a", "clientSecret": "${env:S}", "scopes": ["b"]}},
        ),
        ({"url": "https://x.org", "oauth": {"clientId": "a", "authServerMetadataUrl": "x"}},
         {"url": "https://x.org", "oauth": {"clientId": "a"}}),
        ({"url": "https://x.org", "oauth": False}, {"url": "https://x.org", "oauth": False}),
    ],
)  # fmt: skip
def test_what_each_program_writes_is_said_in_our_words(written: Any, expected: Any) -> None:
    assert entry(written) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("${env:A}", "${env:A}"),
        ("${A}", "${env:A}"),
        ("${A:-b c}", "${env:A:-b c}"),
        ("Bearer $TOKEN", "Bearer ${env:TOKEN}"),
        ("pa$$WORD$", "pa$$WORD$"),
        ("x$HOME/y", "x$HOME/y"),
        ("{env:A}-$${A}", "${env:A}-$$${env:A}"),
        ("${userHome}/x${/}y", "/home/me/x/y"),
        ("${workspaceFolder}/a", "/src/project/a"),
        ("${workspaceFolderBasename}", "project"),
        ("${input:gh-token}", "${env:GH_TOKEN}"),
        ("${CLAUDE_PROJECT_DIR}", "/src/project"),
    ],
)
def test_references_of_every_style_become_ours_or_what_they_stand_for(written: str, expected: str) -> None:
    for server in ({**TIME, "env": {"K": written}}, {"url": "https://x.org", "headers": {"K": written}}):
        assert next(iter((entry(server).get("env") or entry(server)["headers"]).values())) == expected
    assert entry({**TIME, "args": [written]})["args"] == [expected]


def test_in_gemini_a_variable_is_filled_in_wherever_it_stands() -> None:
    found = entry({**TIME, "env": {"K": "x-$TOKEN.$B"}}, around("gemini-cli"))
    assert found["env"] == {"K": "x-${env:TOKEN:-}.${env:B:-}"}


def test_an_address_without_a_type_is_what_that_editor_takes_it_for() -> None:
    for name, kind in (("gemini-cli", "sse"), ("cline", "sse"), ("cursor", None), ("claude-code", None)):
        assert entry({"url": "https://x.org"}, around(name)).get("type") == kind
    assert "type" not in entry({"httpUrl": "https://x.org"}, around("gemini-cli"))


def test_a_timeout_is_in_the_unit_of_its_editor() -> None:
    milliseconds = ("gemini-cli", "claude-code", "mcp-json", "opencode", "copilot-cli")
    seconds = ("zed", "cline", "cline-cli", "roo")
    for editor in EDITORS:
        found = only(json.dumps({"mcpServers": {"x": {**TIME, "timeout": 5_000}}}), around(editor.name))
        expected = 5 if editor.name in milliseconds else 5_000 if editor.name in seconds else None
        assert found.entry.get("timeout") == expected, editor.name
        assert any("'timeout'" in note for note in found.notes) is (expected is None)


def test_codex_is_read_with_all_that_it_writes() -> None:
    text = """
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs"]
env_vars = ["PATH"]
startup_timeout_sec = 20
tool_timeout_sec = 500
enabled_tools = ["a"]
enabled = false
[mcp_servers.docs.env]
A = "1"
[mcp_servers.far]
url = "https://x.org"
bearer_token_env_var = "TOKEN"
http_headers = { X = "1" }
env_http_headers = { Y = "YY" }
"""
    docs, far = servers_of_text(text, around("codex"), toml=True)
    assert docs.entry == {
        "command": "npx",
        "args": ["-y", "docs"],
        "inherit_env": ["PATH"],
        "startup_timeout": 20,
        "timeout": 500,
        "allowed_tools": ["a"],
        "env": {"A": "1"},
        "disabled": True,
    }
    assert far.entry == {
        "url": "https://x.org",
        "headers": {"X": "1", "Y": "${env:YY}", "Authorization": "Bearer ${env:TOKEN}"},
    }
    for found in (docs, far):
        assert found.notes == ()
        assert not parse_entry(found.name, found.entry, _here(), {"TOKEN": "t", "YY": "y"}).warnings


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"time": TIME}},
        {"servers": {"time": TIME}, "inputs": []},
        {"mcp_servers": {"time": TIME}},
        {"context_servers": {"time": TIME}},
        {"mcp": {"servers": {"time": TIME}}},
        {"mcp": {"time": {"type": "local", "command": ["uvx", "mcp-server-time"]}}},
        {"customizations": {"vscode": {"mcp": {"servers": {"time": TIME}}}}},
        {"folders": [], "settings": {"mcp": {"servers": {"time": TIME}}}},
        {"mcp": {"allowed": ["time"]}, "mcpServers": {"time": TIME}},
    ],
)
def test_servers_are_found_wherever_a_program_lists_them(document: Any) -> None:
    assert [(found.name, found.entry) for found in servers_of_text(json.dumps(document), around())] == [("time", TIME)]
    assert servers_in({"mcp": {"allowed": []}}) is None


def test_what_claude_code_keeps_for_one_folder_counts_there() -> None:
    text = json.dumps({"mcpServers": {"a": TIME}, "projects": {"/p": {"mcpServers": {"b": TIME}}, "/q": []}})
    for project, names in (("/p", ["a", "b"]), ("/q", ["a"]), ("/r", ["a"]), (None, ["a"])):
        assert [found.name for found in servers_of_text(text, around(project=project))] == names


def test_what_cannot_be_used_here_is_told_from_what_is_only_left_out() -> None:
    servers = {
        "bridge": {"command": "/x/gaia-bridge", "args": ["connect"]},
        "asks": {"command": "x", "env": {"A": "${command:ext.token}"}},
        "configured": {"command": "${config:python.path}"},
        "empty": {"type": "stdio"},
        "text": "uvx",
        "odd": {**TIME, "sandboxing": {}, "dev": {"watch": "x"}},
    }
    found = {each.name: each for each in servers_of_text(json.dumps({"servers": servers}), around())}
    assert found["bridge"].is_ours
    assert [each.name for each in found.values() if each.problem] == ["asks", "configured", "empty", "text"]
    assert found["odd"].notes == ("'sandboxing' has no meaning here, and is left out",)
    nowhere = only('{"servers": {"a": {"command": "${workspaceFolder}/x"}}}', around(workspace=None))
    assert "belongs to no folder" in (nowhere.problem or "")


def test_inputs_and_files_of_variables_are_named_by_the_servers_that_use_them() -> None:
    text = """{
      "inputs": [{"id": "gh-token", "description": "GitHub token"}, {"id": "other"}, 1],
      "servers": {"a": {"command": "x", "env": {"T": "${input:gh-token}"}, "envFile": "${workspaceFolder}/.env"},
                  "b": {"command": "y"}}
    }"""
    first, second = servers_of_text(text, around())
    assert (first.inputs, first.env_file) == ({"GH_TOKEN": "GitHub token"}, "/src/project/.env")
    assert (second.inputs, second.env_file) == ({}, None)
    assert [variable_of_input(name) for name in ("a-b", "1st", "ü", "api.key")] == [
        "A_B",
        "INPUT_1ST",
        "INPUT",
        "API_KEY",
    ]


def test_an_entry_of_ours_stays_as_it_is() -> None:
    ours = {
        **TIME, "env": {"A": "${keyring:a/b}"}, "inherit_env": True, "timeout": 3600, "isolation": "session",
        "tools": {"now": {"name": "clock"}}, "idle_timeout": 1, "lazy": False, "disabled": True,
    }  # fmt: skip
    assert entry_of_ours(ours) == (ours, [])
    assert entry_of_ours({"agent": "code"}) == ({"agent": "code"}, [])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["${input:a}", "$A", "${x:y}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "command args env url type timeout headers transport tools auth oauth disabled enabled envFile".split()
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=3), st.sampled_from((None, *EDITORS)))
def test_whatever_a_file_holds_is_entries_that_our_reader_judges(servers: Any, editor: Any) -> None:
    shape = None if editor is None else editor.shape
    text = json.dumps({"mcpServers": servers, "inputs": [servers]})
    for found in servers_of_text(text, ReferenceValues("/home/me", None, shape)):
        if found.problem is None:
            try:
                parse_entry("x", found.entry, _here(), {})
            except EntryError:
                pass


@pytest.mark.parametrize(("text", "toml"), [("{", False), ("a = ", True), ("[]", False)])
def test_what_is_neither_is_an_error(text: str, toml: bool) -> None:
    with pytest.raises(EditError):
        servers_of_text(text, around(), toml=toml)


def _here() -> Any:
    from pathlib import Path

    return Path.cwd()
