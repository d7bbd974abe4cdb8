"""What people write as for a shell: one line without `args`, `~/`, and `$VAR`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config import EntryError, ParsedEntry, entry_of, parse_entry
from gaia_bridge.config.launching.programs import programs_of
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.review.launch_lines import launch_warnings

ENVIRON = {"HOME": "/home/me", "PKG": "a b", "TOKEN": "t0"}


def parsed(entry: JSON, folder: Path = Path("/nowhere")) -> ParsedEntry:
    return parse_entry("x", entry, folder, ENVIRON)


def spec_of(entry: JSON) -> StdioServerSpec:
    spec = parsed(entry).spec
    assert isinstance(spec, StdioServerSpec)
    return spec


def line_of(entry: JSON) -> list[str]:
    spec = spec_of(entry)
    return [spec.command, *spec.args]


def problem(entry: JSON) -> str:
    with pytest.raises(EntryError) as refusal:
        parsed(entry)
    return str(refusal.value)


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


# One line


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("uvx mcp-server-time", ["uvx", "mcp-server-time"]),
        ("npx -y some-server '/my files'", ["npx", "-y", "some-server", "/my files"]),
        ("uvx --with ${PKG} x", ["uvx", "--with", "a b", "x"]),
        ("uvx ${NONE:-a b} x", ["uvx", "a b", "x"]),
        ("  uvx\tx ", ["uvx", "x"]),
        ("uvx ", ["uvx"]),
        ("uvx x ~/data", ["uvx", "x", "HOME/data"]),
        ("/bin/sh -c 'echo hi'", ["/bin/sh", "-c", "echo hi"]),
    ],
)
def test_a_command_without_args_is_split_and_its_references_stay_in_one_word(command: str, words: list[str]) -> None:
    expected = [word.replace("HOME", os.path.expanduser("~")) for word in words]
    assert line_of({"command": command}) == expected
    assert line_of({"command": command, "args": None}) == expected


@pytest.mark.parametrize("args", [[], ["y"]])
def test_a_command_with_args_is_not_split(args: list[str]) -> None:
    assert line_of({"command": "uvx x", "args": args}) == ["uvx x", *args]


def test_a_program_with_blanks_in_its_path_is_left_alone(tmp_path: Path) -> None:
    tool = program(tmp_path / "My Tools" / "serve it")
    assert line_of({"command": str(tool)}) == [str(tool)]
    assert line_of({"command": "serve it", "env": {"PATH": str(tool.parent)}}) == ["serve it"]
    assert line_of({"command": "./serve it", "cwd": str(tool.parent)}) == ["./serve it"]
    assert entry_of(str(tool)) == {"command": str(tool), "args": []}


def test_a_path_with_blanks_that_leads_nowhere_is_not_taken_apart(tmp_path: Path) -> None:
    """So that the error at its start names all of it."""
    missing = str(tmp_path / "My Tools" / "serve")
    assert line_of({"command": missing}) == [missing]
    tool = program(tmp_path / "serve")
    assert line_of({"command": f"{tool} --fast"}) == [str(tool), "--fast"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo hi | cat", "the command needs a shell because of its '|', and is not given to one"),
        ("uvx 'x", "the command cannot be split into arguments: no closing quotation"),
    ],
)
def test_what_cannot_be_split_is_refused_with_what_to_write(command: str, reason: str) -> None:
    assert problem({"command": command}).startswith(reason)
    assert problem({"command": command}).endswith("; or write 'args' beside it, which keep 'command' whole")
    assert line_of({"command": command, "args": []}) == [command]


def test_a_line_of_blanks_is_an_empty_command() -> None:
    assert problem({"command": " \t"}) == "'command' is empty"


def test_a_reference_of_a_line_that_leads_nowhere_is_named_without_the_line() -> None:
    assert problem({"command": "uvx ${GONE} x"}) == "'command' needs the environment variable GONE, which is not set"


@given(st.lists(st.text(st.characters(exclude_characters="\0$~", exclude_categories=["Cs"])), min_size=1, max_size=6))
def test_what_a_shell_would_join_is_split_as_it_was(arguments: list[str]) -> None:
    assert line_of({"command": shlex.join(["no-such-program-here", *arguments])})[1:] == arguments


def test_who_approves_a_line_is_warned_of_what_is_in_it(tmp_path: Path) -> None:
    script = program(tmp_path / "serve.py")
    assert launch_warnings({"command": "uvx some-server"}) == launch_warnings(
        {"command": "uvx", "args": ["some-server"]}
    )
    assert launch_warnings({"command": "sudo serve"}) == ["sudo runs as another user"]
    assert programs_of({"command": "python serve.py"}, tmp_path).files == (script,)
    assert programs_of({"command": "python -m serve"}, tmp_path).files == (script,)
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    assert programs_of({"command": "npx x"}, tmp_path).files == (tmp_path / "package.json",)


def test_a_file_that_would_be_launched_instead_of_the_line_is_approved_with_it(tmp_path: Path) -> None:
    whole = program(tmp_path / "bin" / "uvx x")
    assert whole in programs_of({"command": "uvx x", "env": {"PATH": "bin"}}, tmp_path).files
    assert whole in programs_of({"command": "bin/uvx x"}, tmp_path).files


# The home folder


def test_the_home_folder_takes_the_place_of_a_tilde_where_a_path_begins() -> None:
    entry: JSON = {"command": "~/bin/x", "args": ["~/docs", "${HOME}/y"], "cwd": "~/work", "env": {"DATA": "~/data"}}
    spec, home = spec_of(entry), os.path.expanduser("~")
    assert (spec.command, spec.args) == (f"{home}/bin/x", (f"{home}/docs", "/home/me/y"))
    assert (spec.cwd, spec.env) == (f"{home}/work", {"DATA": f"{home}/data"})
    assert spec_of({"command": "x", "args": ["~/${TOKEN}"]}).args == (f"{home}/t0",)


@pytest.mark.parametrize("word", ["~", "~bob/x", "a~/b", "--dir=~/x", " ~/x", "x:~/y", "${NONE:-~/x}"])
def test_a_tilde_elsewhere_is_a_character_like_any_other(word: str) -> None:
    spec = spec_of({"command": "x", "args": [word], "env": {"A": word}})
    expected = "~/x" if word.startswith("$") else word
    assert (spec.args, spec.env) == ((expected,), {"A": expected})


def test_a_secret_that_begins_like_a_path_at_home_is_not_changed() -> None:
    entry = {"command": "x", "env": {"PASSWORD": "${TOKEN}"}}
    parsed_entry = parse_entry("x", entry, Path(), {"TOKEN": "~/secret"})
    assert isinstance(parsed_entry.spec, StdioServerSpec)
    assert parsed_entry.spec.env == {"PASSWORD": "~/secret"}


def test_no_home_folder_is_an_error_that_names_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr("gaia_bridge.config.expansion.home_folder", homeless)
    assert problem({"command": "x", "args": ["~/a"]}) == (
        "item 1 of 'args' begins with '~', and there is no home folder; set HOME or write it"
    )


# $VAR


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"command": "$HOME/bin/x"}, "'command'"),
        ({"command": "$HOME/bin/x --fast"}, "'command'"),
        ({"command": "$HOME/bin/x", "args": []}, "'command'"),
        ({"command": "x", "cwd": "/srv/$HOME/y"}, "'cwd'"),
        ({"command": "x", "cwd": "$HOME"}, "'cwd'"),
    ],
)
def test_a_variable_without_braces_is_refused_where_no_shell_sees_it(entry: JSON, place: str) -> None:
    assert problem(entry) == f"{place} has $HOME, which is not filled in; write ${{HOME}}"


def test_a_folder_that_has_such_a_name_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "$HOME").mkdir()
    assert spec_of({"command": "x", "cwd": str(tmp_path / "$HOME")}).cwd == str(tmp_path / "$HOME")


@pytest.mark.parametrize(
    "text", ["$HOME", "$HOME/x", "--dir=$HOME/x", "$HOME:/work", "/a:$HOME", "a,$HOME", "${TOKEN}/$HOME"]
)
def test_a_variable_without_braces_is_passed_on_with_a_warning_elsewhere(text: str) -> None:
    found = parsed({"command": "x", "args": ["-y", text], "env": {"A": text}})
    hint = "has $HOME, which is passed on as it is; to have it filled in, write ${HOME}"
    assert found.warnings == (f"item 2 of 'args' {hint}", f"'A' in 'env' {hint}")
    assert isinstance(found.spec, StdioServerSpec)
    assert found.spec.args[1] == text.replace("${TOKEN}", "t0")


@pytest.mark.parametrize(
    "text",
    ["pa$HOME", "$HOMEs", "^a$", "$", "$$", "pa$$w0rd", "$1", "$HOME!x", "echo $HOME", "$GONE", "\\$HOMEx", "US$"],
)
def test_a_dollar_that_means_something_else_is_left_in_peace(text: str) -> None:
    found = parsed({"command": "x", "args": [text], "env": {"PASSWORD": text}})
    assert found.warnings == ()
    assert isinstance(found.spec, StdioServerSpec)
    assert (found.spec.args, found.spec.env) == ((text,), {"PASSWORD": text})


@pytest.mark.parametrize("shell", ["sh", "/bin/bash", "zsh"])
def test_what_a_shell_is_given_is_the_shells_to_fill_in(shell: str) -> None:
    assert parsed({"command": shell, "args": ["-c", "$HOME/bin/x"]}).warnings == ()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0{~")))
def test_no_text_without_braces_and_tilde_is_ever_changed(text: str) -> None:
    entry: dict[str, Any] = {"command": "x", "args": [text], "env": {"A": text}}
    found = parsed(entry).spec
    assert isinstance(found, StdioServerSpec)
    assert (found.args, found.env) == ((text,), {"A": text})
