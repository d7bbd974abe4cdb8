"""The user's file and the project's together, and edits that touch only the file that is meant."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_bridge.config import LayerKind, LayerState, ServersConfig, TrustStore
from gaia_bridge.config.documents import to_text
from gaia_bridge.config.launching.workplaces import own_folder
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.text.json_types import JSON

A, B, C = ({"command": command} for command in "abc")
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),  # half surrogates too
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True)


def global_file() -> Path:
    return Path(os.environ["HOME"], ".gaia", "mcp_servers.json")


def written(file: Path, content: JSON | str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def everywhere(servers: JSON | str) -> Path:
    """Write the global file."""
    return written(global_file(), {"mcpServers": servers} if not isinstance(servers, str) else servers)


def content(file: Path) -> JSON:
    document: JSON = json.loads(file.read_text(encoding="utf-8"))
    return document


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; returns where its file would be."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mcp_servers.json"


@pytest.mark.requirement("S3-1")
def test_global_servers_load_where_there_is_no_local_file(project: Path) -> None:
    everywhere({"a": A, "b": B})
    assert ServersConfig().entries == {"a": A, "b": B}


@pytest.mark.requirement("S3-2")
@pytest.mark.parametrize("other", [None, {}])
def test_local_servers_load_where_the_global_file_is_absent_or_empty(project: Path, other: JSON | None) -> None:
    if other is not None:
        everywhere(other)
    written(project, {"mcpServers": {"a": A}})
    assert ServersConfig().entries == {"a": A}


@pytest.mark.requirement("S3-3")
def test_two_files_add_up(project: Path) -> None:
    everywhere({"a": A})
    written(project, {"mcpServers": {"b": B}})
    assert list(ServersConfig().entries.items()) == [("a", A), ("b", B)]


@pytest.mark.requirement("S3-4")
def test_a_local_entry_replaces_a_global_one_as_a_whole(project: Path) -> None:
    everywhere({"a": {"command": "global", "env": {"SECRET": "x"}}, "b": B})
    written(project, {"mcpServers": {"a": {"command": "local"}}})
    config = ServersConfig()
    assert config.entries == {"a": {"command": "local"}, "b": B}
    report = config.resolve()
    assert report.servers == (StdioServerSpec("b", "b", cwd=own_folder("b")), StdioServerSpec("a", "local"))
    assert [layer.overridden for layer in report.layers] == [("a",), ()]


@pytest.mark.requirement("S3-4")
def test_a_local_entry_that_cannot_be_used_hides_the_global_one_all_the_same(project: Path) -> None:
    everywhere({"a": A})
    written(project, {"mcpServers": {"a": {"args": []}}})
    report = ServersConfig().resolve()
    assert report.servers == ()
    assert [name for name, _ in report.skipped] == ["a"]


@pytest.mark.requirement("F-272", "S-25")
@pytest.mark.parametrize("entry", [B, {"args": []}, 5, None])
def test_a_local_entry_that_is_not_approved_leaves_the_global_one_in_force(project: Path, entry: Any) -> None:
    everywhere({"a": A})
    written(project, {"mcpServers": {"a": entry}})
    report = ServersConfig().resolve(trust=TrustStore())
    assert [(spec.name, spec.command) for spec in report.servers if isinstance(spec, StdioServerSpec)] == [("a", "a")]
    [(name, reason)] = report.skipped
    assert name == "a"
    assert reason.endswith(f"until then, that of {global_file()} counts")
    assert [layer.overridden for layer in report.layers] == [(), ()]


@pytest.mark.requirement("S3-5")
def test_no_file_is_an_empty_configuration(project: Path) -> None:
    config = ServersConfig()
    assert config.entries == {}
    assert [layer.state for layer in config.layers] == [LayerState.ABSENT] * 2
    assert config.resolve().errors == ()
    assert not global_file().parent.exists()


@pytest.mark.requirement("S3-6")
def test_an_explicit_file_stands_alone(project: Path, tmp_path: Path) -> None:
    everywhere({"a": A})
    written(project, {"mcpServers": {"b": B}})
    config = ServersConfig(written(tmp_path / "explicit.json", {"mcpServers": {"c": C}}))
    assert config.entries == {"c": C}
    assert config.add("d", A) == tmp_path / "explicit.json"
    assert content(tmp_path / "explicit.json") == {"mcpServers": {"c": C, "d": A}}
    assert (content(global_file()), content(project)) == ({"mcpServers": {"a": A}}, {"mcpServers": {"b": B}})


@pytest.mark.requirement("S3-7", "S3-16")
def test_a_new_entry_goes_to_the_local_file_if_there_was_one(project: Path) -> None:
    everywhere({"a": A})
    assert ServersConfig().add("b", B) == global_file()
    written(project, {"mcpServers": {}})
    config = ServersConfig()
    assert config.add("c", C) == project
    assert (content(global_file()), content(project)) == ({"mcpServers": {"a": A, "b": B}}, {"mcpServers": {"c": C}})
    assert config.entries == {"a": A, "b": B, "c": C}


@pytest.mark.requirement("S3-7")
def test_where_entries_go_is_settled_when_the_files_are_read(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ServersConfig()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    config.add("x", C, to=LayerKind.LOCAL)
    config.add("a", A)
    assert (content(project), content(global_file())) == ({"mcpServers": {"x": C}}, {"mcpServers": {"a": A}})
    config.reload()
    assert config.add("b", B) == project


@pytest.mark.requirement("S3-7", "S3-16")
def test_the_file_can_be_chosen(project: Path) -> None:
    written(project, {"mcpServers": {}})
    config = ServersConfig()
    assert config.add("a", A, to=LayerKind.GLOBAL) == global_file()
    assert config.add("a", B, to=LayerKind.LOCAL) == project
    assert (content(global_file()), content(project)) == ({"mcpServers": {"a": A}}, {"mcpServers": {"a": B}})
    with pytest.raises(ConfigError, match="the explicit file: is not in use here"):
        config.add("b", B, to=LayerKind.EXPLICIT)


@pytest.mark.requirement("S3-8")
def test_an_edit_touches_only_the_file_that_has_the_entry(project: Path) -> None:
    everywhere({"a": {"command": "a", "env": {"TOKEN": "s3cr3t"}}, "b": B})
    written(project, {"mcpServers": {"c": C}})
    config, local = ServersConfig(), project.read_bytes()
    config.set_disabled("a", True)
    config.add("b", A, replace=True)
    assert content(global_file())["mcpServers"] == {
        "a": {"command": "a", "env": {"TOKEN": "s3cr3t"}, "disabled": True},
        "b": A,
    }
    assert config.remove("a") == (global_file(),)
    assert project.read_bytes() == local
    before = global_file().read_bytes()
    config.add("d", A)
    config.remove("c")
    assert global_file().read_bytes() == before
    assert content(project) == {"mcpServers": {"d": A}}


@pytest.mark.requirement("S3-8")
def test_what_is_removed_is_gone_from_every_file(project: Path) -> None:
    everywhere({"a": A, "b": B})
    written(project, {"mcpServers": {"a": C}})
    config = ServersConfig()
    assert config.remove("a", of=LayerKind.LOCAL) == (project,)
    assert config.entries["a"] == A
    config.add("a", C, to=LayerKind.LOCAL)
    assert config.remove("a") == (global_file(), project)
    assert config.entries == {"b": B}
    assert config.remove("a") == ()


@pytest.mark.requirement("S3-9", "S0-47")
def test_the_old_key_is_read_in_either_file_and_written_as_the_new_one(project: Path) -> None:
    written(global_file(), {"first": 1, "servers": {"a": A}, "last": 2})
    written(project, {"servers": {"b": B}})
    config = ServersConfig()
    assert config.entries == {"a": A, "b": B}
    config.remove("a")
    config.add("c", C)
    assert list(content(global_file()).items()) == [("first", 1), ("mcpServers", {}), ("last", 2)]
    assert content(project) == {"mcpServers": {"b": B, "c": C}}


def test_the_old_key_beside_the_new_one_is_somebody_elses(project: Path) -> None:
    written(project, {"servers": {"a": A}, "mcpServers": {"b": B}})
    config = ServersConfig()
    assert config.entries == {"b": B}
    config.remove("b")
    assert content(project) == {"servers": {"a": A}, "mcpServers": {}}


@pytest.mark.requirement("S3-21", "F-099")
def test_a_broken_file_is_reported_and_the_other_one_loads(project: Path) -> None:
    everywhere({"a": A})
    written(project, '{"mcpServers": {"b": ')
    config = ServersConfig()
    report = config.resolve()
    assert report.servers == (StdioServerSpec("a", "a", cwd=own_folder("a")),)
    assert [layer.layer.state for layer in report.layers] == [LayerState.LOADED, LayerState.FAILED]
    [error] = report.errors
    assert error.place == f"{project}:1:22"
    with pytest.raises(ConfigError, match=str(project)):
        config.add("c", C)
    assert project.read_text(encoding="utf-8") == '{"mcpServers": {"b": '
    assert config.add("c", C, to=LayerKind.GLOBAL) == global_file()
    written(project, {"mcpServers": {}})
    assert config.add("d", A) == project


@pytest.mark.requirement("S3-21")
def test_a_broken_global_file_does_not_stop_the_local_one(project: Path) -> None:
    everywhere("[]")
    written(project, {"mcpServers": {"b": B}})
    config = ServersConfig()
    assert config.entries == {"b": B}
    assert config.remove("b") == (project,)
    assert global_file().read_text(encoding="utf-8") == "[]"


@pytest.mark.requirement("F-099d")
def test_a_link_to_nothing_is_reported_and_not_replaced(project: Path) -> None:
    project.symlink_to("nowhere.json")
    config = ServersConfig()
    assert config.layers[1].state is LayerState.FAILED
    with pytest.raises(ConfigError, match="No such file"):
        config.add("a", A)
    assert project.is_symlink()


def test_started_in_the_users_own_folder_there_is_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = everywhere({"a": A})
    monkeypatch.chdir(file.parent)
    config = ServersConfig()
    assert [(layer.kind, layer.path) for layer in config.layers] == [(LayerKind.GLOBAL, file)]
    assert config.add("b", B) == file


def test_without_a_home_folder_the_local_file_loads(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(path: Path) -> Path:
        raise RuntimeError("no home folder")

    written(project, {"mcpServers": {"b": B}})
    monkeypatch.setattr(Path, "expanduser", nobody)
    config = ServersConfig()
    assert config.entries == {"b": B}
    assert "there is no home folder" in str(config.resolve().errors[0])
    with pytest.raises(ConfigError, match="there is no home folder"):
        config.add("a", A, to=LayerKind.GLOBAL)


def test_without_a_current_folder_the_global_file_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere({"a": A})
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    config = ServersConfig()
    assert config.entries == {"a": A}
    assert "current folder" in str(config.resolve().errors[0])
    with pytest.raises(ConfigError, match="current folder"):
        config.add("b", B, to=LayerKind.LOCAL)
    assert ServersConfig(Path("relative.json")).layers[0].state is LayerState.FAILED


@pytest.mark.requirement("F-098")
@pytest.mark.parametrize("name", ["", "..", "-rf", "a\nb", "x" * 129])
def test_an_impossible_name_is_not_written(project: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="the name of a server has 1 to 128 characters"):
        ServersConfig().add(name, A)
    assert not global_file().exists()


def test_a_name_with_blanks_and_slashes_is_written_found_disabled_and_removed(project: Path) -> None:
    name = "@scope/my server"
    config = ServersConfig()
    config.add(name, A)
    assert [spec.name for spec in config.resolve().servers] == [name]
    config.set_disabled(name, True)
    assert config.resolve().skipped == ((name, "disabled"),)
    assert config.remove(name) == (global_file(),)
    assert config.entries == {}


def test_what_has_to_be_approved_is_named_as_a_shell_takes_it(project: Path) -> None:
    written(project, {"mcpServers": {"my server": A}})
    [skipped] = ServersConfig().resolve(trust=TrustStore()).skipped
    assert skipped.name == "my server"
    assert skipped.reason.endswith("run: gaia-bridge trust 'my server'")


def test_what_is_no_json_is_not_written(project: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written as JSON"):
        ServersConfig().add("a", {"command": object()})
    with pytest.raises(ConfigError, match="cannot be written as JSON"):
        ServersConfig().add("a", {"command": "a", "timeout": float("nan")})
    assert not global_file().exists()


def test_a_name_that_is_taken_is_replaced_only_on_request(project: Path) -> None:
    everywhere({"a": A})
    config = ServersConfig()
    with pytest.raises(ConfigError, match="there is a server 'a' already"):
        config.add("a", B)
    assert config.entries == {"a": A}
    config.add("a", B, replace=True)
    assert config.entries == {"a": B}


def test_what_another_process_wrote_meanwhile_is_kept(project: Path) -> None:
    everywhere({"a": A})
    config = ServersConfig()
    everywhere({"a": B, "b": B})
    config.add("c", C)
    assert content(global_file()) == {"mcpServers": {"a": B, "b": B, "c": C}}
    with pytest.raises(ConfigError, match="already"):
        ServersConfig().add("b", A)
    everywhere({})
    assert config.remove("a") == ()


def test_a_server_is_disabled_and_enabled_where_it_stands(project: Path) -> None:
    everywhere({"a": {"disabled": False, "command": "a"}, "b": B})
    config = ServersConfig()
    assert config.set_disabled("a", True) == global_file()
    config.set_disabled("b", True)
    assert [list(entry.items()) for entry in content(global_file())["mcpServers"].values()] == [
        [("disabled", True), ("command", "a")],
        [("command", "b"), ("disabled", True)],
    ]
    assert config.resolve().servers == ()
    assert config.resolve().skipped == (("a", "disabled"), ("b", "disabled"))
    config.set_disabled("a", False)
    assert content(global_file())["mcpServers"]["a"] == {"disabled": False, "command": "a"}
    with pytest.raises(ConfigError, match="no configured server has that name"):
        config.set_disabled("c", True)


def test_an_entry_that_is_no_object_is_not_disabled(project: Path) -> None:
    everywhere({"a": "npx"})
    with pytest.raises(ConfigError, match="no object"):
        ServersConfig().set_disabled("a", True)
    assert content(global_file()) == {"mcpServers": {"a": "npx"}}


def test_what_is_handed_out_is_a_copy(project: Path) -> None:
    everywhere({"a": {"command": "a", "args": []}})
    config = ServersConfig()
    config.entries["a"]["args"].append("x")
    assert config.entries == {"a": {"command": "a", "args": []}}


@pytest.mark.requirement("S-36")
def test_no_value_is_in_a_repr(project: Path) -> None:
    everywhere({"a": {"command": "a", "env": {"TOKEN": "s3cr3t", "OTHER": "${T}"}}})
    config = ServersConfig()
    report = config.resolve({"T": "an0ther"})
    assert report.secrets == {"an0ther"}
    assert "s3cr3t" not in repr(report) + repr(config.layers)
    assert "an0ther" not in repr(report)


def test_warnings_name_the_file_and_the_server(project: Path) -> None:
    everywhere({"a": {"command": "a", "autoApprove": []}})
    assert ServersConfig().resolve().warnings == (f"{global_file()}: server a: 'autoApprove' is not known",)


def test_an_entry_that_is_no_entry_needs_another_one_and_no_approval(project: Path) -> None:
    written(project, {"mcpServers": {"a": [1], "b": None}})
    report = ServersConfig().resolve({}, TrustStore())
    assert report.skipped == (
        ("a", "the entry is a list; expected an object"),
        ("b", "the entry is null; expected an object"),
    )


@pytest.mark.requirement("S-25", "C-19")
def test_a_projects_servers_count_only_when_approved(project: Path) -> None:
    everywhere({"a": A})
    entry = {"command": "c", "env": {"TOKEN": "${file:/absent}"}}
    written(project, {"mcpServers": {"b": {**B, "trusted": True}, "c": entry, "d": {**C, "disabled": True}}})
    config, trust = ServersConfig(), TrustStore()
    report = config.resolve({}, trust)
    assert report.servers == (StdioServerSpec("a", "a", cwd=own_folder("a")),)
    assert [(name, reason.rpartition("run: ")[2]) for name, reason in report.skipped] == [
        ("b", "gaia-bridge trust b"),
        ("c", "gaia-bridge trust c"),  # and its file was not looked for
        ("d", "disabled"),
    ]
    trust.approve(project, "b", {**B, "trusted": True})
    assert [spec.name for spec in config.resolve({}, trust).servers] == ["a", "b"]
    config.add("b", {**B, "args": ["-x"]}, replace=True)
    assert [spec.name for spec in config.resolve({}, trust).servers] == ["a"]
    assert [spec.name for spec in config.resolve({}).servers] == ["a", "b"]
    assert [spec.name for spec in ServersConfig(project).resolve({}, trust).servers] == ["b"]


@pytest.mark.requirement("F-099a", "S0-49")
@settings(deadline=None)
@given(
    before=st.dictionaries(st.text(), JSON_VALUES, max_size=3),
    after=st.dictionaries(st.text(), JSON_VALUES, max_size=3),
    servers=st.dictionaries(NAMES, JSON_VALUES, max_size=4),
    name=NAMES,
)
def test_an_edit_keeps_everything_else_and_its_order(before: JSON, after: JSON, servers: JSON, name: str) -> None:
    document = {**before, "mcpServers": servers, **{key: value for key, value in after.items() if key != "mcpServers"}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "servers.json")
        file.write_text(json.dumps(document), encoding="utf-8")
        config = ServersConfig(file)
        config.add(name, A, replace=True)
        expected: Any = {**document, "mcpServers": {**servers, name: A}}
        assert file.read_text(encoding="utf-8") == to_text(expected)
        assert json.dumps(content(file)) == json.dumps(expected)
        config.remove(name)
        expected["mcpServers"].pop(name)
        assert json.dumps(content(file)) == json.dumps(expected)


@pytest.mark.requirement("S0-49")
@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
def test_a_file_keeps_its_indentation(project: Path, indent: str) -> None:
    written(project, json.dumps({"mcpServers": {"a": A}}, indent=indent) + "\n")
    ServersConfig().add("b", {"command": "é"})
    assert project.read_text(encoding="utf-8") == (
        json.dumps({"mcpServers": {"a": A, "b": {"command": "é"}}}, indent=indent, ensure_ascii=False) + "\n"
    )
