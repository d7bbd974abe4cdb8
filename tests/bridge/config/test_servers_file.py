"""Reading `mcp_servers.json`: what loads, what is left out, and what is refused with which words."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.bridge.configured_servers import ConfiguredServers
from gaia_bridge.config import LoadReport, default_servers_path
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import StdioServerSpec
from tests.support.configured import load_servers

SECRET = "s3cr3t-canary-value"


def loaded(folder: Path, content: str | bytes, **environ: str) -> LoadReport:
    path = folder / "mcp_servers.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_servers(path, environ)


def entry(folder: Path, value: Any, /, **environ: str) -> LoadReport:
    """A file with one entry, named x, beside one that is always fine."""
    return loaded(folder, json.dumps({"mcpServers": {"x": value, "fine": {"command": "true"}}}), **environ)


def reason(file: LoadReport) -> str:
    """Why x was left out; the entry beside it must have loaded."""
    [skipped] = file.skipped
    assert (skipped.name, [server.name for server in file.servers]) == ("x", ["fine"])
    return skipped.reason


def child(file: LoadReport) -> StdioServerSpec:
    """The first server, which is a child process."""
    assert isinstance(spec := file.servers[0], StdioServerSpec)
    return spec


def refused(folder: Path, content: str | bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, content)
    assert str(folder / "mcp_servers.json") in str(caught.value)
    return caught.value


def test_a_complete_entry_becomes_a_launch_line(tmp_path: Path) -> None:
    value = {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "value"}, "cwd": "/srv"}
    assert entry(tmp_path, value).servers[0] == StdioServerSpec("x", "npx", ("-y", "server"), {"KEY": "value"}, "/srv")


def test_servers_keep_the_order_of_the_file(tmp_path: Path) -> None:
    entries = {name: {"command": "true"} for name in ("b", "c", "a")}
    assert [server.name for server in loaded(tmp_path, json.dumps({"mcpServers": entries})).servers] == ["b", "c", "a"]


def test_the_old_servers_key_is_read_where_the_new_one_is_absent(tmp_path: Path) -> None:
    assert loaded(tmp_path, '{"servers": {"x": {"command": "true"}}}').servers[0].name == "x"
    both = '{"servers": {"old": {"command": "true"}}, "mcpServers": {"new": {"command": "true"}}}'
    assert [server.name for server in loaded(tmp_path, both).servers] == ["new"]


def test_keys_of_other_programs_are_tolerated(tmp_path: Path) -> None:
    content = {
        "globalShortcut": "",
        "inputs": [{"id": "key"}],
        "mcpServers": {"x": {"type": "stdio", "command": "true", "autoApprove": ["*"], "url": None}},
    }
    report = loaded(tmp_path, json.dumps(content))
    assert [spec.name for spec in report.servers] == ["x"]
    assert report.warnings == (f"{tmp_path / 'mcp_servers.json'}: server x: 'autoApprove' is not known",)


@pytest.mark.parametrize("content", ["{}", '{"mcpServers": {}}'])
def test_a_file_without_servers_is_fine(tmp_path: Path, content: str) -> None:
    assert loaded(tmp_path, content).servers == ()


@pytest.mark.requirement("F-099")
def test_a_byte_order_mark_is_tolerated(tmp_path: Path) -> None:
    assert loaded(tmp_path, b'\xef\xbb\xbf{"mcpServers": {"x": {"command": "true"}}}').servers[0].name == "x"


def test_numbers_booleans_and_null_in_env_are_understood(tmp_path: Path) -> None:
    env = {"PORT": 8080, "RATIO": 0.5, "DEBUG": True, "QUIET": False, "UNSET": None}
    file = entry(tmp_path, {"command": "true", "env": env})
    assert child(file).env == {"PORT": "8080", "RATIO": "0.5", "DEBUG": "true", "QUIET": "false"}


def test_references_are_filled_in_everywhere(tmp_path: Path) -> None:
    value = {
        "command": "${env:BIN}/server",
        "args": ["--home=${HOME_DIR}", "${A}${B}", "${MISSING:-fall back}", "${EMPTY:-used}", "${A:-unused}"],
        "env": {"TOKEN": "${env:SECRET:-}"},
        "cwd": "${HOME_DIR}",
    }
    file = entry(tmp_path, value, BIN="/bin", HOME_DIR="/home/me", A="1", B="2", EMPTY="", SECRET=SECRET)
    assert file.servers[0] == StdioServerSpec(
        "x",
        "/bin/server",
        ("--home=/home/me", "12", "fall back", "used", "1"),
        {"TOKEN": SECRET},
        "/home/me",
    )


def test_what_a_shell_would_expand_stays_literal(tmp_path: Path) -> None:
    args = ["$HOME", "$(touch pwned)", "`id`", "~", "%PATH%", "$$", "${"]
    spec = child(entry(tmp_path, {"command": "true; touch pwned", "args": args}))
    assert (spec.command, spec.args) == ("true; touch pwned", tuple(args))


def test_a_value_that_was_filled_in_is_not_read_again(tmp_path: Path) -> None:
    file = entry(tmp_path, {"command": "${A}"}, A="${B}", B="twice")
    assert child(file).command == "${B}"


@pytest.mark.requirement("F-045")
@pytest.mark.parametrize("where", [{"command": "${NOPE}"}, {"command": "a", "args": ["${env:NOPE}"]}])
def test_an_undefined_variable_is_named(tmp_path: Path, where: dict[str, Any]) -> None:
    assert "NOPE, which is not set" in reason(entry(tmp_path, where))


@pytest.mark.requirement("F-045")
@pytest.mark.parametrize("text", ["${A:-${B}}", "${input:key}", "${}", "${A-b}", "${$(id)}"])
def test_a_reference_that_is_not_understood_is_not_guessed(tmp_path: Path, text: str) -> None:
    assert "not understood" in reason(entry(tmp_path, {"command": text}, A="1", B="2"))


@pytest.mark.requirement("F-099a", "F-046")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"command": "a", "url": "http://localhost"}, "both 'command' and 'url'"),
        ({}, "no 'command' and no 'url'"),
        ({"command": "a", "type": "websocket"}, "'type'"),
        ({"command": "a", "disabled": True}, "disabled"),
        ({"command": "a", "disabled": "no"}, "'disabled' is a text"),
        ({"command": ["a", "b"]}, "'command' is a list; expected a text"),
        ({"command": "  "}, "'command' is empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "a", "args": "-y server"}, "'args' is a text; expected a list"),
        ({"command": "a", "args": ["-p", 80]}, "item 2 of 'args' is a number"),
        ({"command": "a", "env": ["A=1"]}, "'env' is a list"),
        ({"command": "a", "env": {"A": ["1"]}}, "'A' in 'env' is a list"),
        ({"command": "a", "env": {"A=B": "1"}}, "'A=B' in 'env' cannot be the name"),
        ({"command": "a", "cwd": False}, "'cwd' is true or false"),
        ({"command": "a", "timeout": "soon"}, "'timeout' is a text; expected a number of seconds"),
        ({"command": "a", "disabled": True, "args": ["${NOPE}"]}, "disabled"),
        ("npx -y server", "the entry is a text; expected an object"),
    ],
)
def test_a_bad_entry_is_left_out_alone_with_its_reason(tmp_path: Path, value: Any, expected: str) -> None:
    assert expected in reason(entry(tmp_path, value))


@pytest.mark.parametrize(
    "name",
    [
        "@scope/my server",
        "a/b",
        "../x",
        "a&calc",
        "_x",
        "x" * 128,
        "😀",
        "a\\b",
        "a;b",
        "Zürich",
        "https://x",
        "__proto__",
    ],
)
def test_a_name_may_have_whatever_can_be_seen(tmp_path: Path, name: str) -> None:
    file = loaded(tmp_path, json.dumps({"mcpServers": {name: {"command": "true"}}}))
    assert [server.name for server in file.servers] == [name]
    assert file.skipped == ()


@pytest.mark.requirement("C-12", "F-098")
@pytest.mark.parametrize(
    "name", ["..", ".", "", "  ", "-rf", "x" * 129, "a\nb", "a\0b", "\u202ea", "a\u200bb", "\x1b[2J", "\ud800"]
)
def test_a_name_that_could_mean_something_else_is_left_out(tmp_path: Path, name: str) -> None:
    file = loaded(tmp_path, json.dumps({"mcpServers": {name: {"command": "true"}, "a.b_c-1": {"command": "true"}}}))
    assert [server.name for server in file.servers] == ["a.b_c-1"]
    assert [skipped.name for skipped in file.skipped] == [name]


@pytest.mark.requirement("F-099")
@pytest.mark.parametrize(
    "content", ['{"mcpServers": {\n  "x": {"command": "true",}\n}}', "{\n  // no\n}", '{"a": 1\n}}']
)
def test_invalid_json_is_refused_with_line_and_column(tmp_path: Path, content: str) -> None:
    error = refused(tmp_path, content)
    assert error.place == f"{tmp_path / 'mcp_servers.json'}:2:{error.place.rpartition(':')[2]}"
    assert error.problem.startswith("is not valid JSON: ")  # the place is not told twice
    assert error.hint


@pytest.mark.requirement("F-099")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is not valid JSON: Expecting value"),
        ("[]", "the file holds a list"),
        ("null", "the file holds null"),
        ('{"mcpServers": []}', "'mcpServers' is a list"),
        ('{"servers": "x"}', "'servers' is a text"),
        ('{"mcpServers": {"x": {}, "x": {}}}', "'x' appears twice"),
        ('{"mcpServers": {"x": {"command": "a", "timeout": NaN}}}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e400}', "a number is too large"),
        ("[" * 100_000, "nested too deep"),
        ('{"a": ' * 100_000, "nested too deep"),
        ('{"a": ' + "9" * 5_000 + "}", "too many digits"),
        (b'{"a": "\xff"}', "byte 8 is not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "byte 1 is not UTF-8"),
        ('{"a": "' + "x" * 1024 * 1024 + '"}', "larger than 1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_that_is_no_configuration_is_refused_in_words(
    tmp_path: Path, content: str | bytes, expected: str
) -> None:
    assert expected in refused(tmp_path, content).problem


@pytest.mark.requirement("F-099b")
def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        ConfiguredServers(tmp_path / "absent.json").first()
    assert caught.value.place == str(tmp_path / "absent.json")


@pytest.mark.requirement("F-099b")
def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        load_servers(tmp_path)


@pytest.mark.requirement("F-099b")
@pytest.mark.anyio
async def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with anyio.fail_after(5), pytest.raises(ConfigError, match="not a regular file"):
        await anyio.to_thread.run_sync(load_servers, tmp_path / "pipe", abandon_on_cancel=True)


@pytest.mark.requirement("F-099b")
def test_a_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        load_servers(Path("/dev/zero"))


@pytest.mark.requirement("F-099b")
def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match="cannot be read: Too many levels of symbolic links"):
        load_servers(tmp_path / "loop")


def test_the_default_file_is_in_the_home_folder() -> None:
    assert default_servers_path() == Path(os.environ["HOME"], ".gaia", "mcp_servers.json")


def test_a_leading_tilde_is_expanded() -> None:
    Path(os.environ["HOME"], "servers.json").write_text('{"mcpServers": {"x": {"command": "true"}}}', encoding="utf-8")
    assert load_servers(Path("~/servers.json")).servers[0].name == "x"


def test_references_are_looked_up_in_the_process_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_PROCESS", "here")
    path = tmp_path / "mcp_servers.json"
    path.write_text('{"mcpServers": {"x": {"command": "${FROM_PROCESS}"}}}', encoding="utf-8")
    assert child(load_servers(path)).command == "here"


@pytest.mark.requirement("S-36")
@pytest.mark.parametrize(
    "value",
    [
        {"command": "a", "env": {"TOKEN": SECRET}},
        {"command": "a", "env": {"TOKEN": "${SECRET_VALUE}"}},
        {"command": "a", "env": {"TOKEN": [SECRET]}},
        {"command": "a", "env": {"TOKEN": SECRET + "${A:-${B}}"}},
        {"command": "a", "env": {"TOKEN": SECRET + "\0"}},
        {"command": [SECRET]},
        {"command": "a", "args": SECRET},
        {"command": "a", "cwd": [SECRET]},
        {"command": "a", "type": SECRET},
        {"url": f"https://user:{SECRET}@example.com/?key={SECRET}"},
        {"url": f"{SECRET}://example.com"},
        {"url": f"http://{SECRET}:x/"},
        {"url": "https://example.com", "headers": {"Authorization": SECRET + "\n"}},
        {"command": "a", "timeout": SECRET},
        {"command": "a", "allowed_tools": SECRET},
        {"command": "a", "tools": {"t": {"arguments": {"x": {"default": SECRET}}}}},
        {"command": "a", "tools": {"t": {"arguments": {"x": {"default": SECRET + "${NOPE}"}}}}},
        SECRET,
    ],
)
def test_no_value_is_shown(tmp_path: Path, value: Any) -> None:
    assert SECRET not in repr(entry(tmp_path, value, SECRET_VALUE=SECRET))


@pytest.mark.requirement("S-36")
def test_no_value_is_shown_where_the_file_is_broken(tmp_path: Path) -> None:
    content = f'{{"mcpServers": {{"x": {{"env": {{"TOKEN": "{SECRET}" '
    error = refused(tmp_path, content)
    assert SECRET not in str(error) + repr(error.__cause__)
