"""How a server over HTTP starts and ends while clients are connected to it."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gaia_bridge.settings import HttpLimits
from tests.cli.running import INITIALIZE, run, running
from tests.process.driving import AGENTS, BOUND, LEGACY, OpenRequest, url_of

GRACE = HttpLimits().shutdown_grace
"""What a call in flight is given over HTTP."""


@pytest.mark.requirement("F-115", "F-116")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_every_stream_and_answers_the_call_in_flight(tmp_path: Path, number: signal.Signals) -> None:
    with ExitStack() as opened, running("serve", "--port", "0", str(AGENTS), cwd=tmp_path) as bridge:
        url = url_of(bridge)

        def opening(request: OpenRequest) -> OpenRequest:
            return opened.enter_context(closing(request))

        sse = opening(OpenRequest(f"{url}/sse"))
        assert sse.first_event().startswith(b"/messages/")
        handshake = opening(OpenRequest(f"{url}/mcp", INITIALIZE))
        session = handshake.response.headers["mcp-session-id"]
        standing = opening(
            OpenRequest(f"{url}/mcp", headers={"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY})
        )
        assert standing.response.status == 200
        wishes = {"toolsListChanged": True}
        listening = opening(OpenRequest.modern(f"{url}/mcp", "subscriptions/listen", notifications=wishes))
        assert b"acknowledged" in listening.first_event()
        call = opening(OpenRequest.modern(f"{url}/mcp", "tools/call", name="nap", arguments={}))
        bridge.until_error("napping")

        bridge.process.send_signal(number)
        if number == signal.SIGINT:
            bridge.until_error("Stopping; waiting for 1 call (nap). Ctrl-C again stops at once.")
        assert b'"from":"nap"' in call.rest()
        for stream in (sse, standing, listening):
            stream.rest()
        assert bridge.process.wait(BOUND) == 0
        assert "Traceback" not in bridge.all_errors()


@pytest.mark.requirement("F-115")
def test_a_call_that_never_ends_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with running("serve", "--port", "0", str(AGENTS), cwd=tmp_path) as bridge:
        request = OpenRequest.modern(f"{url_of(bridge)}/mcp", "tools/call", name="hang", arguments={})
        with closing(request):
            bridge.until_error("hanging")
            bridge.process.send_signal(signal.SIGTERM)
            assert bridge.process.wait(GRACE + BOUND) == 0
        assert "Traceback" not in bridge.all_errors()


@pytest.mark.requirement("F-115", "F-322", "S1-21")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_single_call_that_never_ends_is_told_of_the_end_under_its_own_id(tmp_path: Path, era: str) -> None:
    with running("serve", "--port", "0", str(AGENTS), cwd=tmp_path) as bridge:
        url = f"{url_of(bridge)}/"
        if era == "modern":
            request = OpenRequest.modern(url, "tools/call", name="hang", arguments={})
        else:
            request = OpenRequest(url, {"method": "tools/call", "params": {"name": "hang", "arguments": {}}})
        with closing(request):
            bridge.until_error("hanging")
            bridge.process.send_signal(signal.SIGINT)
            assert request.response.status == 503
            answer = json.loads(request.rest())
            assert answer["id"] == 1
            assert "shutting down" in answer["error"]["message"]
            assert bridge.process.wait(GRACE + BOUND) == 0
        errors = bridge.all_errors()
        assert "Traceback" not in errors
        assert "ERROR" not in errors


@pytest.mark.requirement("F-120")
def test_a_port_in_use_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        ended = run("serve", str(AGENTS), "--port", f"{port}", cwd=tmp_path)
    assert ended.returncode == 69
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1:{port}: the port is in use" in line
