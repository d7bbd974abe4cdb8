"""Nothing outside of the root is read or written, whatever the path (S-35)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_agents.workspace import PathError, Workspace, open_workspace
from gaia_bridge.errors import ConfigError, ToolError
from tests.support.workspaces import write_files

LIMIT = 1_000
SECRET = b"outside"

parts = st.one_of(
    st.sampled_from(
        ["..", ".", "", "in", "inner", "out", "loop", "gone", "root", "root_evil", "secret", "a.txt", "~", "%2e%2e"]
        + ["..\\", "\0", "\n", ".git", ".GIT", "\ud800", "x" * 300, "-rf", "*", "file:", "C:"]
    ),
    st.text(max_size=5),
)


def path_of(start: str, names: list[str]) -> str:
    return start + "/".join(names)


hostile_paths = st.builds(path_of, st.sampled_from(["", "/", "//"]), st.lists(parts))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with links that lead out of it, beside a folder whose name begins like its own."""
    folder = tmp_path_factory.mktemp("base")
    root = folder / "root"
    write_files(folder, {"secret": SECRET, "root_evil/a.txt": SECRET, "root/a.txt": b"inside", "root/in/b.txt": b"b"})
    (root / "out").symlink_to(folder)
    (root / "out.txt").symlink_to(folder / "secret")
    (root / "inner").symlink_to(root / "in")
    (root / "loop").symlink_to(root / "loop")
    (root / "gone").symlink_to(folder / "not-yet")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture(scope="module")
def workspace(root: Path) -> Workspace:
    return open_workspace(root)


def outside(root: Path) -> dict[str, bytes]:
    """Everything beside the root."""
    files = [path for path in root.parent.rglob("*") if root not in path.parents and path.is_file()]
    return {str(path): path.read_bytes() for path in files}


@settings(max_examples=12 * settings().max_examples, deadline=None)
@given(path=hostile_paths)
@pytest.mark.requirement("S-35")
def test_no_path_reads_anything_outside_of_the_root(workspace: Workspace, path: str) -> None:
    try:
        data = workspace.read(path, LIMIT)
    except ToolError:
        return
    assert SECRET not in data
    assert (workspace.root / workspace.locate(path)).resolve().is_relative_to(workspace.root)


@settings(max_examples=6 * settings().max_examples, deadline=None)
@given(path=hostile_paths, overwrite=st.booleans())
@pytest.mark.requirement("S-35")
def test_no_path_writes_anything_outside_of_the_root(workspace: Workspace, path: str, overwrite: bool) -> None:
    before = outside(workspace.root)
    try:
        place, _ = workspace.write(path, b"new", overwrite=overwrite)
    except ToolError:
        pass
    else:
        assert (workspace.root / place).read_bytes() == b"new"
        (workspace.root / place).unlink()
        write_files(workspace.root, {"a.txt": b"inside", "in/b.txt": b"b"})
    assert outside(workspace.root) == before


@pytest.mark.parametrize(
    "path",
    ["../secret", "in/../../secret", "in/../a.txt", "out/secret", "out.txt", "out", "gone", "/etc/passwd"]
    + [
        "a.txt\0",
        "",
        "x" * 5_000,
        "a\nb",
        "\ud800",
        ".git/config",
        "in/.GIT/hooks/pre-commit",
        "nobody",
        "loop",
        "loop/a",
    ]
    + ["in", ".", "pipe", "a.txt/b"],
)
@pytest.mark.requirement("S-35")
def test_such_a_path_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(PathError) as refusal:
        workspace.read(path, LIMIT)
    assert str(workspace.root.parent) not in str(refusal.value).replace(repr(path), "")


def test_the_folder_beside_with_the_same_beginning_is_outside(workspace: Workspace, root: Path) -> None:
    with pytest.raises(PathError, match="leads out of the root"):
        workspace.read(str(root) + "_evil/a.txt", LIMIT)


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "{root}/a.txt", "out/root/a.txt"])
def test_a_path_is_judged_by_where_it_leads(workspace: Workspace, root: Path, path: str) -> None:
    assert workspace.read(path.format(root=root), LIMIT) == b"inside"


def test_links_that_stay_inside_lead_to_the_real_place(workspace: Workspace) -> None:
    assert workspace.read("inner/b.txt", LIMIT) == b"b"
    assert workspace.locate("inner/b.txt") == "in/b.txt"


def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(root, {"swapped/a.txt": b"inside"})
    checked = workspace.locate("swapped/a.txt")
    (root / "swapped/a.txt").unlink()
    (root / "swapped").rmdir()
    (root / "swapped").symlink_to(root.parent / "root_evil")
    monkeypatch.setattr(workspace, "locate", {"swapped/a.txt": checked}.__getitem__)
    try:
        with pytest.raises(PathError):
            workspace.read("swapped/a.txt", LIMIT)
        with pytest.raises(PathError):
            workspace.write("swapped/a.txt", b"new", overwrite=True)
    finally:
        (root / "swapped").unlink()


def test_a_walk_follows_no_link_and_lists_only_regular_files(workspace: Workspace) -> None:
    assert [file.path for file in workspace.files()] == ["a.txt", "in/b.txt"]
    assert [file.path for file in workspace.files("in")] == ["in/b.txt"]
    assert [file.path for file in workspace.files("a.txt")] == ["a.txt"]
    with pytest.raises(PathError, match="not a regular file or folder"):
        list(workspace.files("pipe"))
    with pytest.raises(PathError, match="nowhere"):
        list(workspace.files("nowhere"))


def test_a_walk_can_be_ended_at_every_entry(tmp_path: Path) -> None:
    write_files(tmp_path, dict.fromkeys("abc", ""))
    found: list[str] = []

    def check() -> None:
        if found:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        found.extend(file.path for file in open_workspace(tmp_path).files(check=check))
    assert found == ["a"]


def test_names_that_no_client_could_send_back_are_left_out(tmp_path: Path) -> None:
    write_files(tmp_path, {"a\nb": "", "fine": "", "é ‍x": ""})
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"")
    workspace = open_workspace(tmp_path)
    assert [file.path for file in workspace.files()] == ["fine", "é ‍x"]
    assert workspace.read("é ‍x", LIMIT) == b""


def test_ignored_files_are_neither_read_nor_written(tmp_path: Path) -> None:
    write_files(tmp_path, {".gitignore": ".env\nbuild/\n", ".env": "KEY=1", "build/x": ""})
    workspace = open_workspace(tmp_path)
    for path in (".env", "build/x", "build/new/y"):
        with pytest.raises(PathError, match="ignored by git"):
            workspace.read(path, LIMIT)
        with pytest.raises(PathError, match="ignored by git"):
            workspace.write(path, b"", overwrite=True)
    assert (tmp_path / ".env").read_text("utf-8") == "KEY=1"


def test_another_spelling_does_not_get_around_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: `.ENV` opens the file that is listed as `.env`. Here it is its double."""
    write_files(tmp_path, {".gitignore": ".env\n", ".env": "KEY=1", ".ENV": "KEY=1"})

    def listed(folder: Path) -> list[str]:
        return [".env", ".gitignore"]

    monkeypatch.setattr(os, "listdir", listed)
    with pytest.raises(PathError, match="written otherwise"):
        open_workspace(tmp_path).read(".ENV", LIMIT)


def test_a_root_that_the_outer_repository_ignores_can_be_worked_on(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write_files(tmp_path, {".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "vendor/\n", "vendor/lib/a": "x"})
    assert open_workspace(tmp_path / "vendor/lib").read("a", LIMIT) == b"x"


@pytest.mark.parametrize(
    "path",
    [".vscode/mcp.json", ".VSCode/settings.json", ".\u200cvscode/x", "sub/.husky/x/pre-commit", "MCP_servers.json"]
    + ["sub/.mcp.json", ".bashrc", ".envrc", "sub/.gitignore"],
)
def test_what_decides_which_programs_are_started_or_what_can_be_read_is_not_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathError, match="change it yourself"):
        open_workspace(tmp_path).write(path, b"{}", overwrite=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [".editorconfig", ".github/workflows/ci.yml", "a.b/c."])
def test_harmless_hidden_files_are_written(tmp_path: Path, path: str) -> None:
    assert open_workspace(tmp_path).write(path, b"", overwrite=False) == (path, True)


def test_a_new_file_gets_its_folders(tmp_path: Path) -> None:
    assert open_workspace(tmp_path).write("a/b/c.txt", b"new", overwrite=False) == ("a/b/c.txt", True)
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"new"


def test_an_existing_file_is_replaced_only_on_demand_and_keeps_its_permissions(tmp_path: Path) -> None:
    write_files(tmp_path, {"run.sh": "old"})
    (tmp_path / "run.sh").chmod(0o750)
    workspace = open_workspace(tmp_path)
    with pytest.raises(ToolError, match="set overwrite to true"):
        workspace.write("run.sh", b"new", overwrite=False)
    assert (tmp_path / "run.sh").read_bytes() == b"old"
    assert workspace.write("run.sh", b"new", overwrite=True) == ("run.sh", False)
    assert (tmp_path / "run.sh").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


@pytest.mark.parametrize("path", [".", "folder", "file/below", "pipe"])
def test_a_place_that_cannot_be_a_file_is_refused(tmp_path: Path, path: str) -> None:
    write_files(tmp_path, {"folder/a": "", "file": "old"})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PathError):
        open_workspace(tmp_path).write(path, b"new", overwrite=True)
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_file_system_without_hard_links_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert open_workspace(tmp_path).write("new", b"new", overwrite=False) == ("new", True)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_link = os.link

    def be_slow(*args: str, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool) -> None:
        (tmp_path / "new").write_bytes(b"theirs")
        real_link(*args, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "link", be_slow)
    with pytest.raises(ToolError, match="exists already"):
        open_workspace(tmp_path).write("new", b"ours", overwrite=False)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("new", b"theirs")]


def test_a_file_over_the_limit_is_named_with_its_size(tmp_path: Path) -> None:
    write_files(tmp_path, {"big": b"x" * (LIMIT + 1)})
    with pytest.raises(ToolError, match=r"1,001 bytes; at most 1,000"):
        open_workspace(tmp_path).read("big", LIMIT)


def test_the_root_is_the_current_folder_unless_said_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_workspace(None).root == tmp_path.resolve()
    with pytest.raises(ConfigError, match="is not a folder"):
        open_workspace(tmp_path / "nowhere")
