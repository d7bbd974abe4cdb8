"""What is logged can neither hide nor forge anything, and stops nothing."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.calls.call_log import CallRecord, leave, record_of
from gaia_bridge.text.redaction import Redactor
from gaia_bridge_cli import main
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.logs import LineFormatter, hide_in_log, log_to_stderr
from gaia_bridge_cli.streams import QueuedBytes
from tests.support.agents import one_tool
from tests.support.bridges import text_of
from tests.support.chat_endpoint import ChatAgent, chatting, saying
from tests.support.on_demand import mcp, mcp_sse
from tests.support.waiting import PATIENCE

logger = logging.getLogger("gaia_bridge.example")


def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("gaia_bridge.example", logging.ERROR, __file__, 1, message, None, info)


@pytest.mark.requirement("F-113")
def test_a_record_is_one_line_whatever_is_in_it() -> None:
    text = LineFormatter("%(levelname)s %(message)s").format(record("one\nERROR forged\x1b[2J\u202e\ud800\ttab"))
    assert text == "ERROR one\\nERROR forged\\x1b[2J\\u202e\\ud800\\ttab"


@pytest.mark.requirement("F-113")
@pytest.mark.parametrize("name", ["echo", "two words\nand a line", "\x1b[2J\u202e\ud800", "x" * 500, "-secret-value-"])
def test_the_line_of_a_call_is_as_that_of_any_other_record(name: str) -> None:
    formatter = LineFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    formatter.redacted = Redactor(["-secret-value-"])
    call = CallRecord(name, 5, "tools/call", name, "source", "ok", 0.001, 1, 2)
    lines: list[str] = []
    for second in (0.0, 0.9, 61.0):
        made = record_of(call, second)
        lines.append(formatter.format(made))
        assert formatter.line_of(call, second) == lines[-1]
        made.msg, made.call = str(call), None
        assert formatter.format(made) == lines[-1]
    assert lines[0] == lines[1] != lines[2]


@pytest.mark.requirement("F-112")
def test_the_line_of_a_call_with_an_address_has_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    call = CallRecord("client/1", 5, "resources/read", "db://user:hunter2secret@host/x", "source", "ok", 0.001, 1, 2)
    assert "hunter2secret" not in LineFormatter().line_of(call, 0)


class Counting(logging.Handler):
    """Counts records."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


class Taking(logging.Handler):
    """Takes calls as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[CallRecord] = []
        self.records: list[logging.LogRecord] = []

    def take_call(self, call: CallRecord, created: float) -> bool:
        self.taken.append(call)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_a_call_is_logged_without_a_record_where_nobody_else_wants_one(monkeypatch: pytest.MonkeyPatch) -> None:
    call = CallRecord("client/1", 5, "tools/call", "work", "source", "ok", 0.001, 1, 2)
    root, package = logging.getLogger(), logging.getLogger("gaia_bridge")
    taking, counting = Taking(), Counting()
    monkeypatch.setattr(root, "handlers", [taking])
    leave(call)
    assert (taking.taken, taking.records) == ([call], [])
    for place in (root, package):
        place.addHandler(counting)
        leave(call)
        place.removeHandler(counting)
    assert (len(taking.taken), len(taking.records), counting.count) == (1, 2, 2)
    taking.setLevel(logging.WARNING)
    leave(call)
    taking.setLevel(logging.INFO)
    taking.addFilter(lambda record: False)
    leave(call)
    assert (len(taking.taken), len(taking.records)) == (1, 2), "it is not wanted"
    monkeypatch.setattr(package, "propagate", False)
    leave(call)
    assert (len(taking.taken), len(taking.records)) == (1, 2), "it does not get there"


def logged(monkeypatch: pytest.MonkeyPatch, log: Callable[[], None], *, queued: bool) -> str:
    """What is written to standard error, at once or by a thread of its own."""
    reading, writing = os.pipe()
    queue = QueuedBytes(writing)
    binary: Any = queue if queued else os.fdopen(writing, "wb", 0, closefd=False)
    stop = log_to_stderr("info")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", io.TextIOWrapper(binary, "utf-8", write_through=True))
        try:
            log()
            assert queue.drain(PATIENCE)
        finally:
            stop()
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        return pipe.read()


class Conversation:
    """What an agent may call a call."""

    method = "tools/call"


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("call", ["by telephone", Conversation()])
def test_a_record_of_an_agent_may_have_a_call_of_its_own(
    monkeypatch: pytest.MonkeyPatch, call: object, *, queued: bool
) -> None:
    said = logged(monkeypatch, lambda: logger.info("it %s", "rings", extra={"call": call}), queued=queued)
    assert said.endswith("INFO    gaia_bridge.example: it rings\n")


@pytest.mark.parametrize("queued", [False, True])
def test_calls_are_logged_whatever_formatter_an_agent_has_set(monkeypatch: pytest.MonkeyPatch, *, queued: bool) -> None:
    call = CallRecord("client/1", 5, "tools/call", "work", "source", "ok", 0.001, 1, 2)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])

    def log() -> None:
        root.handlers[0].setFormatter(logging.Formatter("%(levelname)s of an agent: %(message)s"))
        leave(call)

    assert logged(monkeypatch, log, queued=queued) == f"INFO of an agent: {call}\n"


def test_a_traceback_cannot_be_taken_for_a_record() -> None:
    try:
        raise ValueError("first\nERROR forged\x1b[2J")
    except ValueError as error:
        first, *rest = LineFormatter("%(levelname)s %(message)s").format(record("it broke", error)).split("\n")
    assert first == "ERROR it broke"
    assert rest
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_logging_goes_to_standard_error_until_it_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("mcp").level)
    stop = log_to_stderr("info")
    logger.info("news")
    logger.debug("detail")
    logging.getLogger("mcp.server").info("every step")
    stop()
    logger.error("too late")
    captured = capsys.readouterr()
    assert "INFO    gaia_bridge.example: news" in captured.err
    assert captured.out == ""
    assert "detail" not in captured.err
    assert "every step" not in captured.err
    assert "too late" not in captured.err
    assert (root.level, root.handlers, logging.getLogger("mcp").level) == before


def test_debug_logs_every_step_of_the_libraries_too(capsys: pytest.CaptureFixture[str]) -> None:
    stop = log_to_stderr("debug")
    logging.getLogger("mcp.server").info("every step")
    stop()
    assert "every step" in capsys.readouterr().err


@pytest.mark.anyio
async def test_debug_logs_no_conversation(capsys: pytest.CaptureFixture[str]) -> None:
    agents = {"chat": ChatAgent(saying("a secret answer")), "tools": one_tool(lambda _: "a secret result")}
    stop = log_to_stderr("debug")
    try:
        async with chatting(named=agents) as server:
            assert "secret answer" in (await server.complete(stream=True)).text
            async with mcp.Client(
                mcp_sse.sse_client(str(server.client.base_url.join("/sse"))), mode="legacy"
            ) as client:
                assert text_of(await client.call_tool("work", {"word": "a secret argument"})) == "a secret result"
    finally:
        stop()
    ours = [line for line in capsys.readouterr().err.splitlines() if " mcp.client." not in line]
    assert any("DEBUG" in line for line in ours)
    assert not [line for line in ours if "secret" in line]


def test_a_log_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    stop = log_to_stderr("info")
    logger.info("nobody reads this")
    stop()
    assert closed.closed


@pytest.mark.requirement("F-207", "F-112")
def test_no_record_holds_a_secret_not_even_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    stop = log_to_stderr("info")
    hide_in_log(["kept-in-the-environment", "/a/path/of/a/tool"])
    try:
        raise RuntimeError(
            "password=hunter2 kept-in-the-environment a2VwdC1pbi10aGUtZW52aXJvbm1lbnQ= /a/path/of/a/tool"
        )
    except RuntimeError:
        logger.exception("it broke with token=abcdefgh")
    finally:
        stop()
    said = capsys.readouterr().err
    assert "RuntimeError: password=***" in said
    assert "/a/path/of/a/tool" in said
    assert not [secret for secret in ("hunter2", "kept-in-the", "a2VwdC1pbi10aGUt", "abcdefgh") if secret in said]


SHOP = (
    "\nfrom mcp.server.mcpserver import MCPServer"
    """
shop = MCPServer("shop")
@shop.tool()
def price(article: str) -> float:
    return {"tea": 9.5}[article]
"""
)


def test_the_failure_of_a_tool_of_an_sdk_server_is_shown_with_the_tools_own_frames_and_no_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, heard = logging.getLogger(), io.StringIO()
    file = tmp_path / "shop.py"
    file.write_text(SHOP, encoding="utf-8")
    monkeypatch.setattr(root, "handlers", [])  # as in a command, where the SDK adds one of Rich
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(heard))
    assert main(["call", str(file), "price", "article=cup"]) == ExitCode.TOOL_FAILED
    assert not root.handlers
    first, *lines = heard.getvalue().splitlines()
    assert first == "Tool 'price' raised an unexpected exception"
    assert [line for line in lines if "File" in line] == [f'  File "{file}", line 6, in price']
    assert lines[-1] == "KeyError: 'cup'"
    assert "price failed" in capsys.readouterr().err
