"""Files of servers that cannot be read, entries that cannot be used or mean something else, approvals that lack."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config import TrustStore
from gaia_bridge_desk.doctor.configuration import CONFIGURATION, TRUST
from tests.desk.doctor.looking import bad, by_id, has_servers, look, repaired

SECRET = "sk-0123456789abcdefghij"


def test_no_servers_are_told_with_what_adds_one() -> None:
    found = by_id(look(CONFIGURATION))
    assert set(found) == {"config.none"} and found["config.none"].remedy.startswith("gaia-bridge add ")


def test_servers_that_can_be_used_are_fine() -> None:
    has_servers({"a": {"command": "x"}, "b": {"url": "https://x.org/mcp"}})
    [finding] = look(CONFIGURATION)
    assert finding.kind.id == "config.fine" and finding.message.startswith("2 servers in ")


@pytest.mark.parametrize("word", [".", "./server.py", "server.py", "--root=../x"])
def test_an_entry_that_names_something_in_the_folder_that_it_is_started_in_is_found(word: str) -> None:
    has_servers({"a": {"command": "x", "args": [word, "y"]}, "b": {"command": "x", "args": [word], "cwd": "/srv"}})
    [finding] = look(CONFIGURATION)
    assert (finding.kind.id, finding.about) == ("config.relative", "a")
    assert repr(word.partition("=")[2] or word) in finding.message and '"cwd"' in finding.remedy


def test_a_file_that_is_not_json_is_found_with_its_place() -> None:
    file = has_servers({})
    file.write_text('{"mcpServers": {\n', encoding="utf-8")
    assert f"{file}:2:1" in by_id(look(CONFIGURATION))["config.broken"].message


def test_a_file_without_servers_and_one_that_is_not_there_are_found() -> None:
    has_servers({}).write_text('{"server": {}}', encoding="utf-8")
    assert bad(look(CONFIGURATION)) == {"config.doubtful"}
    assert bad(look(CONFIGURATION, config=Path("nowhere.json"))) == {"config.no-file"}


def test_entries_that_cannot_be_used_or_refer_to_what_is_missing_are_found_by_name() -> None:
    has_servers(
        {
            "both": {"command": "x", "url": "http://x"},
            "variable": {"command": "x", "env": {"A": "${env:NOWHERE}"}},
            "file": {"command": "x", "env": {"A": "${file:/nowhere}"}},
            "odd": {"command": "x", "argss": [SECRET]},
            "off": {"command": "x", "disabled": True},
        }
    )
    found = look(CONFIGURATION)
    assert {(finding.kind.id, finding.about) for finding in found} == {
        ("config.unusable", "both"),
        ("config.missing", "variable"),
        ("config.missing", "file"),
        ("config.doubtful", "odd"),
        ("config.disabled", "off"),
    }
    assert "NOWHERE" in by_id(found)["config.missing"].message and SECRET not in repr(found)
    assert [finding.about for finding in look(CONFIGURATION, server="odd")] == ["odd"]


def test_a_server_that_nobody_has_configured_is_found() -> None:
    has_servers({"files": {"command": "x"}})
    assert "did you mean 'files'?" in by_id(look(CONFIGURATION, server="flies"))["config.unknown-server"].message


def test_a_keyring_whose_package_is_not_installed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    has_servers({"a": {"command": "x", "env": {"A": "${keyring:s/n}"}}})

    def nothing(name: str) -> None:
        assert name == "keyring"

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    assert "keyring" in by_id(look(CONFIGURATION))["config.no-keyring"].remedy


def test_a_secret_that_others_can_read_is_found_and_closed_to_them_in_ones_own_file() -> None:
    servers = {"a": {"command": "x", "env": {"API_KEY": SECRET}}}
    file = has_servers(servers, mode=0o644)
    found = by_id(look(CONFIGURATION))
    assert SECRET not in repr(found)
    repaired(found["config.open-secret"])
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()
    has_servers(servers, "mcp_servers.json", 0o644)
    TrustStore().approve(Path("mcp_servers.json").absolute(), "a", servers["a"])
    assert by_id(look(CONFIGURATION))["config.open-secret"].repair is None


def test_what_a_project_lists_is_found_until_it_is_approved() -> None:
    assert set(by_id(look(TRUST))) == {"trust.fine"}
    entry = {"command": "x", "args": ["it's"]}
    has_servers({"my files": entry}, "mcp_servers.json")
    finding = by_id(look(TRUST))["trust.unapproved"]
    assert finding.remedy == "gaia-bridge trust 'my files'"
    TrustStore().approve(Path("mcp_servers.json").absolute(), "my files", entry)
    assert set(by_id(look(TRUST))) == {"trust.fine"}


def test_approvals_that_cannot_be_read_are_found() -> None:
    has_servers({"a": {"command": "x"}}, "mcp_servers.json")
    Path(".gaia").mkdir()
    Path(".gaia/trust.json").write_text("{", encoding="utf-8")
    assert "trust.json:1:2" in by_id(look(TRUST))["trust.unreadable"].message
    assert bad(look(TRUST)) == {"trust.unreadable"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=10), _JSON, max_size=3))
def test_whatever_is_configured_is_judged(servers: object) -> None:
    Path(".gaia").mkdir(exist_ok=True)
    Path(".gaia/mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    assert look(CONFIGURATION) and look(TRUST)
