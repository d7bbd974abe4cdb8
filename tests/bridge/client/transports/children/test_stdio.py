"""Whatever a child writes, its requests are answered or fail, and it costs nobody else anything."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import anyio
import pytest

from gaia_bridge.client.transport import ConnectionLostError, DirectLink, UpstreamError
from gaia_bridge.client.transports.children.stdio import StdioTransport
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.support.obedient_children import Received, child, do, launched
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

SLOW = 0.3
"""Seconds for what a test wants to time out."""


def message(number: int, code: str) -> JSON:
    return {"jsonrpc": "2.0", "id": number, "method": "do", "params": {"do": code}}


@pytest.mark.requirement("F-024", "S0-54", "P-3")
async def test_answers_find_their_requests_in_whatever_order_they_come() -> None:
    async with launched(child("late = []")) as link:
        answers: dict[int, JSON] = {}

        async def ask(number: int, code: str) -> None:
            answers[number] = await link.request(message(number, code))

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number in range(1, 20):
                    tasks.start_soon(ask, number, "late.append(current)")
                last = "late.append(current)\nfor current in reversed(late): reply({'n': current})"
                tasks.start_soon(ask, 20, last)
        assert {number: answer["result"] for number, answer in answers.items()} == {n: {"n": n} for n in range(1, 21)}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "for byte in line: raw(bytes([byte]))", id="one byte at a time", marks=pytest.mark.requirement("F-016")
        ),
        pytest.param("raw(line.replace(b'\\n', b'\\r\\n'))", id="CRLF", marks=pytest.mark.requirement("F-017")),
        pytest.param("raw(b'\\n\\n  \\n' + line)", id="blank lines"),
        pytest.param("raw(b'\\xef\\xbb\\xbf' + line)", id="byte order mark", marks=pytest.mark.requirement("F-012")),
        pytest.param("raw(line.replace(b'ok', b'\\xff'))", id="no UTF-8", marks=pytest.mark.requirement("F-011")),
        pytest.param("raw(line.replace(b'\"ok\"', b'NaN'))", id="NaN", marks=pytest.mark.requirement("F-039")),
        pytest.param("raw(b'[' + line.strip() + b']\\n')", id="batch"),
        pytest.param('raw(line.replace(b\'"id"\', b\'"method": null, "id"\'))', id="every field written"),
        pytest.param(
            "raw(b'Starting \\x1b[31m\\0...\\nlistening\\n' + line)",
            id="banner",
            marks=pytest.mark.requirement("F-008", "P-7"),
        ),
        pytest.param('raw(line.replace(b\'"id": %d\' % current, b\'"id": "%d"\' % current))', id="id as text"),
        pytest.param("raw(line.replace(b'\"id\": %d' % current, b'\"id\": %d.0' % current))", id="id with a fraction"),
        pytest.param("raw(line.replace(b'\"jsonrpc\": \"2.0\", ', b''))", id="no jsonrpc"),
        pytest.param('raw(b\'{"id": %d, "level": "info"}\\n\' % current + line)', id="a log in JSON"),
        pytest.param("raw(line * 3)", id="three times", marks=pytest.mark.requirement("F-022")),
        pytest.param(
            "for number in (999999, str(current + 1), None): send({'id': number, 'result': {}})\nraw(line)",
            id="answers to nobody first",
            marks=pytest.mark.requirement("F-019", "F-020", "F-021"),
        ),
    ],
)
async def test_an_answer_is_understood_however_it_is_written(code: str) -> None:
    make = "line = json.dumps({'jsonrpc': '2.0', 'id': current, 'result': {'said': 'ok'}}).encode() + b'\\n'\n"
    async with launched(child()) as link:
        result = await do(link, make + code)
        assert result["said"] in ("ok", "\ufffd", None)
        assert await do(link, "reply({'still': 'there'})") == {"still": "there"}


@pytest.mark.requirement("F-018", "P-6")
async def test_what_a_child_says_of_its_own_accord_is_heard_in_its_order() -> None:
    received = Received()
    async with launched(child(), received) as link:
        await do(link, 'raw(b\'\'.join(b\'{"jsonrpc": "2.0", "method": "m%d"}\\n\' % n for n in range(1000))); reply()')
    assert [message["method"] for message in received.messages] == [f"m{n}" for n in range(1000)]
    assert received.reasons == []


@pytest.mark.requirement("F-008", "F-010", "F-113")
async def test_the_first_lines_that_are_no_messages_are_kept_harmless_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with launched(child()) as link:
        await do(link, "raw(b'one\\x1b[31m\\n{\\n  \"id\": 1\\n}\\n' + b'more\\n' * 20); reply()")
        assert link.garbage.first == ["one\\x1b[31m", "{", '  "id": 1']
        assert link.garbage.count == 24
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        "upstream 'child' writes to its standard output what is no MCP message; skipped: one\\x1b[31m"
    ]


@pytest.mark.requirement("F-009")
async def test_a_child_that_writes_nothing_but_garbage_is_given_up() -> None:
    received = Received()
    async with launched(child(), received) as link:
        with pytest.raises(ConnectionLostError, match="more than 5,000 lines within 10 s"):
            await do(link, "raw(b'noise\\n' * 10_000)")
    assert len(received.reasons) == 1


@pytest.mark.requirement("F-014", "F-040")
@pytest.mark.parametrize("id_first", [True, False])
async def test_an_answer_that_is_too_long_fails_its_request_at_once_and_only_that(id_first: bool) -> None:
    result = "{'result': {'text': 'x' * 300_000, 'id': 7}}"
    keys = f"{{'id': current, **{result}}}" if id_first else f"{{**{result}, 'id': current, 'jsonrpc': '2.0'}}"
    async with launched(child(), message_bytes=100_000) as link:
        with pytest.raises(UpstreamError, match=r"sent a message of 300,\d\d\d bytes; at most 100,000 are read"):
            await do(link, f"raw(json.dumps({keys}).encode() + b'\\n')")
        assert await do(link, "reply({'still': 'there'})") == {"still": "there"}


@pytest.mark.requirement("F-040")
async def test_an_answer_that_is_nested_too_deep_fails_its_request_at_once_and_only_that() -> None:
    async with launched(child()) as link:
        with pytest.raises(UpstreamError, match="no valid JSON"):
            await do(link, "raw(b'{\"id\": %d, \"result\": ' % current + b'[' * 100_000 + b'\\n')")
        assert await do(link, "reply({'still': 'there'})") == {"still": "there"}


@pytest.mark.requirement("F-014")
async def test_a_long_answer_arrives_whole() -> None:
    async with launched(child()) as link:
        assert len((await do(link, "reply({'text': 'x' * 15_000_000})"))["text"]) == 15_000_000


@pytest.mark.requirement("F-015")
async def test_a_line_that_does_not_end_is_not_waited_for() -> None:
    received = Received()
    async with launched(child(), received, message_bytes=100_000, stop_grace=SLOW) as link:
        with pytest.raises(ConnectionLostError, match="to its standard output"):
            await do(link, "while True: raw(b'x' * 100_000)")
    assert len(received.reasons) == 1


@pytest.mark.requirement("F-013", "P-8")
async def test_a_flood_of_error_output_is_read_and_not_kept() -> None:
    lines: list[str] = []
    transport = StdioTransport(child(), UpstreamLimits(), lines.append)
    flood = "sys.stderr.write('noise\\n' * 10_000 + 'x' * 5_000_000 + '\\nlast\\n'); sys.stderr.flush(); reply()"
    async with transport.connect(Received()) as link:
        await do(link, flood)
    assert lines[:2] == ["noise", "noise"]
    assert lines[-1] == link.last_words == "last"
    assert lines[-2] == "(9,001 lines were left out: too many within a second)"
    assert len(lines) == 1_002
    assert all(len(line) < 5_000 for line in lines)


@pytest.mark.requirement("F-112", "S-36")
async def test_a_secret_of_many_lines_does_not_show_in_any() -> None:
    lines: list[str] = []
    transport = StdioTransport(child(SECRET="correct\nhorse battery"), UpstreamLimits(), lines.append)
    body = "".join(f"{'AbCd' * 16}\n" for _ in range(3))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}AbCd\n-----END PRIVATE KEY-----\n"
    async with transport.connect(Received()) as link:
        await do(link, f"sys.stderr.write({key!r} + 'ok\\n' + os.environ['SECRET'] + '\\n'); reply()")
    assert lines == ["***", "ok", "***", "***"]


@pytest.mark.requirement("F-112", "S-36", "F-008")
async def test_a_secret_among_garbage_does_not_show(caplog: pytest.LogCaptureFixture) -> None:
    async with launched(child(SECRET="correct horse")) as link:
        await do(link, "raw(('key: ' + os.environ['SECRET'] + '\\n').encode()); reply()")
        assert link.garbage.first == ["key: ***"]
    assert "correct horse" not in caplog.text


@pytest.mark.requirement("F-112", "S-36")
async def test_a_child_cannot_show_the_secrets_that_it_was_given() -> None:
    async with launched(child(SECRET="correct horse")) as link:
        await do(link, "sys.stderr.write('key: ' + os.environ['SECRET'] + ' and ghp_' + 'a' * 30 + '\\n'); reply()")
        with pytest.raises(ConnectionLostError):
            await do(link, "os._exit(0)")
        assert link.last_words == "key: *** and ***"


@pytest.mark.requirement("F-001", "F-002", "F-004", "F-034", "S0-11", "S0-56")
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os._exit(3)", "exited with code 3"),
        ("os._exit(0)", "exited with code 0"),
        ("os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
    ],
)
async def test_when_a_child_ends_everything_in_flight_fails_at_once_and_says_how_it_ended(
    code: str, reason: str
) -> None:
    received = Received()
    failures: list[str] = []
    async with launched(child(), received) as link:

        async def ask(code: str) -> None:
            with pytest.raises(ConnectionLostError) as error:
                await do(link, code)
            assert received.reasons == [reason]
            failures.append(str(error.value))

        async with anyio.create_task_group() as tasks:
            for waiting in ("pass", "pass", f"sys.stderr.write('last words'); sys.stderr.flush(); {code}"):
                tasks.start_soon(ask, waiting)
        assert failures == [f"{reason} before it answered; whether it did the work is unknown"] * 3
        assert link.last_words == "last words"
        with pytest.raises(ConnectionLostError, match=f"^{reason}$"):
            await do(link, "reply()")


@pytest.mark.requirement("F-025")
async def test_a_child_that_closes_its_output_and_goes_on_is_as_good_as_dead() -> None:
    received = Received()
    async with launched(child(), received, stop_grace=SLOW, terminate_grace=SLOW) as link:
        with pytest.raises(ConnectionLostError, match="closed its standard output before it answered"):
            await do(link, "os.close(1); stay()")
    assert received.reasons == ["closed its standard output"]


@pytest.mark.requirement("F-026")
async def test_a_child_that_closes_its_input_and_goes_on_is_as_good_as_dead() -> None:
    received = Received()
    async with launched(child(), received, stop_grace=SLOW, terminate_grace=SLOW) as link:
        with pytest.raises(ConnectionLostError, match="closed its standard input before it answered"):
            await do(link, "os.close(0); stay()")
    assert received.reasons == ["closed its standard input"]


@pytest.mark.requirement("F-033")
async def test_the_end_of_a_child_is_noticed_although_somebody_holds_its_pipes() -> None:
    async with launched(child(), terminate_grace=SLOW) as link:
        with pytest.raises(ConnectionLostError, match="exited with code 0"):
            await do(link, "spawn('stay()', stdin=0, stdout=1, stderr=2); os._exit(0)")


@pytest.mark.requirement("F-027")
async def test_a_child_that_does_not_read_holds_up_its_own_requests_and_not_for_ever() -> None:
    async with (
        launched(child("stay()"), write_timeout=SLOW, stop_grace=SLOW, terminate_grace=SLOW) as link,
        launched(child()) as other,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.request, message(1, "x" * 5_000_000))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(UpstreamError, match=r"has not read its standard input for 0\.3 s"):
                await do(link, "reply()")
            assert isinstance(link, DirectLink)
            assert not link.begin(message(2, "reply()"), asyncio.get_running_loop().create_future(), None)
            assert await do(other, "reply({'other': 'fine'})") == {"other": "fine"}
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-007", "F-023", "P-6")
async def test_a_request_that_nobody_waits_for_is_taken_back_and_its_late_answer_dropped() -> None:
    async with launched(child("given = []")) as link:
        with anyio.move_on_after(SLOW):
            await link.request(message(1_000_005, "given.append(current)"))
        with anyio.move_on_after(SLOW):
            await link.request({**message(1_000_006, "given.append(current)"), "method": "initialize"})
        result = await do(link, "for n in given: send({'id': n, 'result': {'late': n}})\nreply({'heard': heard})")
        assert [(one["method"], one["params"]["requestId"]) for one in result["heard"]] == [
            ("notifications/cancelled", 1_000_005)
        ]


async def test_text_that_no_unicode_knows_does_not_break_the_connection() -> None:
    async with launched(child()) as link:
        assert await do(link, "reply({'said': message['params']['text']})", text="a\ud800b") == {"said": "a?b"}
        with pytest.raises(UpstreamError, match="cannot be sent"):
            await do(link, "reply()", number=float("nan"))
        assert await do(link, "reply({'still': 'there'})") == {"still": "there"}


@pytest.mark.requirement("F-030")
async def test_many_children_work_and_stop_side_by_side() -> None:
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(do, await stack.enter_async_context(launched(child())), "reply()")
