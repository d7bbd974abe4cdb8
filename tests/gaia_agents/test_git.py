"""What git says is asked safely and read correctly."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gaia_agents.git import Change, Git, GitError, parse_status
from tests.support.workspaces import git, repository, write_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    repository(folder)
    write_files(folder, {"kept": "1\n", "old name": "2\n", "gone": "3\n", "sub/inner": "4\n"})
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def test_every_kind_of_change_is_told(project: Path) -> None:
    git(project, "mv", "old name", "new\tname")
    git(project, "rm", "--quiet", "gone")
    write_files(project, {"kept": "changed\n", "added": "", "sub/inner": "4\n4\n", "fresh/a": "", "fresh/b": ""})
    git(project, "add", "added", "sub/inner")
    write_files(project, {"sub/inner": "again\n"})
    status = Git(project).status()
    assert status.staged == [
        Change("added", "added"),
        Change("gone", "deleted"),
        Change("new\tname", "renamed"),
        Change("sub/inner", "modified"),
    ]
    assert status.modified == [Change("kept", "modified"), Change("sub/inner", "modified")]
    assert status.untracked == [Change("fresh/", "untracked")]
    assert not status.clean


def test_a_clean_tree_has_a_branch_and_a_commit(project: Path) -> None:
    status = Git(project).status()
    assert (status.branch, status.commit, status.clean) == ("main", git(project, "rev-parse", "HEAD").strip(), True)
    assert (status.upstream, status.ahead, status.behind) == (None, None, None)


def test_the_distance_to_the_upstream_branch_is_counted(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(project), "clone")
    clone = tmp_path / "clone"
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "mine")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "theirs")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "theirs too")
    git(clone, "fetch", "--quiet")
    status = Git(clone).status()
    assert (status.upstream, status.ahead, status.behind) == ("origin/main", 1, 2)


def test_conflicts_are_no_plain_changes(project: Path) -> None:
    git(project, "checkout", "--quiet", "-b", "other")
    write_files(project, {"kept": "theirs\n"})
    git(project, "commit", "--quiet", "--all", "--message", "theirs")
    git(project, "checkout", "--quiet", "main")
    write_files(project, {"kept": "ours\n"})
    git(project, "commit", "--quiet", "--all", "--message", "ours")
    with pytest.raises(Exception, match="merge"):
        git(project, "merge", "--quiet", "other")
    status = Git(project).status()
    assert status.conflicted == [Change("kept", "unmerged")]
    assert (status.staged, status.modified) == ([], [])


def test_a_repository_without_commits_and_a_detached_head_are_told_apart(project: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    new = Git(repository(tmp_path / "new")).status()
    assert (new.branch, new.commit, new.clean) == ("main", None, True)
    git(project, "checkout", "--quiet", "--detach")
    detached = Git(project).status()
    assert (detached.branch, detached.commit is not None) == (None, True)


def test_in_a_folder_of_a_repository_only_what_is_below_counts(project: Path) -> None:
    write_files(project, {"kept": "changed\n", "sub/inner": "changed\n", "sub/fresh": ""})
    status = Git(project / "sub").status()
    assert (status.modified, status.untracked) == ([Change("inner", "modified")], [Change("fresh", "untracked")])


def test_a_wholly_untracked_folder_is_one_entry(project: Path) -> None:
    write_files(project, {"fresh/a": ""})
    assert Git(project / "fresh").status().untracked == [Change(".", "untracked")]


def test_commits_come_with_author_date_and_any_subject(project: Path) -> None:
    git(
        project,
        "commit",
        "--quiet",
        "--allow-empty",
        "--message",
        "--é 'x'\n\nbody",
        GIT_AUTHOR_DATE="2026-01-31T12:00:00Z",
    )
    newest, first = Git(project).commits("--max-count=5")
    assert (newest.subject, newest.author, newest.date) == ("--é 'x'", "Ada", "2026-01-31T12:00:00+00:00")
    assert (newest.id, first.subject) == (git(project, "rev-parse", "HEAD").strip(), "first")


def test_the_encoding_that_the_repository_wants_for_its_log_is_not_ours(project: Path) -> None:
    git(project, "config", "i18n.logOutputEncoding", "UTF-16")
    assert [commit.subject for commit in Git(project).commits()] == ["first"]


def test_no_repository_and_no_git_are_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GitError, match="in no git repository; run 'git init'"):
        Git(tmp_path).status()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="git is not installed"):
        Git(tmp_path).status()


def test_a_git_that_hangs_or_cannot_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nexec sleep 60\n", "utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("gaia_agents.git._SECONDS", 0.2)
    with pytest.raises(GitError, match=r"git \w+ took longer than 0\.2 seconds"):
        Git(tmp_path).status()
    fake.write_text("no program", "utf-8")
    with pytest.raises(GitError, match="git cannot be run"):
        Git(tmp_path).status()


def test_nothing_that_the_folder_brings_is_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a program named git on a relative search path, nor what the repository's configuration names."""
    trap = project / "trap"
    trap.write_text("#!/bin/sh\ntouch trapped\n", "utf-8")
    trap.chmod(0o755)
    shutil.copy(trap, project / "git")
    for key in ("core.fsmonitor", "core.pager", "diff.external", "gpg.program", "core.sshCommand"):
        git(project, "config", key, str(trap))
    git(project, "config", "log.showSignature", "true")
    write_files(project, {".git/hooks/post-index-change": "#!/bin/sh\ntouch trapped\n"})
    (project / ".git/hooks/post-index-change").chmod(0o755)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    assert Git(project).status().untracked == [Change("git", "untracked"), Change("trap", "untracked")]
    assert len(Git(project).commits("--max-count=1")) == 1
    assert not (project / "trapped").exists()


@pytest.mark.parametrize("name", [b"plain", b"a=b.c", b"\xff"])
def test_filters_of_the_repository_are_not_run(project: Path, tmp_path: Path, name: bytes) -> None:
    trap = f"touch '{tmp_path / 'trapped'}'; cat"
    git(project, "config", os.fsdecode(b"filter." + name + b".clean"), trap)
    git(project, "config", os.fsdecode(b"filter." + name + b".required"), "true")
    write_files(project, {".git/info/attributes": b"* filter=" + name + b"\n", "kept": "2\n"})
    assert Git(project).status().modified == [Change("kept", "modified")]
    assert not (tmp_path / "trapped").exists()


def test_what_a_partial_clone_lacks_is_not_fetched(project: Path) -> None:
    write_files(project, {"trap": "#!/bin/sh\ntouch trapped\n"})
    (project / "trap").chmod(0o755)
    lost = git(project, "rev-parse", "HEAD").strip()
    git(project, "commit", "--quiet", "--allow-empty", "--message", "second")
    (project / ".git/objects" / lost[:2] / lost[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "core.sshCommand": str(project / "trap"),
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://nowhere/x",
    }.items():
        git(project, "config", key, value)
    with pytest.raises(GitError, match="git log failed"):
        Git(project).commits()
    assert not (project / "trapped").exists()


def test_a_hidden_repository_in_the_files_of_another_is_not_entered(project: Path) -> None:
    git(project, "init", "--quiet", "--bare", "sub/hidden")
    with pytest.raises(GitError, match="cannot use bare repository"):
        Git(project / "sub/hidden").status()


def test_the_repository_of_a_running_hook_is_not_mistaken_for_this_one(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert Git(project).status().clean


def test_asking_changes_nothing_in_the_repository(project: Path) -> None:
    write_files(project, {"kept": "1\n"})
    before = {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")}
    Git(project).status()
    Git(project).commits("--max-count=1")
    assert {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")} == before


def test_headers_of_a_later_git_are_skipped() -> None:
    status = parse_status("# branch.head main\0# stash 3\0# something new\0! ignored\0? a file")
    assert (status.branch, status.untracked) == ("main", [Change("a file", "untracked")])
