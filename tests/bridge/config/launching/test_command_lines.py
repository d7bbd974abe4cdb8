"""Command strings are split, never given to a shell."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config.launching.command_lines import split_command


@pytest.mark.requirement("S0-27")
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("uvx mcp-server-time", ["uvx", "mcp-server-time"]),
        ("npx -y some-server '/my files' \"a b\"", ["npx", "-y", "some-server", "/my files", "a b"]),
        (r"run my\ file", ["run", "my file"]),
        ("run 'a;b|c&d<e>f`g' \";|&<>\"", ["run", "a;b|c&d<e>f`g", ";|&<>"]),
        (r"run \; \` a", ["run", ";", "`", "a"]),
        ("run $HOME ~ * '$(x)'", ["run", "$HOME", "~", "*", "$(x)"]),
        ("run ''", ["run", ""]),
    ],
)
def test_a_command_is_split_as_a_shell_splits_it(command: str, arguments: list[str]) -> None:
    assert split_command(command) == arguments


@pytest.mark.requirement("S0-53")
@pytest.mark.parametrize(
    ("command", "operator"),
    [
        ("true; touch pwned", "';'"),
        ("a | b", r"'\|'"),
        ("a&", "'&'"),
        ("a < in", "'<'"),
        ("a 2>err", "'>'"),
        ("a `b`", "'`'"),
        ('a "`b`"', "'`'"),
        ("a $(b)", r"'\$\('"),
        ('a "$(b)"', r"'\$\('"),
    ],
)
def test_what_needs_a_shell_is_refused_with_a_hint(command: str, operator: str) -> None:
    with pytest.raises(ValueError, match=f"needs a shell because of its {operator}.* quote the character"):
        split_command(command)


@pytest.mark.parametrize(
    ("command", "problem"),
    [("", "is empty"), ("  ", "is empty"), ("run 'a", "no closing quotation"), ("run \\", "no escaped character")],
)
def test_what_is_no_command_is_refused(command: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        split_command(command)


@given(st.lists(st.text(), min_size=1))
def test_quoted_arguments_come_back_whatever_they_contain(arguments: list[str]) -> None:
    assert split_command(shlex.join(arguments)) == arguments


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (r"C:\tools\x.exe --dir C:\data", [r"C:\tools\x.exe", "--dir", r"C:\data"]),
        (r'"C:\Program Files\x.exe" "C:\my data\\"', [r"C:\Program Files\x.exe", "C:\\my data\\\\"]),
        ("run it's", ["run", "it's"]),
        ("run ${A:-b c}", ["run", "${A:-b c}"]),
    ],
)
def test_on_windows_a_backslash_stands_between_folders(command: str, arguments: list[str]) -> None:
    assert split_command(command, windows=True) == arguments


def test_a_quoted_operator_is_an_argument_on_windows_too() -> None:
    assert split_command('run "a&b"', windows=True) == ["run", "a&b"]
    with pytest.raises(ValueError, match="needs a shell"):
        split_command("run 'a&b'", windows=True)


@pytest.mark.parametrize("command", ["run ${A:-b c} d", "run '${A:-b c}' d", "run x${A:-b c}\ue0000 d"])
def test_a_reference_stays_in_one_word(command: str) -> None:
    assert [word.replace("x", "").replace("\ue0000", "") for word in split_command(command)] == [
        "run",
        "${A:-b c}",
        "d",
    ]
