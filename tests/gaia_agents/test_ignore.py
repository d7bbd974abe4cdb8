"""`.gitignore` is read as git reads it: git itself is the judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gaia_agents.ignore import IgnoreRules, Rule, parse_rule
from gaia_agents.workspace import open_workspace
from tests.support.workspaces import git, repository, write_files

FILES = (
    ".x",
    "ab",
    "a b",
    "c",
    "a/c",
    "a/ba",
    "a/a/c",
    "a/b/c",
    "a/b/ab",
    "a/b/a/c",
    "b/c",
    "b/ab",
    "b/a/b/c",
    "b/a/a.b",
)

segments = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "ab",
        "*",
        "**",
        "?",
        "a*",
        "*b",
        "*a*",
        "a**b",
        "[ab]",
        "[!a]",
        "[^b]",
        "[]a]",
        "\\a",
        "\\*",
        "a?b",
        ".*",
        "a\\ b",
    ]
)


def rule_of(negation: str, start: str, names: list[str], end: str) -> str:
    return negation + start + "/".join(names) + end


rules = st.builds(
    rule_of,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(segments, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " ", "\r", "\\ "]),
)
ignore_files = st.lists(rules | st.sampled_from(["", "# a", "\\#a", "!", "/", "a[", "a\\"]), max_size=4).map("\n".join)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = repository(tmp_path_factory.mktemp("tree"))
    write_files(folder, dict.fromkeys(FILES, ""))
    return folder


def kept_by_git(folder: Path, **env: str) -> set[str]:
    listed = git(folder, "ls-files", "--others", "--exclude-standard", "-z", **env)
    return set(listed.split("\0")) - {""}


def kept_by_us(folder: Path) -> set[str]:
    return {file.path for file in open_workspace(folder).files()}


@settings(max_examples=60, deadline=None)
@given(top=ignore_files, inner=ignore_files, exclude=ignore_files)
@example(top="*\n!*/\n!c", inner="", exclude="")
@example(top="a/**\n!a/c", inner="", exclude="")
@example(top="/b\n", inner="!c\n/ba", exclude="c\n")
@example(top="\ufeffc", inner="b/**/c", exclude="**/a/c")
def test_exactly_the_files_that_git_would_add_are_listed(tree: Path, top: str, inner: str, exclude: str) -> None:
    write_files(tree, {".gitignore": top, "a/.gitignore": inner, ".git/info/exclude": exclude})
    assert kept_by_us(tree) == kept_by_git(tree)


def test_rules_of_the_repository_hold_in_a_folder_of_it(tmp_path: Path) -> None:
    repository(tmp_path)
    write_files(tmp_path, {".gitignore": "*.log\n/sub/build/\n", "sub/a.log": "", "sub/build/b": "", "sub/c": ""})
    assert kept_by_us(tmp_path / "sub") == {"c"}


def test_a_linked_work_tree_shares_the_exclude_file(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    repository(main)
    git(main, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(main, "worktree", "add", "--quiet", str(linked))
    write_files(main, {".git/info/exclude": "secret\n"})
    write_files(linked, {"secret": "", "open": ""})
    assert kept_by_us(linked) == {"open"} == kept_by_git(linked)


def test_gitignore_counts_without_a_repository(tmp_path: Path) -> None:
    write_files(tmp_path, {".gitignore": "*.log\n", "sub/.gitignore": "!keep.log\n", "a.log": "", "sub/keep.log": ""})
    assert kept_by_us(tmp_path) == {".gitignore", "sub/.gitignore", "sub/keep.log"}


@pytest.mark.requirement("S-35")
def test_rules_and_names_made_to_blow_up_are_matched_at_once() -> None:
    """Matching in one expression would take longer than the universe is old; this test ends, or times out."""
    stars = IgnoreRules(["*a" * 200 + "*b", "/" + "**/a/" * 150 + "b"])
    assert not stars.ignores(["a" * 255], is_folder=False)
    assert not stars.ignores(["a"] * 1_000, is_folder=False)


def test_of_a_list_without_end_no_more_than_the_limit_is_parsed() -> None:
    lines = iter(["*.log"] * 20_000)
    IgnoreRules(lines)
    assert next(lines) == "*.log"


@pytest.mark.parametrize("line", ["", "# note", "a[", "a\\", "a/[b", "x" * 1_001])
def test_lines_that_say_nothing_are_no_rules(line: str) -> None:
    assert parse_rule(line) is None


@pytest.mark.parametrize(
    ("glob", "covered", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "py"]),
        ("src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "x/src/a.ts"]),
        ("src/", ["src/a", "x/src/y/b"], ["src"]),
        ("!tests/", ["a", "x/tests"], ["tests/a", "x/tests/b"]),
    ],
)
def test_globs_select_files_as_ignore_rules_would(glob: str, covered: list[str], others: list[str]) -> None:
    rule = parse_rule(glob)
    assert isinstance(rule, Rule)
    assert [path for path in [*covered, *others] if rule.covers(path.split("/"))] == covered


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository in a folder that can be a user's home."""
    (tmp_path / "top").mkdir()
    return repository(tmp_path / "top")


@pytest.mark.parametrize(("setting", "file"), [("~/ours", "ours"), ("ours", "top/ours"), ("", ".config/git/nothing")])
def test_what_the_user_excludes_everywhere_is_not_there(
    setting: str, file: str, top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(top, {".gitignore": "!kept.bak\n", "sub/a.bak": "", "sub/kept.bak": "", "sub/b": ""})
    config = {".gitconfig": f"[core]\nexcludesFile = {setting}\n", ".config/git/ignore": "b\n"}
    write_files(tmp_path, {**config, file: "*.bak\n"})
    monkeypatch.setenv("HOME", str(tmp_path))
    user = {"HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": str(tmp_path / ".gitconfig")}
    assert kept_by_us(top / "sub") == kept_by_git(top / "sub", **user)
    assert ("a.bak" in kept_by_us(top / "sub")) == (setting == "")


@pytest.mark.parametrize("with_git", [True, False])
@pytest.mark.parametrize(("variable", "file"), [("XDG_CONFIG_HOME", "git/ignore"), ("HOME", ".config/git/ignore")])
def test_without_a_setting_the_rules_of_the_user_stand_in_the_default_place(
    variable: str, file: str, with_git: bool, top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {f"user/{file}": "*.bak\n", "top/a.bak": "", "top/b": ""})
    monkeypatch.setenv(variable, str(tmp_path / "user"))
    if not with_git:
        monkeypatch.setenv("PATH", "")
    assert kept_by_us(top) == {"b"}


def test_rules_of_the_user_without_end_exclude_nothing(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"top/b": "", "user/git/ignore": "*\n" * 200_000})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    assert kept_by_us(top) == {"b"}
