"""Lines that are no messages, and lines that come before their time."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import tty
from pathlib import Path

import pytest

from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON
from tests.cli.running import DEADLINE, INITIALIZE, request, running
from tests.process.driving import AGENTS, BOUND, LEGACY, MODERN, LineClient, initialized
from tests.support.on_demand import mcp_types

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
CALM = f"{AGENTS}:CalmAgent"
STUCK = f"{AGENTS}:StuckAgent"
COMMAND = [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", str(AGENTS)]

NO_JSON = (b"{", b"hello", b'{"jsonrpc":"2.0",}', b"\xff\xfe{}", b"\x00", '{"jsonrpc": "2.0"}'.encode("utf-16"))
NO_MESSAGE = (
    (b"null", None),
    (b"17", None),
    (b'"ping"', None),
    (b"{}", None),
    (b'{"jsonrpc":"2.0"}', None),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', 1),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[1]}', "a"),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
    (b"[]", None),
)
"""Lines that are JSON, and the ids in them that can be answered."""


@pytest.mark.requirement("F-074", "F-075", "F-077", "S-12")
def test_a_line_that_is_no_message_is_answered_and_the_next_one_is_read(tmp_path: Path) -> None:
    with initialized(CALM, cwd=tmp_path) as client:
        refused = [(line, None, PARSE_ERROR) for line in NO_JSON]
        for line, identifier, code in [*refused, *((line, given, INVALID_REQUEST) for line, given in NO_MESSAGE)]:
            client.write(line + b"\n")
            refusal = client.next()
            assert (refusal["id"], refusal["error"]["code"]) == (identifier, code), line
            assert client.result("ping") == {}

        client.write(b"\n \n\r\n")
        client.write(b'{"jsonrpc":"2.0","id":"never asked","result":{}}\n')
        client.write(b'{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n')
        assert client.answer("crlf")["result"] == {}

        limit = Settings().line_bytes
        client.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * limit + b'"}}\n')
        refusal = client.next()
        assert (refusal["id"], refusal["error"]["code"]) == (1, INVALID_REQUEST)
        assert "longer than this server reads" in refusal["error"]["message"]
        assert client.result("ping") == {}

        assert client.others == []
        client.bridge.close_input()
        assert client.ended() == 0


@pytest.mark.requirement("P-2", "S-12")
def test_looking_around_does_not_decide_the_era(tmp_path: Path) -> None:
    with running("serve", "--stdio", CALM, cwd=tmp_path) as bridge:
        client = LineClient(bridge)
        for _ in range(2):
            assert client.result("server/discover", modern=True)["supportedVersions"] == [MODERN]
        assert client.initialize()["protocolVersion"] == LEGACY
        assert client.call_result("calm")["structuredContent"] == {"from": "calm"}
        bridge.close_input()
        assert client.ended() == 0
        assert bridge.all_errors() == ""


@pytest.mark.requirement("F-086")
def test_a_cancelled_request_is_not_answered_whenever_it_is_cancelled(tmp_path: Path) -> None:
    with initialized(STUCK, cwd=tmp_path) as client:
        for _ in range(2):
            client.notify("notifications/cancelled", requestId="nobody's")
        client.notify("notifications/cancelled", requestId=1)  # answered already: it was the handshake
        hanging = client.call("hang-async")
        client.bridge.until_error("hanging")
        for _ in range(2):
            client.notify("notifications/cancelled", requestId=hanging, reason="changed my mind")
        client.bridge.until_error("cancelled")
        unstarted = client.call("hang-async")
        client.notify("notifications/cancelled", requestId=unstarted)
        assert client.result("ping") == {}
        assert client.call_result("nap")["structuredContent"] == {"from": "nap"}
        client.bridge.close_input()
        assert client.ended() == 0
        assert client.others == []


@pytest.mark.requirement("P-2", "F-118", "S-12")
@pytest.mark.parametrize("through", ["pipes", "files"])
def test_what_was_sent_before_the_end_of_input_is_answered(tmp_path: Path, through: str) -> None:
    """As in `printf ... | gaia-bridge serve --stdio`, with a look around that nobody waited for."""
    meta: JSON = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    messages = [
        request(0, "server/discover", _meta=meta),
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "tools/call", name="nap", arguments={}),
        *(request(number, "tools/call", name="calm", arguments={"n": number}) for number in range(3, 10)),
    ]
    sent = "\n".join(json.dumps(message) for message in messages).encode()
    answers: dict[int, JSON] = {}
    for line in piped(sent, tmp_path) if through == "pipes" else redirected(sent, tmp_path):
        mcp_types.jsonrpc_message_adapter.validate_json(line)
        answer = json.loads(line)
        answers[answer["id"]] = answer["result"]
    assert answers[0]["supportedVersions"] == [MODERN]
    assert answers[1]["protocolVersion"] == LEGACY
    assert answers[2]["structuredContent"] == {"from": "nap"}
    assert {number: answers[number]["structuredContent"]["n"] for number in range(3, 10)} == {
        number: number for number in range(3, 10)
    }
    assert len(answers) == len(messages) - 1


def piped(sent: bytes, folder: Path) -> list[bytes]:
    ended = subprocess.run(COMMAND, cwd=folder, input=sent, stdout=subprocess.PIPE, timeout=DEADLINE, check=True)
    return ended.stdout.splitlines()


def redirected(sent: bytes, folder: Path) -> list[bytes]:
    source, target = folder / "sent", folder / "received"
    source.write_bytes(sent)
    with source.open() as stdin, target.open("w") as stdout:
        subprocess.run(COMMAND, cwd=folder, stdin=stdin, stdout=stdout, timeout=DEADLINE, check=True)
    return target.read_bytes().splitlines()


@pytest.mark.requirement("F-116", "F-074")
def test_a_terminal_is_served_like_an_editor(tmp_path: Path) -> None:
    terminal, theirs = pty.openpty()
    tty.setraw(theirs)
    with open(terminal, "rb+", buffering=0) as ours:
        with subprocess.Popen(COMMAND, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as process:
            os.close(theirs)
            try:
                ours.write(b"hello\n")
                assert json.loads(ours.readline())["error"]["code"] == PARSE_ERROR
                ours.write(json.dumps(INITIALIZE).encode() + b"\n")
                assert json.loads(ours.readline())["result"]["protocolVersion"] == LEGACY
                process.send_signal(signal.SIGINT)
                assert process.wait(BOUND) == 0
            finally:
                process.kill()
            assert process.stderr is not None
            assert process.stderr.read() == b"Stopping. Ctrl-C again stops at once.\n"
