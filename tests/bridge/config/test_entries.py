"""One entry becomes the facts of one server, or says what is wrong with it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.config import EntryError, ParsedEntry, entry_of, parse_entry
from gaia_bridge.model import (
    ArgumentTransform,
    HttpServerSpec,
    OAuthOptions,
    OpenApiServerSpec,
    ServerOptions,
    StdioServerSpec,
    ToolTransform,
)
from gaia_bridge.protocol.names import SERVER_NAME_RULE
from gaia_bridge.text.json_types import JSON

URL = "https://example.com/mcp"


def parsed(entry: Any, /, **environ: str) -> ParsedEntry:
    return parse_entry("x", entry, Path("/nowhere"), environ)


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels > 1 else [1]


def problem(entry: Any, /, **environ: str) -> str:
    with pytest.raises(EntryError) as refusal:
        parsed(entry, **environ)
    return str(refusal.value)


def warnings(entry: JSON) -> tuple[str, ...]:
    return parsed(entry).warnings


@pytest.mark.requirement("F-099a")
def test_every_key_has_its_place() -> None:
    entry = {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "server@1.0.0"],
        "env": {"TOKEN": "${T}"},
        "cwd": "/srv",
        "inherit_env": ["SSH_AUTH_SOCK"],
        "timeout": 5,
        "startup_timeout": 2.5,
        "idle_timeout": 60,
        "max_concurrency": 3,
        "isolation": "session",
        "era": "handshake",
        "disabled": True,
        "lazy": False,
        "allowed_tools": ["a", "b"],
        "disabled_tools": ["b"],
    }
    options = ServerOptions(5.0, 2.5, 60.0, 3, "session", True, False, ("a", "b"), ("b",), era="handshake")
    found = parsed(entry, T="s3cr3t")
    assert found.spec == StdioServerSpec(
        "x", "npx", ("-y", "server@1.0.0"), {"TOKEN": "s3cr3t"}, "/srv", ("SSH_AUTH_SOCK",), options
    )
    assert found.warnings == ()
    assert found.secrets == {"s3cr3t"}


@pytest.mark.parametrize("kind", [None, "http", "streamable-http", "streamableHttp", "streamable_http"])
def test_streamable_http_has_the_names_that_editors_give_it(kind: str | None) -> None:
    entry = {"type": kind, "url": URL, "headers": {"Authorization": "Bearer ${T}", "X-Version": 2}}
    found = parsed(entry, T="s3cr3t")
    assert found.spec == HttpServerSpec("x", URL, {"Authorization": "Bearer s3cr3t", "X-Version": "2"})
    assert found.secrets == {"s3cr3t"}


def test_logins_have_the_names_that_editors_give_them() -> None:
    oauth = {
        "clientId": "${env:ID}",
        "clientSecret": "${env:SECRET}",
        "clientMetadataUrl": "https://us.example.com/client.json",
        "issuer": "https://as.example.com/tenant",
        "scopes": ["${env:SCOPE}", "b"],
        "callbackPort": 8_765,
        "grantType": "client_credentials",
        "tokenEndpointAuthMethod": "client_secret_post",
    }
    found = parsed({"url": URL, "oauth": oauth}, ID="me-and-you", SECRET="s3cr3t", SCOPE="a")
    options = OAuthOptions(
        client_id="me-and-you",
        client_secret="s3cr3t",
        client_metadata_url="https://us.example.com/client.json",
        issuer="https://as.example.com/tenant",
        scope="a b",
        callback_port=8_765,
        grant="client_credentials",
        token_endpoint_auth_method="client_secret_post",
    )
    assert found.spec == HttpServerSpec("x", URL, oauth=options)
    assert found.warnings == ()
    assert found.secrets >= {"s3cr3t"}
    assert "s3cr3t" not in repr(found)


@pytest.mark.parametrize(
    ("oauth", "expected"),
    [
        (None, OAuthOptions()),
        ({}, OAuthOptions()),
        ({"clientId": None, "scopes": []}, OAuthOptions()),
        ({"scopes": " a  b "}, OAuthOptions(scope="a b")),
        (False, None),
    ],
)
def test_logging_in_is_possible_unless_the_entry_says_no(oauth: Any, expected: OAuthOptions | None) -> None:
    spec = parsed({"url": URL, "oauth": oauth}).spec
    assert isinstance(spec, HttpServerSpec)
    assert spec.oauth == expected


@pytest.mark.requirement("F-099a")
@pytest.mark.parametrize(
    ("oauth", "expected"),
    [
        (True, "'oauth' is true; expected an object, or false"),
        ("me", "'oauth' is a text; expected an object, or false"),
        ({"clientId": 1}, "'clientId' in 'oauth' is a number; expected a text"),
        ({"clientId": "${env:EMPTY}"}, "'clientId' in 'oauth' is empty"),
        ({"clientId": "${env:MISSING}"}, "'clientId' in 'oauth' needs the environment variable MISSING"),
        ({"scopes": ["a", "${env:MISSING}"]}, "'scopes' in 'oauth' needs the environment variable MISSING"),
        ({"scopes": {"a": 1}}, "'scopes' in 'oauth' is an object; expected a list of texts"),
        ({"scopes": [1]}, "item 1 of 'scopes' in 'oauth' is a number"),
        ({"scopes": 'a" b'}, "a scope has a character that no scope can have"),
        ({"callbackPort": "8765"}, "'callbackPort' in 'oauth' is a text; expected a whole number"),
        ({"callbackPort": 65_536}, "the callback port is none; expected 1 to 65535"),
        ({"grantType": "password"}, "'grantType' in 'oauth' has a value that is not known; expected \"authorization"),
        ({"tokenEndpointAuthMethod": "none"}, 'expected "client_secret_basic" or "client_secret_post"'),
        ({"issuer": "as.example.com"}, "'oauth' cannot be used: the issuer is not a plain URL"),
        ({"clientSecret": "s3cr3t"}, "there is a client secret, and no client id"),
        ({"grantType": "client_credentials"}, "without a login, it needs client id and issuer and client secret"),
    ],
)
def test_a_login_that_cannot_work_is_refused_and_no_value_shown(oauth: Any, expected: str) -> None:
    text = problem({"url": URL, "oauth": oauth}, EMPTY="")
    assert expected in text
    assert "s3cr3t" not in text


def test_the_older_transport_is_asked_for_by_name() -> None:
    assert parsed({"type": "sse", "url": URL}).spec == HttpServerSpec("x", URL, sse=True)


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, ()), (None, ()), ([], ()), (["A"], ("A",))])
def test_the_environment_is_inherited_as_the_entry_says(value: Any, expected: Any) -> None:
    spec = parsed({"command": "a", "inherit_env": value}).spec
    assert isinstance(spec, StdioServerSpec)
    assert spec.inherit_env == expected


def test_what_is_null_is_absent() -> None:
    entry = {"command": "a", "url": None, "args": None, "env": None, "timeout": None, "disabled": None, "lazy": None}
    assert parsed(entry) == ParsedEntry(StdioServerSpec("x", "a"))


@pytest.mark.requirement("F-099a")
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "a", "url": URL}, "it has both 'command' and 'url'"),
        ({"type": "http", "command": "a"}, "'type' does not go with 'command'"),
        ({"type": "stdio", "url": URL}, "'type' does not go with 'url'"),
        ({"type": "websocket", "url": URL}, "'type' does not go with 'url'"),
        ({"type": ["http"], "url": URL}, "'type' does not go with 'url'"),
        ({"command": "a", "timeout": "x"}, "'timeout' is a text; expected a number of seconds"),
        ({"command": "a", "timeout": True}, "'timeout' is true or false"),
        ({"command": "a", "timeout": 0}, "'timeout' is not above 0 and finite"),
        ({"command": "a", "startup_timeout": -1}, "'startup_timeout' is not above 0"),
        ({"command": "a", "idle_timeout": float("inf")}, "'idle_timeout' is not above 0 and finite"),
        ({"command": "a", "idle_timeout": float("nan")}, "'idle_timeout' is not above 0 and finite"),
        ({"command": "a", "timeout": 10**400}, "'timeout' is not above 0 and finite"),
        ({"command": "a", "max_concurrency": 1.5}, "'max_concurrency' is a fraction"),
        ({"command": "a", "max_concurrency": 0}, "'max_concurrency' is not above 0"),
        ({"command": "a", "lazy": "no"}, "'lazy' is a text; expected true or false"),
        ({"command": "a", "allowed_tools": "a"}, "'allowed_tools' is a text; expected a list"),
        ({"command": "a", "disabled_tools": [1]}, "item 1 of 'disabled_tools' is a number"),
        ({"command": "a", "inherit_env": "HOME"}, "'inherit_env' is a text; expected true, false or a list"),
        ({"command": "a", "inherit_env": ["A=B"]}, "'A=B' in 'inherit_env' cannot be the name"),
        ({"command": 1}, "'command' is a number; expected a text"),
        ({"url": [URL]}, "'url' is a list; expected a text"),
        ({"url": URL, "headers": ["A: b"]}, "'headers' is a list; expected an object"),
        ({"url": URL, "headers": {"A": {}}}, "'A' in 'headers' is an object; expected a text"),
        ({"url": URL, "tools": ["a"]}, "'tools' is a list; expected an object of objects"),
        ({"url": URL, "tools": {"a": "b"}}, "'tools.a' is a text; expected an object"),
        ({"url": URL, "tools": {"a": {"name": 1}}}, "'name' in 'tools.a' is a number; expected a text"),
        ({"url": URL, "tools": {"a": {"hidden": "yes"}}}, "'hidden' in 'tools.a' is a text; expected true or false"),
        ({"url": URL, "tools": {"a": {"name": "b c"}}}, "'name' in 'tools.a' cannot name a tool; expected 1 to 128 of"),
        (
            {"url": URL, "tools": {"a": {"arguments": 1}}},
            "'arguments' in 'tools.a' is a number; expected an object of objects",
        ),
        (
            {"url": URL, "tools": {"a": {"arguments": {"b": []}}}},
            "'tools.a.arguments.b' is a list; expected an object",
        ),
        (
            {"url": URL, "tools": {"a": {"arguments": {"b": {"name": ""}}}}},
            "'name' in 'tools.a.arguments.b' is empty; expected the name of an argument",
        ),
        (
            {"url": URL, "tools": {"a": {"arguments": {"b": {"default": ["${NOPE}"]}}}}},
            "'default' in 'tools.a.arguments.b' needs the environment variable NOPE, which is not set",
        ),
        (
            {"url": URL, "tools": {"a": {"arguments": {"b": {"default": deep(33)}}}}},
            "'default' in 'tools.a.arguments.b' is nested deeper than 32 levels",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_named(entry: JSON, expected: str) -> None:
    assert expected in problem(entry)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "ftp://example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http:///mcp",
        "http://host:0/",
        "http://host:65536/",
        "http://host:port/",
        "http://[::1/",
        "http://host/a b",
        "http://host/\r\nX: y",
        "http://host\\@other/",
        " http://host",
    ],
)
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    assert problem({"url": url}).startswith("'url' ")


@pytest.mark.parametrize("name", ["", "A B", "A:", "A\r\n", "ä"])
def test_what_cannot_name_a_header_is_refused(name: str) -> None:
    assert "in 'headers' cannot be the name of a header" in problem({"url": URL, "headers": {name: "x"}})


@pytest.mark.parametrize("value", ["a\r\nInjected: b", "a\nb", "a\rb", "\x1b[0m", "ä"])
def test_a_header_cannot_end_its_line(value: str) -> None:
    assert "'A' in 'headers' has a line end" in problem({"url": URL, "headers": {"A": value}})
    assert "'A' in 'headers' has a line end" in problem({"url": URL, "headers": {"A": "${V}"}}, V=value)


def test_a_header_is_there_once() -> None:
    assert "a header twice" in problem({"url": URL, "headers": {"accept": "a", "Accept": "b"}})


@pytest.mark.parametrize("url", ["http://example.com/", "http://10.0.0.1/", "http://localhost.example.com/"])
def test_plain_http_to_other_machines_is_pointed_out(url: str) -> None:
    [warning] = warnings({"url": url})
    assert "plain http" in warning


@pytest.mark.parametrize(
    "url",
    ["https://example.com/", "http://localhost:1/", "http://127.0.0.2/", "http://[::1]:8/", "http://a.localhost/"],
)
def test_what_stays_on_this_machine_or_is_encrypted_is_not(url: str) -> None:
    assert warnings({"url": url}) == ()


def test_a_password_in_a_url_is_pointed_out_and_not_shown() -> None:
    [warning] = warnings({"url": "https://me:s3cr3t@example.com/"})
    assert "user or password" in warning
    assert "s3cr3t" not in warning


@pytest.mark.requirement("S-36")
def test_tools_can_be_tailored_and_what_their_defaults_refer_to_is_secret() -> None:
    repo = {"hidden": True, "default": {"names": ["${A}/x", 1], "${A}": None}}
    about = {"name": "n", "title": "T", "description": "${A}", "arguments": {"repo": repo, "b": {"description": "d"}}}
    found = parsed({"url": URL, "tools": {"t": about, "u": {"hidden": True}, "v": None}}, A="s3cr3t")
    arguments = {
        "repo": ArgumentTransform(default={"names": ["s3cr3t/x", 1], "${A}": None}, secret=True, hidden=True),
        "b": ArgumentTransform(description="d"),
    }
    assert found.spec.options.tools == {
        "t": ToolTransform("n", "T", "${A}", arguments=arguments),
        "u": ToolTransform(hidden=True),
    }
    assert found.warnings == ()
    assert found.secrets == {"s3cr3t"}
    assert found.spec.options.secrets == ("s3cr3t",)
    assert "s3cr3t" not in repr(found)
    assert parsed({"url": URL, "tools": {"t": {"arguments": {"b": {"default": deep(32)}}}}}).secrets == set()


@pytest.mark.requirement("F-099a")
@pytest.mark.parametrize(
    ("entry", "warning"),
    [
        ({"command": "a", "autoApprove": []}, "'autoApprove' is not known"),
        ({"command": "a", "allowedTools": []}, "'allowedTools' is not known; is it meant to be 'allowed_tools'?"),
        ({"command": "a", "headers": {}}, "'headers' is not heeded: it does not go with 'command'"),
        ({"command": "a", "oauth": {}}, "'oauth' is not heeded: it does not go with 'command'"),
        ({"url": URL, "args": []}, "'args' is not heeded: it does not go with 'url'"),
        ({"url": URL, "auth": {}}, "'auth' is not known; is it meant to be 'oauth'?"),
        (
            {"url": URL, "oauth": {"client_id": "a"}},
            "'client_id' in 'oauth' is not known; is it meant to be 'clientId'?",
        ),
        ({"url": URL, "oauth": {"authServerMetadataUrl": "a"}}, "'authServerMetadataUrl' in 'oauth' is not known"),
        (
            {"url": URL, "oauth": {"clientId": "a"}, "headers": {"authorization": "b"}},
            "'oauth' is not heeded: 'headers' has an Authorization of its own",
        ),
        (
            {"url": URL, "oauth": {"clientId": "a", "clientSecret": "b"}},
            "'clientSecret' in 'oauth' is for whoever the server sends us to; 'issuer' beside it says who that may be",
        ),
        (
            {"command": "a", "tools": {"t": {"desciption": "d"}}},
            "'desciption' in 'tools.t' is not known; is it meant to be 'description'?",
        ),
        (
            {"command": "a", "tools": {"t": {"arguments": {"b": {"required": True}}}}},
            "'required' in 'tools.t.arguments.b' is not known",
        ),
        ({"command": "a", "tool_timeout_sec": 9}, "'tool_timeout_sec' is not known; is it meant to be 'timeout'?"),
        (
            {"command": "a", "startup_timeout_ms": 9},
            "'startup_timeout_ms' is not known; is it meant to be 'startup_timeout'?",
        ),
        ({"command": "a", "enabled": False}, "'enabled' is not known; is it meant to be 'disabled'?"),
        ({"url": URL, "workdir": "/x"}, "'workdir' is not known"),
        ({"command": "a", "timeout": 30_000}, "'timeout' is 30000 seconds; is it meant in milliseconds?"),
    ],
)
def test_what_is_probably_a_mistake_is_a_warning(entry: JSON, warning: str) -> None:
    assert warnings(entry) == (warning,)


REMOTE = {
    "command": "npx",
    "args": ["mcp-remote", URL, "--header", "Authorization:${AUTH_HEADER}", "--port=${env:PORT}"],
    "env": {"AUTH_HEADER": "Bearer ${TOKEN}", "PORT": 8080, "PATH": "${PATH}:/opt"},
    "cwd": "/srv/${PORT}",
}


def test_what_an_entry_refers_to_is_looked_for_among_its_own_variables_first() -> None:
    found = parsed(REMOTE, TOKEN="t0ken", PATH="/bin", PORT="1")
    spec = found.spec
    assert isinstance(spec, StdioServerSpec)
    assert (spec.args[3:], spec.cwd) == (("Authorization:Bearer t0ken", "--port=8080"), "/srv/8080")
    assert spec.env == {"AUTH_HEADER": "Bearer t0ken", "PORT": "8080", "PATH": "/bin:/opt"}
    assert {"t0ken", "Bearer t0ken"} <= found.secrets and not found.warnings
    assert "t0ken" not in repr(found)


def test_a_server_on_the_network_finds_what_its_entry_sets_as_well() -> None:
    entry = {"url": URL + "/${ID}", "headers": {"X": "${KEY:-none}"}, "env": {"ID": "one", "KEY": "two"}}
    spec = parsed(entry, KEY="other").spec
    assert isinstance(spec, HttpServerSpec)
    assert (spec.url, spec.headers, warnings(entry)) == (URL + "/one", {"X": "two"}, ())


def test_a_line_that_is_split_is_filled_in_from_its_own_variables() -> None:
    spec = parsed({"command": "x --to ${WHERE}", "env": {"WHERE": "a b"}}).spec
    assert isinstance(spec, StdioServerSpec) and spec.args == ("--to", "a b")


def test_a_variable_does_not_refer_to_one_of_its_own_entry() -> None:
    entry = {"command": "x", "env": {"A": "${B}", "B": "b"}}
    assert problem(entry) == "'A' in 'env' needs the environment variable B, which is not set"


@pytest.mark.requirement("C-19")
@pytest.mark.parametrize("key", ["trust", "trusted", "Approved"])
def test_an_entry_cannot_approve_itself(key: str) -> None:
    assert warnings({"command": "a", key: True}) == (f"{key!r} is not heeded: a file cannot approve its own servers",)


@pytest.mark.requirement("F-098")
@pytest.mark.parametrize("name", ["", " ", "..", ".", "-rf", "a\nb", "a\tb", "\x7f", "\u202ea", "x" * 129])
def test_an_impossible_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(EntryError) as refusal:
        parse_entry(name, {"command": "a"}, Path("/nowhere"), {})
    assert str(refusal.value) == SERVER_NAME_RULE


def test_a_command_line_becomes_an_entry() -> None:
    assert entry_of("npx -y 'some server' \"/my files\" $HOME ~") == {
        "command": "npx",
        "args": ["-y", "some server", "/my files", "$HOME", "~"],
    }
    assert entry_of(["npx", "a; b"], {"A": "1"}, "/srv") == {
        "command": "npx",
        "args": ["a; b"],
        "env": {"A": "1"},
        "cwd": "/srv",
    }


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_a_quoted_command_line_means_exactly_its_words(words: list[str]) -> None:
    if words[0].strip():
        assert entry_of(shlex.join(words)) == entry_of(words) == {"command": words[0], "args": words[1:]}


@pytest.mark.parametrize("line", ["a; b", "a | b", "a & b", "a > b", "a < b", "a `b`", "a $(b)", 'a "$(b)"'])
def test_a_line_that_needs_a_shell_is_refused(line: str) -> None:
    with pytest.raises(EntryError, match="needs a shell"):
        entry_of(line)


@pytest.mark.parametrize("line", ["", "  ", "a 'b", [], [""], "''"])
def test_a_line_without_a_program_is_refused(line: str | list[str]) -> None:
    with pytest.raises(EntryError, match="empty|cannot be split"):
        entry_of(line)


@pytest.mark.requirement("F-276")
@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ({"comand": "x"}, "is 'comand' meant to be 'command'?"),
        ({"serverUrl": "https://x"}, "is 'serverUrl' meant to be 'url'?"),
        ({"args": [], "httpUrl": "https://x"}, "is 'httpUrl' meant to be 'url'?"),
        ({"args": []}, "expected one of them"),
    ],
)
def test_a_key_that_was_meant_is_named(entry: JSON, hint: str) -> None:
    with pytest.raises(EntryError) as error:
        parse_entry("x", entry, Path("/"))
    assert str(error.value).endswith(hint)


@pytest.mark.requirement("F-276")
def test_a_reference_of_another_program_is_named_without_what_it_refers_to() -> None:
    for form, said in (
        ("${input:my-token}", "'K' in 'env': ${input:...} is VS Code's"),
        ("${vault:a/b}", "${vault:...}"),
    ):
        with pytest.raises(EntryError, match="is not understood") as error:
            parse_entry("x", {"command": "x", "env": {"K": form}}, Path("/"), {})
        assert said in str(error.value)
        assert "my-token" not in str(error.value)


def test_an_api_has_a_document_and_may_have_an_address_and_headers() -> None:
    entry = {
        "openapi": "https://example.com/${DOC}",
        "url": "https://api.example.com/v1",
        "headers": {"X-Key": "${env:KEY}"},
        "allowed_tools": ["a"],
    }
    found = parsed(entry, DOC="openapi.json", KEY="k3y-value")
    options = ServerOptions(allowed_tools=("a",))
    assert found.spec == OpenApiServerSpec(
        "x", "https://example.com/openapi.json", "https://api.example.com/v1", {"X-Key": "k3y-value"}, options
    )
    assert found.warnings == ()
    assert found.secrets == {"openapi.json", "k3y-value"}
    assert "k3y-value" not in repr(found)


def test_the_file_of_a_document_lies_where_the_entry_is() -> None:
    assert parsed({"openapi": "api.yaml"}).spec == OpenApiServerSpec("x", "/nowhere/api.yaml")
    assert parsed({"openapi": "/etc/api.yaml"}).spec == OpenApiServerSpec("x", "/etc/api.yaml")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"openapi": ""}, "'openapi' is empty; expected the URL or the path"),
        ({"openapi": "ftp://h/x"}, "'openapi' is no address of a server"),
        ({"openapi": {"openapi": "3.1.0"}}, "'openapi' is an object; expected a text"),
        ({"openapi": "a", "url": "nonsense"}, "'url' is no address of a server"),
        ({"openapi": "a", "command": "npx"}, "it has both 'command' and 'openapi'"),
        ({"openapi": "a", "type": "http"}, "its 'type' does not go with 'openapi'"),
        ({"openapi": "a", "headers": {"a\nb": "c"}}, "cannot be the name of a header"),
    ],
)
def test_an_api_that_cannot_be_used_says_why(entry: JSON, expected: str) -> None:
    assert expected in problem(entry)


def test_addresses_of_an_api_are_warned_of_as_those_of_servers_are() -> None:
    found = warnings({"openapi": "http://h.example/x", "url": "https://u:p@h.example", "env": {}})
    assert len(found) == 3
    assert "'openapi' is plain http" in found[1]
    assert "'url' has a user or password" in found[2]
