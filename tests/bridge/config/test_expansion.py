"""References in values: what they lead to, what is refused, and what is remembered as secret."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config.expansion import (
    MAX_SECRET,
    Expander,
    as_text,
    has_reference,
    without_references,
)
from gaia_bridge.config.problems import EntryError


def expand(text: str, folder: Path = Path("/nowhere"), /, **environ: str) -> str:
    return Expander(environ, folder).text("'key'", text)


def problem(text: str, folder: Path = Path("/nowhere"), /, **environ: str) -> str:
    with pytest.raises(EntryError) as refusal:
        expand(text, folder, **environ)
    return str(refusal.value)


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A keyring of one entry, in the place of the optional package."""
    module = ModuleType("keyring")
    entries = {("https://example.com/api", "me"): "from the keyring"}
    module.get_password = lambda service, name: entries.get((service, name))  # type: ignore[attr-defined]  # made here
    monkeypatch.setitem(sys.modules, "keyring", module)
    return module


@pytest.mark.requirement("F-045")
@given(st.text())
def test_only_references_mean_anything(text: str) -> None:
    if "${" not in text:
        assert expand(text) == text


@given(st.text("${}A:-/ x"), st.integers(0, 4))
def test_what_is_written_as_text_is_passed_on_as_it_is(text: str, dollars: int) -> None:
    assert expand(as_text(text)) == text == without_references(as_text(text))
    assert not has_reference(as_text(text))
    assert expand(f"{as_text(text)} {'$$' * dollars}${{A}}", A="v") == f"{text} {'$' * dollars}v"


def test_two_dollars_before_a_brace_are_one() -> None:
    assert [expand(text, A="v") for text in ("$${A}", "$$${A}", "$$$${A}", "$$A", "$$${A", "a$$")] == [
        "${A}",
        "$v",
        "$${A}",
        "$$A",
        "$$${A",
        "a$$",
    ]


@pytest.mark.requirement("F-045")
@given(st.text())
def test_what_is_filled_in_is_never_read_again(value: str) -> None:
    assert expand("<${A}>", A=value) == f"<{value}>"


@pytest.mark.requirement("F-045")
@pytest.mark.parametrize(
    "text", ["${A:-${B}}", "${$(id)}", "${A:-$(id)}", "${file:${A}}", "${keyring:$(id)/x}", "${}", "${A-b}", "${1}"]
)
def test_nested_and_shell_like_references_are_refused(text: str) -> None:
    assert problem(text, A="1", B="2").startswith("'key' has a ${...} that is not understood; expected ${VAR}, ")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_gives_its_content_without_the_last_line_end(tmp_path: Path, end: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(f" first\nsecond {end}".encode())
    assert expand(f"<${{file:{file}}}>") == "< first\nsecond >"


def test_the_path_of_a_file_begins_where_the_configuration_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("relative", encoding="utf-8")
    Path(os.environ["HOME"], "token").write_text("at home", encoding="utf-8")
    assert expand("${file:token} ${file:~/token}", tmp_path) == "relative at home"


@pytest.mark.parametrize(("home", "expected"), [("/srv/me", "/srv/me/x"), ("/srv/me/", "/srv/me/x"), ("/", "/x")])
def test_a_path_in_the_home_folder_is_written_with_one_slash(
    home: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home)
    assert Expander({}, Path("/nowhere")).path("'args'", "~/x") == expected


def test_a_variable_may_be_called_file(tmp_path: Path) -> None:
    assert expand("${file:-none} ${keyring:-none} ${file}", file="") == "none none "


@pytest.mark.requirement("F-099b")
def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"x" * (MAX_SECRET + 1))
    assert problem("${file:absent}", tmp_path) == (
        f"'key' needs a file: {tmp_path / 'absent'}: cannot be read: No such file or directory"
    )
    assert "not a regular file" in problem("${file:pipe}", tmp_path)
    assert "is a directory" in problem("${file:.}", tmp_path)
    assert "not a regular file" in problem("${file:/dev/zero}", tmp_path)
    assert "byte 1 is not UTF-8" in problem("${file:binary}", tmp_path)
    assert "larger than 65,536 bytes" in problem("${file:large}", tmp_path)
    assert "NUL" in problem("${file:a\0b}", tmp_path)


def test_a_secret_comes_from_the_keyring(keyring: ModuleType) -> None:
    assert expand("Bearer ${keyring:https://example.com/api/me}") == "Bearer from the keyring"


def test_what_the_keyring_does_not_have_is_named(keyring: ModuleType) -> None:
    assert problem("${keyring:service/me}") == "'key' needs 'me' of 'service' in the keyring, which is not there"
    assert "expected ${keyring:SERVICE/NAME}" in problem("${keyring:service}")


def test_a_keyring_that_fails_is_only_named(keyring: ModuleType) -> None:
    def fail(service: str, name: str) -> str:
        raise OSError("s3cr3t")

    keyring.get_password = fail  # type: ignore[attr-defined]  # made above
    assert problem("${keyring:service/me}") == "'key' needs the keyring, which failed with OSError"


def test_without_its_package_the_keyring_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert "pip install 'gaia-mcp-bridge[keyring]'" in problem("${keyring:service/me}")


@pytest.mark.requirement("S-36")
def test_what_was_looked_up_is_remembered_as_secret(tmp_path: Path, keyring: ModuleType) -> None:
    (tmp_path / "token").write_text("from a file\n", encoding="utf-8")
    environ = {"TOKEN": "from a variable", "HOME": "/home/me", "EMPTY": ""}
    expander = Expander(environ, tmp_path)
    text = "${TOKEN} ${file:token} ${keyring:https://example.com/api/me} ${HOME} ${EMPTY} ${NONE:-default}"
    expander.text("'key'", text)
    assert expander.secrets == {"from a variable", "from a file", "from the keyring"}


def test_what_an_entry_sets_is_found_before_the_environment_and_a_secret_may_begin_like_a_path(tmp_path: Path) -> None:
    entry = {"args": ["${A}", "${B}"], "env": {"A": "own"}}
    filled = Expander({"A": "theirs", "B": "~/x"}, tmp_path, entry).entry(entry)
    assert filled["args"] == ["own", "~/x"]
