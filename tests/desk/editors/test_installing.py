"""Whatever an editor's file is, it is changed as the user expects or left as it was, with the reason."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.editors import installing
from gaia_bridge_desk.editors.entries import address_entry, is_ours, merged, program_entry
from gaia_bridge_desk.editors.finding import editor_called, file_of, is_here, own_program, usual_place
from gaia_bridge_desk.editors.installing import FileChange, Wanted, plan_install, plan_remove, snippet, write
from gaia_bridge_desk.editors.table import EDITORS, Editor, FileScope
from tests.bridge.config.editing import leftovers

ENTRY = {"command": "/opt/gaia/bin/gaia-bridge", "args": ["connect"]}
WANTED = Wanted("gaia-bridge", ENTRY)


def editor(name: str) -> Editor:
    found = editor_called(name)
    assert found is not None
    return found


CURSOR, VSCODE, CODEX = editor("cursor"), editor("vscode"), editor("codex")


def file_with(content: str | bytes, name: str = "mcp.json") -> Path:
    path = Path("folder", name).absolute()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def install(path: Path, wanted: Wanted = WANTED, whose: Editor = CURSOR) -> FileChange:
    change = plan_install(whose, path, wanted)
    if change.is_one:
        write(change, shared=True)
    return change


def remove(path: Path, name: str = "gaia-bridge", whose: Editor = CURSOR) -> FileChange:
    change = plan_remove(whose, path, name)
    if change.is_one:
        write(change, shared=True)
    return change


def servers(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8-sig"))["mcpServers"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"{}",
        b"{ }\n",
        b"\xef\xbb\xbf{}\r\n",
        b"\xef\xbb\xbf",
        b'{\r\n\t"mcpServers": {\r\n\t\t"a": {"command": "a"}\r\n\t}\r\n}\r\n',
        b'{"mcpServers": {}}',
        b'{"other": [1, 2]}',
        b'{"mcpServers": {"a": {"command": "a"}}, "z": "\xc3\xbc \\ud800"}',
        b'{"a": ' + b"[" * 150 + b"]" * 150 + b"}",
        b'{"history": "' + b"x" * 3_000_000 + b'"}',
    ],
)
def test_any_well_formed_file_is_changed_once_and_put_back_byte_for_byte(content: bytes) -> None:
    path = file_with(content)
    change = install(path)
    assert servers(path)["gaia-bridge"] == ENTRY
    assert (b"\r\n" in path.read_bytes()) == (b"\r\n" in content)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == content.startswith(b"\xef\xbb\xbf")
    assert change.before == content
    assert not install(path).is_one
    remove(path)
    assert path.read_bytes() == content
    assert leftovers(path) == []
    assert os.listdir(path.parent) == [path.name]  # no lock either: projects are under version control


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"mcpServers": {', "is not valid JSON: line 1, column 17"),
        (b'{\n  "mcpServers": {},\n  "mcpServers": {}\n}', "'mcpServers' appears twice"),
        (b'{"mcpServers": {"a": {}, "a": {}}}', "'a' appears twice"),
        (b'{"mcpServers": []}', "'mcpServers' is no object of servers"),
        (b'{"mcpServers": null}', "'mcpServers' is no object of servers"),
        (b"[]", "it is no object"),
        (b'{"a": "\xff"}', "byte 8 is not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "byte 1 is not UTF-8"),
        (b"{" * 100_000, "is not valid JSON"),
        (b'{"mcpServers": {"gaia-bridge": {"command": "other"}}}', "there is a server 'gaia-bridge' already"),
        (b'{"mcpServers": {"gaia-bridge": 1}}', "there is a server 'gaia-bridge' already"),
    ],
)
def test_a_file_that_is_broken_or_has_another_server_of_that_name_is_left_alone(content: bytes, reason: str) -> None:
    path = file_with(content)
    with pytest.raises(ConfigError, match=reason):
        install(path)
    assert path.read_bytes() == content


def test_a_file_that_is_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "MAX_BYTES", 100)
    path = file_with('{"a": "' + "x" * 100 + '"}')
    with pytest.raises(ConfigError, match="larger than 100 bytes"):
        install(path)


def test_a_file_that_is_read_only_is_not_written() -> None:
    path = file_with("{}")
    path.chmod(0o444)
    with pytest.raises(ConfigError, match=r"read-only.*chmod u\+w"):
        install(path)
    assert (path.read_text(encoding="utf-8"), stat.S_IMODE(path.stat().st_mode)) == ("{}", 0o444)


def test_a_folder_a_dangling_link_and_a_pipe_are_none_of_its_files() -> None:
    folder = Path("folder").absolute()
    (folder / "mcp.json").mkdir(parents=True)
    (folder / "link.json").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.json")
    for name, reason in (
        ("mcp.json", "is a directory"),
        ("link.json", "No such file"),
        ("pipe.json", "is not a regular"),
    ):
        with pytest.raises(ConfigError, match=reason):
            install(folder / name)


def test_links_modes_and_owners_stay() -> None:
    path = file_with("{}")
    path.chmod(0o640)
    link = Path("link.json").absolute()
    link.symlink_to(path)
    install(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert not install(path).is_one
    remove(link)
    assert (link.is_symlink(), path.read_text(encoding="utf-8")) == (True, "{}")


def test_a_new_file_of_a_project_is_as_open_as_others_and_one_of_the_user_is_not() -> None:
    mask = os.umask(0o022)
    try:
        shared, own = Path("p/.cursor/mcp.json").absolute(), Path("h/.cursor/mcp.json").absolute()
        write(plan_install(CURSOR, shared, WANTED), shared=True)
        write(plan_install(CURSOR, own, WANTED), shared=False)
    finally:
        os.umask(mask)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (shared.parent, shared, own.parent, own)] == [
        0o755,
        0o644,
        0o700,
        0o600,
    ]


def test_a_file_of_ours_that_was_changed_between_the_plan_and_its_removal_is_not_removed() -> None:
    path = Path("folder", "mcp.json").absolute()
    install(path)
    change = plan_remove(CURSOR, path, "gaia-bridge")
    assert change.after is None
    path.write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(ConfigError, match="changed by somebody else just now"):
        write(change, shared=True)
    assert path.read_text("utf-8") == '{"a": 1}'


def test_what_was_changed_between_the_plan_and_the_writing_is_not_overwritten() -> None:
    path = file_with("{}")
    change = plan_install(CURSOR, path, WANTED)
    path.write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(ConfigError, match="changed by somebody else just now"):
        write(change, shared=True)
    assert path.read_text(encoding="utf-8") == '{"a": 1}'


def test_a_write_that_fails_leaves_the_file_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_with("{}")
    change = plan_install(CURSOR, path, WANTED)
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if Path(target) == path:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("gaia_bridge.config.file_editor.os.replace", full)
    with pytest.raises(ConfigError, match="No space left"):
        write(change, shared=True)
    assert path.read_text(encoding="utf-8") == "{}"
    assert leftovers(path) == []


def test_where_no_backup_can_be_kept_nothing_is_written() -> None:
    Path(".gaia").touch()
    for path in (file_with("{}"), Path("new/mcp.json").absolute()):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(ConfigError, match=r"\.gaia/backups.*nothing was changed"):
            install(path)
        assert (path.read_bytes() if path.exists() else None) == before


def test_what_the_user_added_to_the_entry_stays_when_it_is_written_anew() -> None:
    path = file_with('{"mcpServers": {}}')
    install(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["mcpServers"]["gaia-bridge"] |= {"disabled": True, "env": {"A": "1"}}
    path.write_text(json.dumps(document), encoding="utf-8")
    assert not install(path).is_one
    install(path, Wanted("gaia-bridge", {"command": "/new/gaia-bridge", "args": ["connect", "time"]}))
    assert servers(path)["gaia-bridge"] == {
        "command": "/new/gaia-bridge",
        "args": ["connect", "time"],
        "disabled": True,
        "env": {"A": "1"},
    }
    remove(path)
    assert servers(path) == {}


def test_comments_in_the_entry_stay_when_it_is_written_anew() -> None:
    entry = '{ // mine\n    "disabled": true, // for now\n    "command": "/old/gaia-bridge", "args": ["connect"]\n  }'
    path = file_with(f'{{"mcpServers": {{\n  "gaia-bridge": {entry}\n}}}}')
    before = path.read_text(encoding="utf-8")
    install(path, Wanted("gaia-bridge", {"command": "/new/gaia-bridge", "args": ["connect"]}))
    assert path.read_text(encoding="utf-8") == before.replace("/old/", "/new/")
    remove(path)
    assert path.read_text(encoding="utf-8") == before


def test_several_names_in_one_file_are_taken_out_in_any_order() -> None:
    for names in (("a", "b"), ("b", "a")):
        path = file_with('{\n  "x": 1 // one\n}\n')
        install(path, Wanted("a", ENTRY))
        install(path, Wanted("b", ENTRY))
        for name in names:
            remove(path, name)
        assert path.read_text(encoding="utf-8") == '{\n  "x": 1 // one\n}\n'
    made = Path("new/.cursor/mcp.json").absolute()
    for name in ("a", "b"):
        install(made, Wanted(name, ENTRY))
    for name in ("a", "b"):
        remove(made, name)
    assert not made.parent.parent.exists()


def test_a_file_that_was_made_stays_once_there_is_something_else_in_it() -> None:
    path = Path("folder/mcp.json").absolute()
    install(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["mcpServers"]["other"] = {"command": "x"}
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    install(path, Wanted("gaia-bridge", {"command": "/new/gaia-bridge", "args": []}))
    remove(path)
    assert servers(path) == {"other": {"command": "x"}}


@pytest.mark.parametrize("content", ["", "\n\n", "{ }\n", '{"mcpServers": {}}'])
def test_an_entry_that_was_written_anew_is_taken_out_without_a_trace_and_nothing_of_others_with_it(
    content: str,
) -> None:
    changed = Wanted("gaia-bridge", {"command": "/new/gaia-bridge", "args": []})
    path = file_with(content)
    install(path)
    install(path, changed)
    remove(path)
    assert path.read_text(encoding="utf-8") == content
    install(path)
    path.write_text(json.dumps({"mcpServers": {**servers(path), "other": {"command": "x"}}}), encoding="utf-8")
    install(path, changed)
    remove(path)
    assert servers(path) == {"other": {"command": "x"}}


def test_without_its_backup_a_change_is_undone_all_the_same() -> None:
    path = file_with('{"a": 1}')
    install(path)
    for backup in Path("~/.gaia/backups").expanduser().glob("*.bak-*"):
        backup.unlink()
    remove(path)
    assert path.read_text(encoding="utf-8") == '{"a": 1}'


def test_backups_are_kept_within_bounds_and_for_the_user_alone() -> None:
    path = file_with("{}")
    install(path)
    for number in range(25):
        install(path, Wanted("gaia-bridge", {"command": f"/{number}/gaia-bridge", "args": []}))
    backups = Path("~/.gaia/backups").expanduser()
    kept = sorted(backups.glob("*.bak-*"))
    assert len(kept) <= 21
    assert {stat.S_IMODE(file.stat().st_mode) for file in (backups, *kept)} == {0o700, 0o600}
    remove(path)
    assert path.read_text(encoding="utf-8") == "{}"


def test_an_entry_of_the_bridge_that_somebody_wrote_by_hand_is_taken_out_and_another_one_is_not() -> None:
    path = file_with('{"mcpServers": {"gaia-bridge": {"command": "uvx", "args": ["gaia-mcp-bridge", "connect"]}}}')
    remove(path)
    assert servers(path) == {}
    path = file_with('{"mcpServers": {"gaia-bridge": {"command": "other"}}}')
    with pytest.raises(ConfigError, match="is not the bridge"):
        remove(path)
    assert not remove(file_with("{}")).is_one
    assert not remove(Path("nowhere.json").absolute()).is_one


def test_the_input_for_a_token_comes_and_goes_with_the_entry_that_asks() -> None:
    text = '{\n\t"inputs": [\n\t\t{"id": "x"} // mine\n\t],\n\t"servers": {}\n}\n'
    for content in (text, "{}"):
        path = file_with(content)
        entry = address_entry(VSCODE.shape, "http://127.0.0.1:8765/mcp", token_input="t")
        assert entry is not None
        asking = Wanted("gaia-bridge", entry, {"id": "t", "type": "promptString"})
        install(path, asking, VSCODE)
        assert '"id": "t"' in path.read_text(encoding="utf-8")
        assert not install(path, asking, VSCODE).is_one
        install(path, Wanted("gaia-bridge", program_entry(VSCODE.shape, "/x/gaia-bridge", ["connect"])), VSCODE)
        assert '"id": "t"' not in path.read_text(encoding="utf-8")
        install(path, asking, VSCODE)
        path.write_text("// mine\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
        remove(path, whose=VSCODE)
        assert path.read_text(encoding="utf-8") == "// mine\n" + content
    assert '"promptString"' in snippet(VSCODE, asking)


def test_toml_that_is_broken_or_written_otherwise_is_left_alone() -> None:
    for content, reason in (
        (b"a = ", "is not valid TOML"),
        (b'mcp_servers = {a = {command = "x"}}\n', "not written as tables.*--print"),
        (b"mcp_servers = 1\n", "no object of servers"),
    ):
        path = file_with(content, "config.toml")
        with pytest.raises(ConfigError, match=reason):
            install(path, whose=CODEX)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "gaia-bridge", "args": ["serve"]}, True),
        ({"command": "/x/.venv/bin/gaia-bridge"}, True),
        ({"command": ["/x/gaia-bridge", "connect"]}, True),
        ({"command": {"path": "gaia-bridge", "args": []}}, True),
        ({"command": "uvx", "args": ["--from", "gaia-mcp-bridge==0.1", "gaia-bridge", "connect"]}, True),
        ({"command": "/usr/bin/python3.11", "args": ["-m", "gaia_bridge", "connect"]}, True),
        ({"url": "http://127.0.0.1:8765/mcp"}, True),
        ({"serverUrl": "http://localhost:8765/agents/code/mcp"}, True),
        ({"url": "unix:///run/user/1/gaia-bridge/default.sock#/mcp"}, True),
        ({"url": "http://127.0.0.1:9999/mcp"}, False),
        ({"url": "https://example.com:8765/mcp"}, False),
        ({"command": "npx", "args": ["gaia-bridge"]}, False),
        ({"command": "uvx", "args": ["other-server"]}, False),
        ({"command": "/x/gaia-bridge-tool"}, False),
        ({"command": 1, "args": {}, "url": "http://[::"}, False),
        ([], False),
        (None, False),
    ],
)
def test_the_bridge_is_told_from_other_servers(entry: object, ours: bool) -> None:
    assert is_ours(entry) is ours


def test_a_program_becomes_an_address_without_what_belongs_to_programs() -> None:
    old = {"type": "stdio", "command": "/x/gaia-bridge", "args": [], "env": {"A": "1"}, "autoApprove": ["x"]}
    new = {"type": "http", "url": "http://127.0.0.1:8765/mcp"}
    assert merged(old, new) == {**new, "autoApprove": ["x"]}
    assert merged(1, new) == new


def test_files_are_found_where_each_system_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path.home()
    place = usual_place(VSCODE, None)
    assert place is not None
    assert file_of(place, {}, "linux") == home / ".config/Code/User/mcp.json"
    assert file_of(place, {"XDG_CONFIG_HOME": "/c"}, "linux") == Path("/c/Code/User/mcp.json")
    assert file_of(place, {"XDG_CONFIG_HOME": "relative"}, "linux") == home / ".config/Code/User/mcp.json"
    assert file_of(place, {}, "darwin") == home / "Library/Application Support/Code/User/mcp.json"
    zed, codex = usual_place(editor("zed"), None), usual_place(CODEX, None)
    assert zed is not None and codex is not None
    assert file_of(zed, {}, "darwin") == home / ".config/zed/settings.json"
    assert file_of(codex, {"CODEX_HOME": "/c"}) == Path("/c/config.toml")
    workspace = usual_place(VSCODE, FileScope.WORKSPACE)
    assert workspace is not None
    assert file_of(workspace) == Path.cwd() / ".vscode/mcp.json"


def test_on_a_machine_that_is_worked_on_from_another_the_file_for_that_is_meant() -> None:
    remote = Path.home() / ".vscode-server/data/User"
    remote.mkdir(parents=True)
    place = usual_place(VSCODE, None)
    assert place is not None
    assert file_of(place) == remote / "mcp.json"
    (Path.home() / ".config/Code/User").mkdir(parents=True)
    place = usual_place(VSCODE, None)
    assert place is not None
    assert file_of(place) == Path.home() / ".config/Code/User/mcp.json"


def test_of_two_names_of_a_file_the_one_that_is_there_is_meant() -> None:
    opencode = usual_place(editor("opencode"), FileScope.WORKSPACE)
    assert opencode is not None
    assert file_of(opencode).name == "opencode.json"
    Path("opencode.jsonc").touch()
    assert file_of(opencode).name == "opencode.jsonc"


def test_an_editor_is_there_if_its_folder_or_its_command_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not [found.name for found in EDITORS if is_here(found)]
    (Path.home() / ".cursor").mkdir()
    (Path.home() / ".claude.json").touch()
    program = Path("bin/codex")
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent.absolute()))
    assert [found.name for found in EDITORS if is_here(found)] == ["cursor", "claude-code", "codex"]


def test_an_editor_is_called_by_its_name_or_title_in_any_spelling() -> None:
    assert [editor_called(name) for name in ("vscode", "VS Code", "vs-code")] == [VSCODE] * 3
    assert editor_called("emacs") is None
    assert len({found.name for found in EDITORS}) == len(EDITORS)


def test_our_program_is_named_by_its_whole_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [program] = own_program()
    assert os.path.isabs(program) and os.access(program, os.X_OK)
    monkeypatch.setattr("sysconfig.get_path", str(tmp_path).format)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert own_program() == [str(tmp_path / "python"), "-P", "-m", "gaia_bridge"]
