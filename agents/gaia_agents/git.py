"""Asking git about a folder, without trusting the folder: no shell, no pager, no hooks, no prompts, a deadline."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gaia_agents.repository import find_repository, read_small
from gaia_bridge.errors import ToolError

__all__ = ["Change", "Commit", "Git", "GitError", "Status", "parse_status"]

_SECONDS = 10.0
"""For one command. Even huge repositories answer faster when their disk is awake."""
_SAFE = (
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    *("-c", "core.fsmonitor=false"),  # these three would run programs that the repository's configuration names
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "log.showSignature=false"),
    *("-c", "safe.bareRepository=explicit"),  # a repository hidden in the files of another one
    *("-c", "i18n.logOutputEncoding=UTF-8"),
)
_SAFE_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",  # a partial clone would fetch what it lacks, with the programs that it names for that
}
_KEPT_VARIABLES = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "HOME",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CONFIG_HOME",
)
"""Environment variables that git gets: where the user's configuration is. Above all not `GIT_DIR` of a running hook."""
_COMMIT_FIELDS = "%H%x00%an%x00%aI%x00%s"


class GitError(ToolError):
    """Git is not there, the folder is in no repository, or git failed; says what to do."""


@dataclass(frozen=True, slots=True)
class Change:
    """A changed file."""

    path: str
    """From the folder that git was asked about."""
    kind: str
    """`added`, `modified`, `deleted`, `renamed`, `copied`, `type changed`, `unmerged` or `untracked`."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    id: str
    author: str
    date: str
    """When it was written, ISO 8601."""
    subject: str


@dataclass(slots=True)
class Status:
    """The state of a work tree."""

    branch: str | None = None
    """`None` if a commit is checked out directly ("detached")."""
    commit: str | None = None
    """`None` before the first commit."""
    upstream: str | None = None
    ahead: int | None = None
    """Commits that the upstream branch does not have; `None` if there is no such branch."""
    behind: int | None = None
    staged: list[Change] = field(default_factory=list[Change])
    modified: list[Change] = field(default_factory=list[Change])
    untracked: list[Change] = field(default_factory=list[Change])
    conflicted: list[Change] = field(default_factory=list[Change])

    @property
    def clean(self) -> bool:
        """Whether nothing is changed."""
        return not (self.staged or self.modified or self.untracked or self.conflicted)


class Git:
    """Git for one folder.

    Args:
        root: The folder; only changes below it are reported.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def status(self) -> Status:
        """Return the state of the work tree (`git status --porcelain=v2`). An untracked folder is one entry.

        Raises:
            GitError: Git cannot tell.
        """
        answer = self.run(
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=dirty",
            "--",
            ".",
            env=self._without_filters(),
        )
        repository = find_repository(self._root)
        prefix = self._root.relative_to(repository.top).as_posix() if repository is not None else "."
        return parse_status(answer, "" if prefix == "." else f"{prefix}/")

    def commits(self, *options: str) -> list[Commit]:
        """Return the commits that `git log` shows with these options; the newest first.

        Raises:
            GitError: Git cannot tell.
        """
        fields = self.run("log", "-z", f"--format={_COMMIT_FIELDS}", *options, "--").split("\0")
        return [Commit(*fields[start : start + 4]) for start in range(0, len(fields) - 3, 4)]

    def config(self, key: str) -> str | None:
        """Return a value of git's configuration, if it is set."""
        try:
            return self.run("config", "--get", key).strip() or None
        except GitError:
            return None

    def own_files(self) -> list[Path]:
        """Return the paths that git itself reads and runs in this work tree: its folders and configuration, and hooks.

        Files that the configuration includes are among them. Where git is missing, only its folders are returned.
        """
        repository = find_repository(self._root)
        paths = [] if repository is None else [repository.git_dir, repository.common_dir]
        top = self._root if repository is None else repository.top
        try:
            listed = self.run("config", "--list", "--includes", "--show-origin", "-z").split("\0")
        except GitError:
            return paths
        for origin, setting in zip(listed[::2], listed[1::2], strict=False):
            kind, _, file = origin.partition(":")
            key, _, value = setting.partition("\n")
            if kind == "file":
                paths.append(self._root / file)
            if kind == "file" and key == "core.hookspath":
                paths.append(top / os.path.expanduser(value))
        return paths

    def user_excludes(self) -> str:
        """Return this user's rules for all repositories (gitignore, "core.excludesFile"); empty if there are none.

        Without git, those that stand where it looks by default.
        """
        try:
            named = self.run("config", "--type=path", "--get", "core.excludesFile").removesuffix("\n")
        except GitError:
            folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
            return read_small(Path(folder, "git", "ignore"))
        repository = find_repository(self._root)
        return read_small((repository.top if repository else self._root) / named)

    def _without_filters(self) -> dict[str, str]:
        """Environment in which the filters that the repository's own configuration names are no programs.

        Git runs a changed file through them to compare it (gitattributes, "filter"). Those of the user, such as
        git-lfs, stay.
        """
        listed = os.fsdecode(self._output("config", "--list", "--show-scope", "--name-only", "-z")).split("\0")
        settings = zip(listed[::2], listed[1::2], strict=False)
        own = [name for scope, name in settings if scope in ("local", "worktree") and name.startswith("filter.")]
        environment = {"GIT_CONFIG_COUNT": str(len(own))}
        for number, name in enumerate(own):
            environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": ""}
        return environment

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run a git command in the folder and return what it prints.

        Args:
            arguments: The command and its arguments; nothing that comes from a client starts with a dash.
            env: Further environment variables.

        Raises:
            GitError: Git is missing, failed, or took too long.
        """
        return self._output(*arguments, env=env).decode("utf-8", "replace")

    def _output(self, *arguments: str, env: Mapping[str, str] | None = None) -> bytes:
        path = os.pathsep.join(entry for entry in os.get_exec_path() if os.path.isabs(entry))
        program = shutil.which("git", path=path)
        if program is None:
            raise GitError("git is not installed, or not on PATH; install git to see the state of the project")
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        try:
            done = subprocess.run(
                [program, *_SAFE, *arguments],
                cwd=self._root,
                env={**kept, **_SAFE_ENVIRONMENT, **(env or {}), "PATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GitError(f"git {arguments[0]} took longer than {_SECONDS:g} seconds; try again") from None
        except OSError as error:
            raise GitError(f"git cannot be run in {self._root.name!r}: {error.strerror}") from None
        if done.returncode:
            raise GitError(self._reason(arguments[0], done.stderr.decode("utf-8", "replace")))
        return done.stdout

    def _reason(self, command: str, complaint: str) -> str:
        name = self._root.name
        if "not a git repository" in complaint:
            return f"the folder {name!r} is in no git repository; run 'git init' in it, or start with another folder"
        if "dubious ownership" in complaint:
            return (
                f"git refuses the folder {name!r} because it belongs to another user; if you trust it, run "
                f"'git config --global --add safe.directory {self._root}'"
            )
        return f"git {command} failed: {complaint.strip().partition(chr(10))[0] or 'it gave no reason'}"


_KINDS = {
    "A": "added",
    "C": "copied",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "type changed",
    "U": "unmerged",
}
_FIELDS_BEFORE_PATH = {"1": 8, "2": 9, "u": 10}
"""Per kind of entry (git-status, "Porcelain Format Version 2")."""


def parse_status(answer: str, prefix: str = "") -> Status:
    """Read what `git status --porcelain=v2 --branch -z` printed.

    Args:
        answer: Its output.
        prefix: What every path begins with and is left out: the folder's place in the repository.
    """
    status = Status()
    entries = iter(answer.split("\0"))
    for entry in entries:
        tag, _, rest = entry.partition(" ")
        if tag == "#":
            _read_header(status, rest)
        elif tag == "?":
            status.untracked.append(Change(rest.removeprefix(prefix) or ".", "untracked"))
        elif tag in _FIELDS_BEFORE_PATH:
            fields = entry.split(" ", _FIELDS_BEFORE_PATH[tag])
            path = fields[-1].removeprefix(prefix)
            if tag == "2":
                next(entries, "")  # the path before the renaming
            _add(status, path, "UU" if tag == "u" else fields[1])
    return status


def _add(status: Status, path: str, codes: str) -> None:
    staged, modified = codes[0], codes[1]
    if staged == "U":
        status.conflicted.append(Change(path, "unmerged"))
        return
    if staged != ".":
        status.staged.append(Change(path, _KINDS.get(staged, "modified")))
    if modified != ".":
        status.modified.append(Change(path, _KINDS.get(modified, "modified")))


def _read_header(status: Status, header: str) -> None:
    match header.split(" "):
        case ["branch.oid", oid] if oid != "(initial)":
            status.commit = oid
        case ["branch.head", name] if name != "(detached)":
            status.branch = name
        case ["branch.upstream", name]:
            status.upstream = name
        case ["branch.ab", ahead, behind]:
            status.ahead, status.behind = int(ahead), -int(behind)
        case _:
            pass
