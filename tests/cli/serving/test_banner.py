"""The banner says what is where and who may call, and never a secret."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge.model import LeftOut, ServerFeatures, ServerInfo, SourceKind, SourceState, SourceStatus
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.version import __version__
from gaia_bridge_cli.serving.banner import BannerFacts, ClientAccess, banner

TOKEN = "t" * 43


@dataclass(frozen=True)
class FixedSource:
    """A source that offers the same for ever."""

    name: str
    kind: SourceKind
    features: ServerFeatures
    status: SourceStatus = SourceStatus(SourceState.READY)


def named(*names: str, key: str = "name") -> tuple[dict[str, str], ...]:
    return tuple({key: name} for name in names)


def access_for(
    host: str, port: int = 8765, allow_hosts: tuple[str, ...] = (), token_file: Path | None = None
) -> ClientAccess:
    policy = AccessPolicy.for_address(host, port, allow_hosts=allow_hosts, token=TOKEN if token_file else None)
    return ClientAccess(host, port, allow_hosts, policy.hosts, token_file)


def text_of(*sources: FixedSource, access: ClientAccess, facts: BannerFacts | None = None) -> str:
    return click.unstyle(banner(sources, access, facts or BannerFacts()))


CODE = FixedSource(
    "code",
    SourceKind.AGENT,
    ServerFeatures(
        ServerInfo("Code", "1"),
        tools=named("search-code", "read-file"),
        prompts=named("review-code"),
        resources=named("project://tree", key="uri"),
        templates=named("file:///{path}", key="uriTemplate"),
        left_out=(LeftOut("tool", "odd\x1b[2J", "no\nobject"),),
    ),
)
FILES = FixedSource(
    "files",
    SourceKind.SERVER,
    ServerFeatures(ServerInfo("files", "")),
    SourceStatus(SourceState.FAILED, "cannot start 'npx': not found"),
)


def test_a_working_folder_that_is_gone_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(ConfigError, match="current folder: No such file"):
        text_of(CODE, access=access_for("127.0.0.1"))


def test_what_a_server_that_is_starting_offers_is_said_to_follow() -> None:
    starting = FixedSource("files", FILES.kind, FILES.features, SourceStatus(SourceState.STARTING, "it is starting"))
    assert "    starting: what it offers follows\n" in text_of(starting, access=access_for("127.0.0.1"))


def first_lines(*sources: FixedSource, facts: BannerFacts, access: ClientAccess | None = None) -> list[str]:
    text = text_of(*sources, access=access or access_for("127.0.0.1"), facts=facts)
    return text.partition("\n\n")[0].splitlines()[1:]


def test_the_first_lines_say_what_is_served_where_what_is_next_and_how_to_stop() -> None:
    assert first_lines(CODE, facts=BannerFacts(installed=("my agents/code.py",))) == [
        f"gaia-bridge {__version__} serves code (2 tools, 1 prompt, 1 resource) at http://127.0.0.1:8765/mcp",
        "Add to VS Code:  gaia-bridge install vscode 'my agents/code.py'",
        "Stop:  Ctrl-C",
    ]


def test_servers_of_the_configuration_are_named_with_the_option_that_leaves_them_out() -> None:
    [first, *_] = first_lines(CODE, FILES, facts=BannerFacts(configured=["files"]))
    assert " and configured server files (--no-servers leaves it out) at http" in first
    [first, *_] = first_lines(FILES, facts=BannerFacts(configured=["files"]))
    assert "serves configured server files at http" in first
    [first, *_] = first_lines(FILES, FILES, facts=BannerFacts())
    assert "serves servers files, files at http" in first


def test_a_server_of_the_persons_own_file_is_not_called_configured() -> None:
    shop = FixedSource("shop", SourceKind.SERVER, FILES.features)
    [first, *_] = first_lines(CODE, shop, FILES, facts=BannerFacts(configured=["files", "time"]))
    assert "serves code (2 tools, 1 prompt, 1 resource)" in first
    assert " and server shop and configured server files (--no-servers leaves it out) at http" in first
    [first, *_] = first_lines(shop, facts=BannerFacts(configured=[]))
    assert "serves server shop at http" in first


def test_where_nothing_is_served_the_first_lines_say_how_to_add_something() -> None:
    assert first_lines(facts=BannerFacts())[:2] == [
        f"gaia-bridge {__version__} serves nothing yet at http://127.0.0.1:8765/mcp",
        "Add something:  gaia-bridge add NAME COMMAND, or name an agent",
    ]


def test_an_editor_is_led_to_this_address_where_it_could_not_start_the_same() -> None:
    facts = BannerFacts(installed=None, has_auth=True)
    access = access_for("127.0.0.1", 4711, token_file=Path("token"))
    install = "Add to VS Code:  gaia-bridge install vscode --http --auth"
    assert first_lines(CODE, facts=facts, access=access)[1] == f"{install} --url http://127.0.0.1:4711/mcp"
    assert first_lines(CODE, facts=facts)[1] == install


def test_every_source_is_shown_with_its_addresses_and_all_it_offers() -> None:
    lines = text_of(CODE, FILES, access=access_for("127.0.0.1")).splitlines()
    assert lines[5:] == [
        "  http://127.0.0.1:8765/mcp  everything",
        "  http://127.0.0.1:8765/sse  the same, for older editors",
        f"  working folder: {Path.cwd()}",
        "",
        "  http://127.0.0.1:8765/agents/code/mcp  agent code",
        "  http://127.0.0.1:8765/agents/code/sse",
        "    2 tools: search-code, read-file",
        "    1 prompt: review-code",
        "    1 resource: project://tree",
        "    1 resource template: file:///{path}",
        "    left out: tool odd [2J: no object",
        "",
        "  http://127.0.0.1:8765/servers/files/mcp  server files",
        "    failed: cannot start 'npx': not found",
        "",
        "Access: programs on this machine, without a token (--auth asks for one)",
    ]


def test_the_models_are_named_where_there_are_some() -> None:
    access = access_for("127.0.0.1")

    def lines(*models: str) -> list[str]:
        return [line for line in text_of(CODE, access=access, facts=BannerFacts(models)).splitlines() if "/v1" in line]

    assert lines() == []
    start = "  http://127.0.0.1:8765/v1  for clients of OpenAI's API, with the "
    assert lines("gaia-code") == [f"{start}model gaia-code"]
    assert lines("a", "b\x1b[2J") == [f"{start}models a, b [2J"]


def test_a_long_list_of_names_is_cut() -> None:
    many = FixedSource(
        "many", SourceKind.AGENT, ServerFeatures(ServerInfo("m", "1"), tools=named(*(f"t{i}" for i in range(20))))
    )
    assert "    20 tools: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11 and 8 more\n" in text_of(
        many, access=access_for("127.0.0.1")
    )


@pytest.mark.requirement("S-36")
def test_the_token_is_named_by_its_file_and_never_shown() -> None:
    access = access_for("127.0.0.1", token_file=Path("/home/me/.gaia/bridge-token"))
    text = text_of(access=access, facts=BannerFacts(verbose=True))
    assert "Access: with the token in /home/me/.gaia/bridge-token; VS Code asks for it\n" in text
    assert "GAIA_BRIDGE_TOKEN" not in text_of(access=access)
    assert "save this as .vscode/mcp.json, and start VS Code with the token in GAIA_BRIDGE_TOKEN\n" in text
    assert TOKEN not in text
    assert "Bearer ${env:GAIA_BRIDGE_TOKEN}" in text


def test_the_snippet_is_what_vs_code_reads() -> None:
    text = text_of(access=access_for("127.0.0.1", 4711), facts=BannerFacts(verbose=True))
    assert json.loads(text[text.index("{") :]) == {
        "servers": {"gaia-bridge": {"type": "http", "url": "http://127.0.0.1:4711/mcp"}}
    }
    assert "  under the names 127.0.0.1:4711, [::1]:4711, localhost:4711" in text


def test_behind_a_proxy_the_urls_are_those_of_clients() -> None:
    policy = AccessPolicy.for_address("127.0.0.1", 8765, token=TOKEN, public_url="https://bridge.example/x/")
    access = ClientAccess("127.0.0.1", 8765, (), policy.hosts, Path("token"), policy.public)
    text = text_of(CODE, access=access, facts=BannerFacts(verbose=True))
    assert '"url": "https://bridge.example/x/mcp"' in text
    assert "https://bridge.example/x/agents/code/sse" in text
    assert "passes requests on to 127.0.0.1:8765" in text
    assert "http://" not in text


@pytest.mark.parametrize(
    ("host", "allow_hosts", "url"),
    [
        ("127.0.0.1", (), "http://127.0.0.1:8765"),
        ("localhost", (), "http://localhost:8765"),
        ("LOCALHOST", ("other.example",), "http://localhost:8765"),
        ("::1", (), "http://[::1]:8765"),
        ("0.0.0.0", ("bridge.example",), "http://bridge.example:8765"),
        ("0.0.0.0", ("bridge.example:80", "x"), "http://bridge.example:80"),
        ("::", ("fd00::1",), "http://[fd00::1]:8765"),
        ("0.0.0.0", ("[fd00::1]:9",), "http://[fd00::1]:9"),
    ],
)
def test_the_urls_are_ones_that_the_guard_accepts(host: str, allow_hosts: tuple[str, ...], url: str) -> None:
    access = access_for(host, allow_hosts=allow_hosts, token_file=Path("token"))
    assert access.base_url == url
    assert url.removeprefix("http://") in access.hosts
