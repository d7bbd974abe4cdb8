"""Skills in folders: found, described, and read without ever leaving the folder."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia_bridge.protocol.skills import skill_problem
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.skills.folders import SkillFolders

LIMITS = AgentLimits()


def write(folder: Path, path: str, description: str = "What it does", body: str = "") -> Path:
    """A skill at a path below a folder; returns its `SKILL.md`."""
    file = folder / path / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {file.parent.name}\ndescription: {description}\n---\n{body}", "utf-8")
    return file


def reasons(folders: SkillFolders) -> dict[str, str]:
    return dict(folders.read().left_out)


def test_an_entry_lists_every_file_with_its_digest_and_size(tmp_path: Path) -> None:
    skill = write(tmp_path, "acme/billing/refunds")
    (skill.parent / "templates").mkdir()
    odd = skill.parent / "templates" / "a b#ü%.md"
    odd.write_bytes(b"\xff\x00")

    [entry] = SkillFolders([tmp_path], LIMITS).read().entries

    assert entry["uri"] == "skill://acme/billing/refunds/SKILL.md"
    assert entry["frontmatter"] == {"name": "refunds", "description": "What it does"}
    assert entry["resources"] == [
        {
            "uri": uri,
            "digest": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",
            "size": file.stat().st_size,
        }
        for uri, file in (
            ("skill://acme/billing/refunds/SKILL.md", skill),
            ("skill://acme/billing/refunds/templates/a%20b%23%C3%BC%25.md", odd),
        )
    ]
    assert skill_problem(entry) is None


def test_a_nested_skill_is_one_of_its_own_and_part_of_the_one_around_it(tmp_path: Path) -> None:
    write(tmp_path, "outer")
    write(tmp_path, "outer/inner")
    outer, inner = SkillFolders([tmp_path], LIMITS).read().entries
    assert [file["uri"] for file in outer["resources"]] == ["skill://outer/SKILL.md", "skill://outer/inner/SKILL.md"]
    assert [file["uri"] for file in inner["resources"]] == ["skill://outer/inner/SKILL.md"]


def test_a_folder_that_is_a_skill_itself_is_published_under_its_name(tmp_path: Path) -> None:
    write(tmp_path, "single")
    [entry] = SkillFolders([tmp_path / "single"], LIMITS).read().entries
    assert entry["uri"] == "skill://single/SKILL.md"


def test_what_is_hidden_or_left_behind_belongs_to_no_skill(tmp_path: Path) -> None:
    folder = write(tmp_path, "one").parent
    for name in (".env", "x.pyc", "notes~"):
        (folder / name).write_text("x")
    write(tmp_path, ".git/hidden")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "y.txt").write_text("x")
    [entry] = SkillFolders([tmp_path], LIMITS).read().entries
    assert [file["uri"] for file in entry["resources"]] == ["skill://one/SKILL.md"]


def test_no_symbolic_link_is_followed_and_it_is_said_which(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    write(secret, "stolen")
    skills = tmp_path / "skills"
    folder = write(skills, "one").parent
    (folder / "key").symlink_to(secret / "stolen" / "SKILL.md")
    (skills / "stolen").symlink_to(secret / "stolen")
    folders = SkillFolders([skills], LIMITS)
    assert [entry["uri"] for entry in folders.read().entries] == ["skill://one/SKILL.md"]
    assert set(reasons(folders)) == {"skills/one/key", "skills/stolen"}
    for uri in ("skill://one/key", "skill://one/../../secret/stolen/SKILL.md", "skill://one/%2e%2e/x", "skill://one/"):
        assert folders.content(uri) is None


def test_a_file_that_became_a_link_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the key")
    folder = write(tmp_path / "skills", "one").parent
    (folder / "notes.md").write_text("notes")
    folders = SkillFolders([tmp_path / "skills"], LIMITS)
    folders.read()
    assert folders.content("skill://one/notes.md") == b"notes"
    (folder / "notes.md").unlink()
    (folder / "notes.md").symlink_to(secret)
    assert folders.content("skill://one/notes.md") is None


def test_a_folder_that_became_a_link_is_not_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "skills", "one").parent
    for place in (folder / "notes", tmp_path / "elsewhere"):
        place.mkdir()
        (place / "a.md").write_text(place.name)
    folders = SkillFolders([tmp_path / "skills"], LIMITS)
    folders.read()
    (folder / "notes" / "a.md").unlink()
    (folder / "notes").rmdir()
    (folder / "notes").symlink_to(tmp_path / "elsewhere")
    assert folders.content("skill://one/notes/a.md") is None


def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(write(tmp_path, "one").parent / "pipe")
    folders = SkillFolders([tmp_path], LIMITS)
    assert len(folders.read().entries[0]["resources"]) == 1
    assert reasons(folders) == {f"{tmp_path.name}/one/pipe": "it is no file"}


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("skill_files", 1, "it has 2 files; at most 1"),
        ("skill_bytes", 60, "bytes; at most 60"),
        ("skill_frontmatter_bytes", 5, "at most 5 are read"),
        ("skills", 0, "at most 0 skills"),
    ],
)
def test_what_is_beyond_a_limit_is_left_out_with_the_limit(tmp_path: Path, limit: str, value: int, said: str) -> None:
    folder = write(tmp_path, "one").parent
    (folder / "more.md").write_text("x" * 50)
    folders = SkillFolders([tmp_path], replace(LIMITS, **{limit: value}))
    assert folders.read().entries == ()
    assert said in reasons(folders)[f"{tmp_path.name}/one"]


def test_no_more_than_so_many_files_are_looked_at(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x")
    folders = SkillFolders([tmp_path], replace(LIMITS, skill_folder_entries=3))
    assert any("at most 3" in reason for reason in reasons(folders).values())


def test_a_name_that_is_not_that_of_its_folder_is_told_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, "one").rename(tmp_path / "one" / "SKILL.tmp.md")
    (tmp_path / "one" / "SKILL.md").write_text("---\nname: other\ndescription: x\n---\n")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "skill.md").write_text("---\nname: two\ndescription: x\n---\n")
    found = reasons(SkillFolders([tmp_path], LIMITS))
    assert found[f"{tmp_path.name}/one"] == "its name is 'other', and its folder's 'one'; make them the same"
    assert "give it that name" in found[f"{tmp_path.name}/two/skill.md"]


def test_the_first_of_two_folders_keeps_a_path(tmp_path: Path) -> None:
    write(tmp_path / "a", "one", "first")
    write(tmp_path / "b", "one", "second")
    folders = SkillFolders([tmp_path / "a", tmp_path / "b"], LIMITS)
    assert [entry["frontmatter"]["description"] for entry in folders.read().entries] == ["first"]
    assert "b/one" in reasons(folders)


def test_what_is_read_is_what_is_listed_after_every_change(tmp_path: Path) -> None:
    file = write(tmp_path, "one", body="first")
    folders = SkillFolders([tmp_path], LIMITS)
    before = folders.read().entries
    assert not folders.is_changed()
    file.write_text(file.read_text().replace("first", "other"))  # as long as before
    assert folders.is_changed()
    content = folders.content("skill://one/SKILL.md")
    assert content is not None
    [entry] = folders.current.entries
    assert entry["resources"][0]["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert folders.current.entries != before
    (file.parent / "new.md").write_text("new")
    assert folders.content("skill://one/new.md") == b"new"
    file.unlink()
    assert folders.content("skill://one/SKILL.md") is None
    assert folders.read().entries == ()


def test_a_folder_that_comes_later_is_found(tmp_path: Path) -> None:
    folders = SkillFolders([tmp_path / "skills"], LIMITS)
    assert folders.read().entries == ()
    write(tmp_path / "skills", "one")
    assert folders.is_changed()
    assert len(folders.read().entries) == 1


names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20
)


@given(names=st.sets(names, min_size=1, max_size=4))
def test_files_of_any_name_are_read_by_the_uris_that_are_listed(
    tmp_path_factory: pytest.TempPathFactory, names: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("skills")
    own = write(folder, "one").parent
    for name in names - {".", ".."}:
        if not (own / name).exists():
            (own / name).write_bytes(name.encode())
    folders = SkillFolders([folder], LIMITS)
    for entry in folders.read().entries:
        assert skill_problem(entry) is None
        for file in entry["resources"]:
            content = folders.content(file["uri"])
            assert content is not None
            assert file["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert file["size"] == len(content)


def test_a_folder_that_is_a_link_to_itself_has_no_skills(tmp_path: Path) -> None:
    (tmp_path / "skills").symlink_to("skills")
    folders = SkillFolders([tmp_path / "skills"], LIMITS)
    assert folders.read().entries == ()
    assert not folders.is_changed()


def test_a_skill_that_cannot_be_read_is_left_out_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = write(tmp_path, "locked")
    write(tmp_path, "open")
    opened = os.open

    def refusing(path: str | Path, flags: int) -> int:
        if Path(path) == locked:  # whatever its mode says, an administrator may read it
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refusing)
    folders = SkillFolders([tmp_path], LIMITS)

    [entry] = folders.read().entries

    assert entry["uri"] == "skill://open/SKILL.md"
    assert reasons(folders) == {f"{tmp_path.name}/locked": "locked/SKILL.md cannot be read: Permission denied"}


def test_a_skill_that_is_removed_while_it_is_read_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = write(tmp_path, "gone")
    write(tmp_path, "stays")
    opened = os.open

    def removing(path: str | Path, flags: int) -> int:
        gone.unlink(missing_ok=True)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", removing)

    [entry] = SkillFolders([tmp_path], LIMITS).read().entries

    assert entry["uri"] == "skill://stays/SKILL.md"
