"""`gaia-bridge status` tells its token to a bridge that knows it, and to nobody else; whatever answers is bounded."""

from __future__ import annotations

import itertools
import json
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from gaia_bridge.bridge.report import INFO
from gaia_bridge.errors import ServerUnavailableError
from gaia_bridge.server.http.token import token_proof
from gaia_bridge_cli import main, running_bridge
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.running_bridge import bridge_status
from tests.cli.running import run, running

TOKEN = "a" * 40
Body = Callable[[str, str], bytes | Iterator[bytes]]
"""What to answer, given the path with its query, and the Host."""


@pytest.fixture(autouse=True)
def token() -> None:
    """The user has served with `--auth` before."""
    file = Path.home() / ".gaia" / "bridge-token"
    file.parent.mkdir(mode=0o700)
    file.write_text(TOKEN + "\n", "ascii")
    file.chmod(0o600)


@contextmanager
def answering(body: Body, status: int = 200, version: str = "HTTP/1.1") -> Generator[tuple[str, list[str | None]]]:
    """Something that listens; its address, and the credentials that it was sent."""
    seen: list[str | None] = []

    class Answers(BaseHTTPRequestHandler):
        protocol_version = version

        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(200 if "challenge" in self.path else status)
            answer = body(self.path, self.headers["Host"])
            if isinstance(answer, bytes):
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with suppress(OSError):
                for piece in (answer,) if isinstance(answer, bytes) else answer:
                    self.wfile.write(piece)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def proving(path: str, host: str) -> bytes:
    """As a bridge answers that knows the token."""
    [challenge] = parse_qs(urlsplit(path).query).get("challenge", [""])
    return json.dumps({"sources": [], "proof": token_proof(TOKEN, challenge, host)}).encode()


def healthy(path: str, host: str) -> bytes:
    """As a bridge without a token answers."""
    return json.dumps({"status": "healthy", "service": INFO.title, "agents": 0, "tools": 0}).encode()


@pytest.mark.requirement("F-267", "S-36")
def test_whoever_proves_to_know_the_token_is_sent_it() -> None:
    with answering(proving) as (url, seen):
        bridge_status(url)
    assert seen == [None, f"Bearer {TOKEN}"]


IMPOSTORS: dict[str, Body] = {
    "no proof": lambda path, host: b'{"sources": []}',
    "a number": lambda path, host: b'{"proof": 5}',
    "an old proof": lambda path, host: json.dumps({"proof": token_proof(TOKEN, "another", host)}).encode(),
    "the challenge": lambda path, host: json.dumps({"proof": path.rpartition("=")[2]}).encode(),
    "what a bridge at another port answered": lambda path, host: proving(path, "127.0.0.1:8765"),
    "a page": lambda path, host: b"<html>",
}


@pytest.mark.requirement("F-267", "S-36")
@pytest.mark.parametrize("body", IMPOSTORS.values(), ids=IMPOSTORS)
def test_whoever_does_not_is_not(body: Body) -> None:
    with answering(body, 401) as (url, seen), pytest.raises(ServerUnavailableError, match="it was not sent the token"):
        bridge_status(url)
    assert seen == [None, None]


@pytest.mark.requirement("F-267")
def test_a_proof_on_a_connection_that_is_gone_is_worth_nothing() -> None:
    """Somebody else may have taken the port in between."""
    with answering(proving, version="HTTP/1.0") as (url, seen):
        bridge_status(url)
    assert seen == [None, None]


@pytest.mark.requirement("F-267", "S-36")
def test_no_other_machine_is_challenged_or_sent_anything() -> None:
    with answering(proving) as (url, seen):
        bridge_status(url.replace("127.0.0.1", "0.0.0.0"))  # by its name it might be any
    assert seen == [None]


@pytest.mark.requirement("F-267")
@pytest.mark.parametrize("asked", ["/health", "/status"])
def test_an_answer_without_end_is_cut(asked: str) -> None:
    def body(path: str, host: str) -> bytes | Iterator[bytes]:
        return itertools.repeat(b" " * 65_536) if path.startswith(asked) else proving(path, host)

    with answering(body) as (url, _), pytest.raises(ServerUnavailableError, match="more than 8,388,608 bytes"):
        bridge_status(url)


@pytest.mark.requirement("F-267")
def test_an_answer_that_drips_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece comes long before a reader would be tired of waiting for it."""
    monkeypatch.setattr(running_bridge, "_PATIENCE", 0.3)

    over = Event()

    def body(path: str, host: str) -> Iterator[bytes]:
        while not over.wait(0.01):
            yield b" "

    with answering(body) as (url, _):
        with pytest.raises(ServerUnavailableError, match=r"it took longer than 0\.3 seconds"):
            bridge_status(url)
        over.set()


def test_the_reason_of_a_bridge_is_passed_on() -> None:
    refusal = json.dumps({"error": {"code": -32600, "message": "Host is not one of\n those"}}).encode()
    with answering(lambda path, host: refusal, 421) as (url, _), pytest.raises(ServerUnavailableError) as error:
        bridge_status(url)
    assert "it answered 421: Host is not one of those" in str(error.value)


@pytest.mark.parametrize("body", [b"<html>", b'{"error": "no such page"}', b'{"status": "healthy"}'])
def test_a_port_of_another_program_is_called_no_bridge(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(lambda path, host: body, 404) as (url, _):
        assert main(["status", "--url", url]) == ExitCode.UNAVAILABLE
        assert capsys.readouterr().err.endswith(": no gaia-bridge answers there: it answered 404\n")
        assert main(["serve", "--no-agents", "--port", url.rpartition(":")[2]]) == ExitCode.UNAVAILABLE
        assert "the port is in use (stop the other program, or" in capsys.readouterr().err


@pytest.mark.parametrize("body", [proving, healthy], ids=["with a token", "open"])
def test_a_port_of_another_bridge_comes_with_the_command_that_shows_it(
    body: Body, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(body) as (url, _):
        assert main(["serve", "--no-agents", "--port", url.rpartition(":")[2]]) == ExitCode.UNAVAILABLE
    assert f"another gaia-bridge listens there (see what it serves: gaia-bridge status --url {url}; end it, or" in (
        capsys.readouterr().err
    )


@pytest.mark.requirement("F-267", "F-268")
def test_a_bridge_of_servers_alone_with_a_token_tells_its_owner_how_it_is(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"mcpServers": {"up": {"command": "true"}}}', "utf-8")
    options = ("--port", "0", "--auth", "--no-agents", "--config", "servers.json")
    with running("serve", *options, cwd=tmp_path) as bridge:
        url = next(word for word in bridge.until_error("http://127.0.0.1:").split() if word.startswith("http://127"))
        base = "/".join(url.split("/")[:3])
        with urllib.request.urlopen(f"{base}/health?challenge=x") as response:
            authority = base.removeprefix("http://")
            assert json.load(response) == {"status": "healthy", "proof": token_proof(TOKEN, "x", authority)}
        with urllib.request.urlopen(f"{base}/health?challenge={'x' * 129}") as response:
            assert json.load(response) == {"status": "healthy"}
        told = json.loads(run("status", "--json", "--url", base).stdout)
        assert [source["name"] for source in told["sources"]] == ["up"]
    assert run("serve", "code", "--no-agents").returncode == 64
