"""Which servers `serve` starts: what is wrong with one file costs only the servers that need it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from gaia_bridge.bridge.configured_servers import ConfiguredServers
from gaia_bridge.config import TrustStore
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import ServerSpec, StdioServerSpec
from gaia_bridge.text.json_types import JSON

ENTRY = {"command": "a"}


def of_the_user(name: str, content: JSON | str) -> Path:
    return written(Path(os.environ["HOME"], ".gaia", name), content)


def written(file: Path, content: JSON | str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    file.chmod(0o600)
    return file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; returns where its file would be."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mcp_servers.json"


def names(configured: ConfiguredServers) -> list[str]:
    return [spec.name for spec in configured.first()]


def commands(specs: Iterable[ServerSpec]) -> dict[str, str]:
    return {spec.name: spec.command for spec in specs if isinstance(spec, StdioServerSpec)}


@pytest.mark.parametrize("content", ["", "no json", '{"approved": []}'])
def test_approvals_that_cannot_be_read_matter_to_nobody_who_needs_none(project: Path, content: str) -> None:
    of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    approvals = of_the_user("trust.json", content)
    configured = ConfiguredServers(None)
    assert names(configured) == ["a"]
    assert configured.files[-1] == approvals
    assert [spec.name for spec in configured.again()] == ["a"]


@pytest.mark.requirement("S-25", "C-19")
@pytest.mark.parametrize(("content", "mode"), [("no json", 0o600), ('{"approved": {}}', 0o666)])
def test_approvals_that_cannot_be_read_leave_out_the_servers_of_the_project_and_say_why(
    project: Path, caplog: pytest.LogCaptureFixture, content: str, mode: int
) -> None:
    of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    written(project, {"mcpServers": {"b": ENTRY, "c": {"command": "c", "disabled": True}}})
    approvals = of_the_user("trust.json", content)
    approvals.chmod(mode)
    with caplog.at_level(logging.WARNING):
        assert names(ConfiguredServers(None)) == ["a"]
    [text] = [record.getMessage() for record in caplog.records]
    assert text.startswith(f"{project}: server b is left out: ")
    assert str(approvals) in text


@pytest.mark.requirement("F-117")
def test_what_runs_stays_when_the_approvals_cannot_be_read_any_more(project: Path) -> None:
    written(project, {"mcpServers": {"b": ENTRY}})
    TrustStore().approve(project, "b", ENTRY)
    approvals = TrustStore().path
    kept = approvals.read_text(encoding="utf-8")
    configured = ConfiguredServers(None)
    assert names(configured) == ["b"]
    approvals.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=str(approvals)):
        configured.again()
    approvals.write_text(kept, encoding="utf-8")
    assert [spec.name for spec in configured.again()] == ["b"]


def test_a_user_without_a_home_folder_is_served_what_needs_no_approval(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    written(project, {"mcpServers": {"b": ENTRY}})
    configured = ConfiguredServers(None)
    with caplog.at_level(logging.WARNING):
        assert names(configured) == []
    assert configured.files[-1] == project
    assert any("server b is left out" in record.getMessage() for record in caplog.records)


def test_a_file_that_is_named_needs_no_approvals(project: Path) -> None:
    file = written(project.with_name("own.json"), {"mcpServers": {"b": ENTRY}})
    of_the_user("trust.json", "no json")
    configured = ConfiguredServers(file)
    assert names(configured) == ["b"]
    assert configured.files[0] == file
    assert [spec.name for spec in configured.again()] == ["b"]


def test_what_is_left_out_is_kept_with_its_reason_and_what_nobody_wants_is_not(project: Path) -> None:
    file = of_the_user("mcp_servers.json", {"mcpServers": {"bad": {}, "off": {"command": "a", "disabled": True}}})
    written(project, {"mcpServers": {"b": ENTRY}})
    configured = ConfiguredServers(None)
    assert names(configured) == []
    assert [(item.kind, item.name) for item in configured.left_out] == [("server", "bad"), ("server", "b")]
    assert "gaia-bridge trust" in configured.left_out[1].reason
    TrustStore().approve(project, "b", ENTRY)
    file.unlink()
    configured.again()
    assert configured.left_out == ()
    of_the_user("mcp_servers.json", "no json")
    configured = ConfiguredServers(None)
    assert names(configured) == ["b"]
    [left_out] = configured.left_out
    assert (left_out.kind, left_out.name) == ("file", f"{file}:1:1")


CHANGED = {"command": "b"}


@pytest.mark.requirement("F-261", "S-25")
@pytest.mark.parametrize("linked", [False, True])
def test_what_changes_where_agents_work_while_it_is_served_needs_an_approval(
    project: Path, caplog: pytest.LogCaptureFixture, linked: bool
) -> None:
    file = real = project.with_name("own.json")
    if linked:
        file = Path(os.environ["HOME"], "own.json")
        file.symlink_to(real)
    written(real, {"mcpServers": {"a": ENTRY, "b": ENTRY}})
    configured = ConfiguredServers(file)
    assert names(configured) == ["a", "b"]
    written(real, {"mcpServers": {"a": {**ENTRY, "timeout": 5}, "b": CHANGED, "c": ENTRY}})
    with caplog.at_level(logging.WARNING):
        assert commands(configured.again()) == {"a": "a", "b": "a"}  # as it was approved
    changed, new = configured.left_out
    assert (changed.kind, changed.name, new.kind, new.name) == ("change", "b", "server", "c")
    assert changed.reason.endswith(f"until: gaia-bridge trust --config {file} b")
    assert new.reason.endswith("run: gaia-bridge trust --config FILE c")
    assert "server c is left out" in caplog.text
    TrustStore().approve(file, "b", CHANGED)
    assert commands(configured.again()) == {"a": "a", "b": "b"}
    written(real, {"mcpServers": {"a": ENTRY, "b": ENTRY}})
    assert commands(configured.again()) == {"a": "a", "b": "a"}
    written(real, {"mcpServers": {"a": CHANGED}})
    assert commands(configured.again()) == {"a": "a"}


PROGRAM = {"command": "./run.sh"}
ELSEWHERE = {"command": "elsewhere"}


@pytest.fixture
def approved(project: Path) -> ConfiguredServers:
    """A project with the server `a`, which runs a file of it, approved and started; another `a` is the user's own."""
    of_the_user("mcp_servers.json", {"mcpServers": {"a": ELSEWHERE}})
    written(project.with_name("run.sh"), "one")
    written(project, {"mcpServers": {"a": PROGRAM}})
    TrustStore().approve(project, "a", PROGRAM)
    configured = ConfiguredServers(None)
    assert commands(configured.first()) == {"a": "./run.sh"}
    return configured


@pytest.mark.requirement("F-360")
def test_a_program_that_was_changed_is_used_as_it_was_approved_and_not_started_again(
    project: Path, approved: ConfiguredServers, caplog: pytest.LogCaptureFixture
) -> None:
    [before] = approved.again()
    assert approved.refusal(before) is None
    written(project.with_name("run.sh"), "two")
    with caplog.at_level(logging.WARNING):
        assert list(approved.again()) == [before]
        assert list(approved.again()) == [before]
    said = "was changed since it was approved; the approved version runs until it is restarted: gaia-bridge trust a"
    assert caplog.text.count(said) == 1
    assert [(item.kind, item.name) for item in approved.left_out] == [("change", "a")]
    assert approved.refusal(before) == "it was changed since it was approved; run: gaia-bridge trust a"
    written(project.with_name("run.sh"), "one")
    assert list(approved.again()) == [before]
    assert (approved.left_out, approved.refusal(before)) == ((), None)


@pytest.mark.requirement("F-360")
def test_a_changed_program_that_is_approved_is_another_server(project: Path, approved: ConfiguredServers) -> None:
    [before] = approved.again()
    written(project.with_name("run.sh"), "two")
    approved.again()
    TrustStore().approve(project, "a", PROGRAM)
    [after] = approved.again()
    assert after != before
    assert (approved.refusal(after), approved.refusal(before)) == (None, "its entry is another one now")


@pytest.mark.requirement("F-360", "S-25")
@pytest.mark.parametrize("changed_before", [False, True])
@pytest.mark.parametrize("how", ["revoked", "removed", "disabled", "another"])
def test_what_is_wanted_no_more_ends_and_what_was_changed_goes_on_as_it_was(
    project: Path, approved: ConfiguredServers, how: str, changed_before: bool
) -> None:
    if changed_before:
        written(project.with_name("run.sh"), "two")
        approved.again()
    if how == "revoked":
        TrustStore().revoke(project, "a")
    else:
        changes: JSON = {"disabled": {**PROGRAM, "disabled": True}, "another": {"command": "b"}}
        written(project, {"mcpServers": {"a": changes[how]} if how in changes else {}})
    expected = {"another": {"a": "./run.sh"}, "disabled": {}}
    assert commands(approved.again()) == expected.get(how, {"a": "elsewhere"})


@pytest.mark.requirement("F-360", "C-19")
def test_a_server_whose_approval_cannot_be_read_is_not_started(project: Path, approved: ConfiguredServers) -> None:
    [spec] = approved.again()
    of_the_user("trust.json", "{")
    assert "whether it was approved cannot be told" in str(approved.refusal(spec))


@pytest.mark.requirement("F-261")
def test_what_changes_where_no_agent_works_needs_none(project: Path) -> None:
    file = written(Path(os.environ["HOME"], "own.json"), {"mcpServers": {"a": ENTRY}})
    everywhere = of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    for changed, configured in ((file, ConfiguredServers(file)), (everywhere, ConfiguredServers(None))):
        configured.first()
        written(changed, {"mcpServers": {"a": CHANGED, "b": ENTRY}})
        assert [spec.name for spec in configured.again()] == ["a", "b"]


@pytest.mark.requirement("F-260")
def test_what_launch_lines_name_is_known(project: Path) -> None:
    for name in ("s.sh", "key", "x.py"):
        written(project.with_name(name), "")
    entry = {"command": "./s.sh", "args": ["--load=x.py", "${file:key}", "nothing"]}
    file = written(project.with_name("own.json"), {"mcpServers": {"a": entry}})
    own = {path.name for path in ConfiguredServers(file).own_files}
    assert own == {"own.json", "trust.json", "s.sh", "x.py", "key"}


@pytest.mark.requirement("F-265", "F-099c")
def test_a_file_that_others_can_write_starts_nothing(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    everywhere = of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    everywhere.chmod(0o666)
    configured = ConfiguredServers(None)
    assert names(configured) == []
    assert "other users can change what is started (mode 0666, expected 0600): run chmod go-w" in caplog.text
    assert [(item.kind, item.name) for item in configured.left_out] == [("file", str(everywhere))]
    with pytest.raises(ConfigError, match="mode 0666"):
        ConfiguredServers(everywhere).first()
    everywhere.chmod(0o600)
    assert [spec.name for spec in configured.again()] == ["a"]


@pytest.mark.requirement("C-18", "F-360")
@pytest.mark.parametrize("planted", ["raw.py", "raw/__main__.py", "typing.py"])
def test_a_named_file_in_the_served_folder_starts_no_module_that_came_later(project: Path, planted: str) -> None:
    file = written(project.with_name("own.json"), {"mcpServers": {"a": {"command": "python3", "args": ["-m", "raw"]}}})
    configured = ConfiguredServers(file)
    [spec] = configured.first()
    assert configured.refusal(spec) is None
    (project.parent / "notes.txt").touch()
    assert configured.refusal(spec) is None
    written(project.parent / planted, "")
    assert "it was changed since it was approved" in (configured.refusal(spec) or "")
    assert configured.again() == (spec,) and configured.left_out[0].kind == "change"
    TrustStore().approve(file, "a", {"command": "python3", "args": ["-m", "raw"]})
    assert configured.refusal(configured.again()[0]) is None
