"""What each program does with a file of its own, and what becomes of that file's servers here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config import EntryError, parse_entry
from gaia_bridge.config.expansion import as_text, references_in, texts_in
from gaia_bridge_desk.editors.exclusions import exclusions_in, without_excluded
from gaia_bridge_desk.editors.finding import editor_called
from gaia_bridge_desk.editors.jsonc import inside
from gaia_bridge_desk.editors.reading import Found, ReferenceValues, document_of, servers_of
from gaia_bridge_desk.editors.references import FILLED_IN as REFERRING
from gaia_bridge_desk.editors.references import NONE
from gaia_bridge_desk.editors.table import EDITORS, FileKind

HERE = "/src/project"
TEXTS = ["$A", "${A}", "${A:-d}", "${env:A}", "{env:A}", "$${A}", "a$b{c}", "${file:/k}", "${keyring:s/n}", "{file:k}"]
"""Texts that are references to some programs and to others not."""


def taken(name: str, text: str, *, own: bool = True) -> dict[str, Found]:
    editor = editor_called(name)
    assert editor is not None
    around = ReferenceValues("/home/me", HERE, editor.shape, "/home/me/cfg" if own else None, HERE)
    document = document_of(text, toml=editor.kind is FileKind.TOML)
    found = servers_of(document, around)
    exclusions = exclusions_in(document, [server.name for server in found], HERE)
    return {server.name: without_excluded(server, exclusions, in_project=not own) for server in found}


FILLED_IN: dict[str, dict[str, str]] = {
    # Each of TEXTS among a program's arguments, as ours says it: tried with the version beside it, else documented.
    # The others stay texts, and so do all for an editor whose row names no references.
    "vscode": {"${env:A}": "${env:A:-}"},
    "cursor": {"${env:A}": "${env:A}"},
    "windsurf": {"${env:A}": "${env:A}", "${file:/k}": "${file:/k}"},
    "claude-code": {"${A}": "${env:A}", "${A:-d}": "${env:A:-d}", "$${A}": "$$${env:A}"},  # 2.1.332
    "gemini-cli": {  # 0.61.0
        **{"$A": "${env:A}", "${A}": "${env:A}", "${A:-d}": "${env:A:-d}", "$${A}": "$$${env:A}"},
        "a$b{c}": "a${env:b}{c}",
    },
    "copilot-cli": {
        **{"$A": "${env:A}", "${A}": "${env:A}", "${A:-d}": "${env:A:-d}", "$${A}": "$$${env:A}"},
        "a$b{c}": "a${env:b}{c}",
    },
    "opencode": {  # 1.18.33
        **{"{env:A}": "${env:A:-}", "${env:A}": "$$${env:A:-}", "{file:k}": "${file:/home/me/cfg/k}"},
        "${file:/k}": "$$${file:/k}",
    },
    "cline": {"${env:A}": "${env:A}"},
    "roo": {"${env:A}": "${env:A}"},
}
LIKE = {"vscode-insiders": "vscode", "code-server": "vscode", "cline-cli": "cline", "mcp-json": "claude-code"}


@pytest.mark.parametrize("editor", [each for each in EDITORS if each.places], ids=lambda editor: editor.name)
def test_a_reference_means_what_it_means_to_its_program(editor: Any) -> None:
    document = {"mcpServers": {"x": {"command": "c", "args": TEXTS}}}
    found = servers_of(document, ReferenceValues("/home/me", HERE, editor.shape, "/home/me/cfg"))[0]
    name: str = editor.name
    known = FILLED_IN.get(LIKE.get(name, name), {})
    assert bool(known) == (editor.shape.references is not NONE), f"FILLED_IN: what {name} makes of each of TEXTS"
    assert found.entry["args"] == [known.get(text, as_text(text)) for text in TEXTS]
    assert found.problem is None


GEMINI = """{"mcpServers": {"kept": {"command": "c", "excludeTools": ["d"], "includeTools": ["a", "b(x)"],
"timeout": 5000, "env": {"E": "$UNSET"}}, "Out": {"command": "o"}}, "mcp": {"excluded": ["out"]}}"""
GEMINI_ALLOWED = """{"mcpServers": {"a": {"command": "c"}, "b": {"command": "o"}}, "mcp": {"allowed": ["a"]}}"""
GEMINI_NONE = """{"mcpServers": {"a": {"command": "c"}}, "mcp": {"allowed": []}}"""
GEMINI_STATES = """{"mcpServers": {"a": {"command": "c"}}, "a": {"enabled": false}}"""
OPENCODE = """{"mcp": {"off": {"type": "local", "command": ["c", "x"], "enabled": false, "timeout": 800},
"slow": {"type": "local", "command": ["c"], "environment": {"E": "{env:A}"}},
"quick": {"type": "remote", "url": "https://x.org/{env:A}", "oauth": false}, "other": {"enabled": false}},
"tools": {"slow_delete": false, "slow_read*": false, "quick*": false, "slow_on": true}}"""
OPENCODE_DENIED = """{"mcp": {"a": {"type": "local", "command": ["c"]}}, "permission": {"a_x": "deny", "a_y": "ask"}}"""
CODEX = """
[mcp_servers.off]
command = "c"
enabled = false
[mcp_servers.all]
command = "c"
args = ["${HOME}"]
env_vars = ["A", {name = "B"}, {name = "C", source = "remote"}]
enabled_tools = ["a"]
disabled_tools = ["b"]
tool_timeout_sec = 120
startup_timeout_sec = 45
startup_timeout_ms = 20000
[mcp_servers.all.tools.search]
approval_mode = "auto"
[mcp_servers.old]
url = "https://x.org"
startup_timeout_ms = 20000
bearer_token_env_var = "T"
env_http_headers = {X = "Y}${file:/k"}
headers = {Z = "1"}
[mcp_servers.old.environment]
Z = "1"
"""
CLAUDE = """{"mcpServers": {"g": {"command": "c"}, "h h": {"type": "http", "url": "https://x.org"},
"i": {"command": "c"}},
"projects": {"/src/project": {"mcpServers": {"here": {"command": "c"}}, "disabledMcpServers": ["g"]},
"/far": {"mcpServers": {"far": {"command": "c"}}, "disabledMcpServers": ["i"]}},
"permissions": {"deny": ["mcp__h_h", "mcp__i__write", "Bash(rm)"]}}"""
COPILOT = """{"mcpServers": {"one": {"type": "local", "command": "c", "tools": ["a"], "timeout": 60000},
"all": {"type": "local", "command": "c", "tools": ["*"]}, "none": {"type": "local", "command": "c", "tools": []},
"off": {"type": "local", "command": "c"}}, "disabledMcpServers": ["off"]}"""
CLINE = """{"mcpServers": {"off": {"command": "c", "disabled": true, "timeout": 60}, "sse": {"url": "https://x.org",
"autoApprove": ["a"]}}}"""
ROO = """{"mcpServers": {"r": {"command": "${workspaceFolder}/c", "disabledTools": ["bad"], "alwaysAllow": ["x"],
"timeout": 300, "type": "stdio", "watchPaths": ["/x"]}}}"""
WINDSURF = """{"mcpServers": {"w": {"command": "c", "disabledTools": ["bad"], "disabled": true}, "s": {"serverUrl":
"https://x.org", "headers": {"X": "${file:~/.token}"}}}}"""
ZED = """{"context_servers": {"b": {"source": "custom", "enabled": false, "command": "c", "args": ["y"], "env": null},
"c": {"command": {"path": "c", "args": ["z"], "env": {}}, "settings": {}}}}"""
VSCODE = """{"servers": {"a": {"type": "stdio", "command": "c", "env": {"PORT": 3000, "NONE": null, "I": "${input:i}"},
"inherit_env": true, "env_vars": ["A"], "dev": {"watch": "x"}}}, "inputs": [{"id": "i"}]}"""

C: dict[str, Any] = {"command": "c", "args": []}
OFF: dict[str, Any] = {**C, "disabled": True}
GOLDEN: list[tuple[str, str, dict[str, Any]]] = [
    (
        "gemini-cli",
        GEMINI,
        {
            "kept": {
                **{**C, "disabled_tools": ["d"], "allowed_tools": ["a", "b"], "timeout": 5.0},
                "env": {"E": "${env:UNSET:-}"},
            },
            "Out": {**OFF, "command": "o"},
        },
    ),
    ("gemini-cli", GEMINI_ALLOWED, {"a": C, "b": {**OFF, "command": "o"}}),
    ("gemini-cli", GEMINI_NONE, {"a": OFF}),
    ("gemini-cli", GEMINI_STATES, {"a": OFF}),
    (
        "opencode",
        OPENCODE,
        {
            "off": {"command": "c", "args": ["x"], "timeout": 0.8, "disabled": True},
            "slow": {**C, "env": {"E": "${env:A:-}"}, "disabled_tools": ["delete"]},
            "quick": {"type": "http", "url": "https://x.org/${env:A:-}", "oauth": False, "disabled": True},
        },
    ),
    ("opencode", OPENCODE_DENIED, {"a": {**C, "disabled_tools": ["x"]}}),
    (
        "codex",
        CODEX,
        {
            "off": OFF,
            "all": {
                **{"command": "c", "args": ["$${HOME}"], "inherit_env": ["A", "B"], "timeout": 120},
                **{"allowed_tools": ["a"], "disabled_tools": ["b"], "startup_timeout": 45},
            },
            "old": {"url": "https://x.org", "startup_timeout": 20.0, "headers": {"Authorization": "Bearer ${env:T}"}},
        },
    ),
    (
        "claude-code",
        CLAUDE,
        {
            "g": OFF,
            "h h": {"type": "http", "url": "https://x.org", "disabled": True},
            "i": {**C, "disabled_tools": ["write"]},
            "here": C,
        },
    ),
    (
        "copilot-cli",
        COPILOT,
        {
            "one": {**C, "allowed_tools": ["a"], "timeout": 60.0},
            "all": C,
            "none": {**C, "allowed_tools": []},
            "off": OFF,
        },
    ),
    ("cline", CLINE, {"off": {**OFF, "timeout": 60}, "sse": {"url": "https://x.org", "type": "sse"}}),
    ("roo", ROO, {"r": {**C, "command": "/src/project/c", "disabled_tools": ["bad"], "timeout": 300}}),
    (
        "windsurf",
        WINDSURF,
        {
            "w": {**OFF, "disabled_tools": ["bad"]},
            "s": {"url": "https://x.org", "headers": {"X": "${file:~/.token}"}},
        },
    ),
    ("zed", ZED, {"b": {**OFF, "args": ["y"]}, "c": {**C, "args": ["z"]}}),
    ("vscode", VSCODE, {"a": {**C, "env": {"PORT": 3000, "I": "${env:I}"}}}),
]
"""Files of programs, and the entries that come of them."""


@pytest.mark.parametrize(("name", "text", "expected"), GOLDEN, ids=[name for name, _, _ in GOLDEN])
def test_a_file_of_each_program_leads_to_these_entries(name: str, text: str, expected: dict[str, Any]) -> None:
    found = {key: server.entry for key, server in taken(name, text).items() if server.problem is None}
    assert found == expected
    for key, entry in found.items():
        spec = (
            parse_entry(key, entry, Path(HERE), {"T": "t", "I": "i", "A": "a"}) if "${file:" not in str(entry) else None
        )
        assert spec is None or spec.warnings == ()


def test_a_file_of_variables_counts_where_its_program_reads_one() -> None:
    for key in ("envFile", "env_file"):
        for editor in EDITORS:
            document = {"mcpServers": {"x": {"command": "c", key: "a.env"}}}
            [server] = servers_of(document, ReferenceValues("/home/me", HERE, editor.shape))
            assert (server.env_file is not None) is (LIKE.get(editor.name, editor.name) in ("vscode", "cursor"))
    text = '{"servers": {"x": {"command": "c", "envFile": "${command:x}"}}}'
    assert "the editor alone" in str(taken("vscode", text)["x"].problem)


def test_a_list_of_tools_that_cannot_be_said_is_named() -> None:
    [slow] = [server for server in taken("opencode", OPENCODE).values() if server.name == "slow"]
    assert any("switches off read*" in note for note in slow.notes)


def test_a_projects_list_switches_off_the_servers_of_its_file_alone() -> None:
    text = '{"mcpServers": {"p": {"command": "c"}}, "disabledMcpjsonServers": ["p"]}'
    assert "disabled" not in taken("claude-code", text)["p"].entry
    assert taken("claude-code", text, own=False)["p"].entry["disabled"] is True


def test_the_file_of_somebody_else_reads_no_file() -> None:
    for name, text in (
        ("opencode", '{"mcp": {"a": {"type": "remote", "url": "https://x.org", "headers": {"X": "{file:~/.k}"}}}}'),
        ("windsurf", '{"mcpServers": {"a": {"serverUrl": "https://x.org", "headers": {"X": "${file:~/.k}"}}}}'),
    ):
        assert "out of your files" in str(taken(name, text, own=False)["a"].problem)
        assert taken(name, text)["a"].problem is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 90_000) | st.sampled_from([*TEXTS, "", "*", "a(b)"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "*", "name"]), inner, max_size=3)
    ),
    max_leaves=6,
)
STATES: Any = st.sampled_from(
    [
        {"disabled": True},
        {"enabled": False},
        {"disabled": 1},
        {"enabled": "false"},
        {"enabled": False, "disabled": False},
    ]
)
KEYS = (
    "args env environment headers timeout tools includeTools excludeTools disabledTools enabled_tools inherit_env "
    "env_vars envFile oauth auth transport type cwd startup_timeout_ms "
    "bearer_token_env_var env_http_headers isolation proxy"
).split()
ENTRY = st.fixed_dictionaries({"command": st.sampled_from(["c", *TEXTS])}, optional=dict.fromkeys(KEYS, VALUES))
NAMED = [each.name for each in EDITORS if each.places]


@given(
    st.sampled_from([None, *NAMED]),
    ENTRY,
    STATES | st.none(),
    st.booleans(),
    st.sampled_from(["nothing", "server", "tool"]),
)
def test_what_a_file_does_not_make_active_is_not_active_and_its_texts_read_nothing(
    name: str | None, entry: dict[str, Any], state: dict[str, Any] | None, own: bool, switched_off: str
) -> None:
    editor = None if name is None else editor_called(name)
    shape = None if editor is None else editor.shape
    lists: dict[str, Any] = {
        "server": {"mcp": {"excluded": ["x"]}, "disabledMcpServers": ["x"], "permissions": {"deny": ["mcp__x"]}},
        "tool": {"mcp": {}, "tools": {"x_t": False}, "permissions": {"deny": ["mcp__x__t"]}},
    }
    document = {"mcpServers": {"x": {**entry, **(state or {})}}, **lists.get(switched_off, {})}
    around = ReferenceValues("/home/me", HERE, shape, "/home/me/cfg" if own else None)
    [server] = servers_of(document, around)
    server = without_excluded(server, exclusions_in(document, ["x"]), in_project=not own)
    if server.problem is not None:
        return
    if state is not None or switched_off == "server":
        assert server.entry["disabled"] is True
    if switched_off == "tool" and "disabled" not in server.entry:
        assert "t" in server.entry["disabled_tools"]
    read = {key: value for key, value in server.entry.items() if key in REFERRING}
    references = [each for text in texts_in(read) for each in references_in(text)]
    assert all(each.startswith("env:") or (own and each.startswith("file:")) for each in references)
    if shape is not None and not shape.bearer_variable:
        assert "inherit_env" not in server.entry
    try:
        parse_entry("x", server.entry, Path(HERE), {"A": "a", "b": "b"})
    except EntryError:
        pass


def test_a_path_of_keys_leads_to_its_value() -> None:
    assert inside({"a": {"b": [1]}}, ("a", "b")) == [1]
    assert inside({"a": 1}, ("a", "b")) is None
