"""Replies are put together from whatever pieces a server sends."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia.llm.assembly import Assembly, repaired_arguments
from gaia_bridge.chat_types import Reply, ToolCall, Usage
from gaia_bridge.text.json_types import JSON


def assembled(*deltas: JSON, finish: str | None = "stop", offered: tuple[str, ...] = ()) -> Reply:
    numbers = itertools.count()
    assembly = Assembly(offered, new_id=lambda: f"new_{next(numbers)}")
    for delta in deltas:
        assembly.feed(chunk(delta))
    assembly.feed(chunk({}, finish))
    return assembly.reply()


def chunk(delta: JSON, finish: str | None = None) -> JSON:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(arguments: Any = None, name: str | None = None, **more: Any) -> JSON:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**more, "function": function}


def delta(*pieces: JSON) -> JSON:
    return {"tool_calls": list(pieces)}


def called(reply: Reply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in reply.tool_calls]


def test_text_is_given_at_once_and_again_in_the_reply() -> None:
    assembly = Assembly()
    assert [assembly.feed(chunk({"content": text})) for text in ("Hello", " you")] == ["Hello", " you"]
    assert assembly.reply().text == "Hello you"


def test_content_may_be_null_and_reasoning_is_left_out() -> None:
    thinking = {"role": "assistant", "content": None, "reasoning_content": "hm", "reasoning": "hm"}
    assert assembled(thinking, {"content": "yes"}).text == "yes"


def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]
    assert assembled({"content": parts}).text == "yes"


def test_a_refusal_is_what_was_said() -> None:
    assert assembled({"refusal": "No."}).text == "No."


def test_usage_may_come_in_a_chunk_without_choices() -> None:
    assembly = Assembly()
    assembly.feed(chunk({"content": "a"}, "stop"))
    assembly.feed({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    assembly.feed({"usage": None})
    assert assembly.reply().usage == Usage(7, 2)


@pytest.mark.parametrize(
    "junk", [{}, {"choices": None}, {"choices": [None]}, {"choices": ["x"]}, {"choices": [{"delta": None}]}]
)
def test_chunks_without_anything_do_no_harm(junk: JSON) -> None:
    assembly = Assembly()
    assert assembly.feed(junk) == ""
    assert assembly.reply() == Reply("")


@pytest.mark.parametrize("junk", [{"tool_calls": 3}, {"tool_calls": [None, "x"]}, {"content": 3}, {"content": [1]}])
def test_deltas_of_other_types_do_no_harm(junk: JSON) -> None:
    assert assembled(junk) == Reply("")


def test_other_choices_are_left_out() -> None:
    assembly = Assembly()
    assert assembly.feed({"choices": [{"index": 1, "delta": {"content": "other"}}]}) == ""


def test_a_whole_answer_is_taken_as_one_chunk() -> None:
    assembly = Assembly()
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Well.", "tool_calls": [call]}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}
    assert assembly.feed(answer) == "Well."
    assert assembly.reply() == Reply("Well.", (ToolCall("c", "add", "{}"),), "tool_calls", Usage(1, 0))


@pytest.mark.parametrize(
    ("said", "calls", "meant"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        (None, True, "tool_calls"),
        (None, False, "stop"),
        ("tool_calls", False, "stop"),
        ("function_call", True, "tool_calls"),
        ("length", True, "length"),
        ("max_tokens", False, "length"),
        ("content_filter", False, "content_filter"),
        ("eos", False, "stop"),
    ],
)
def test_the_finish_reason_is_one_of_openais(said: str | None, calls: bool, meant: str) -> None:
    deltas = [delta(piece("{}", "add", index=0, id="c"))] if calls else []
    assert assembled(*deltas, finish=said).finish_reason == meant


def test_a_finish_reason_that_is_an_error_is_told() -> None:
    assembly = Assembly()
    assembly.feed(chunk({}, "error"))
    assert assembly.failed


def test_calls_with_the_same_index_and_other_ids_are_other_calls() -> None:
    deltas = [delta(piece('{"n": 1}', "add", index=0, id="a")), delta(piece('{"n": 2}', "add", index=0, id="b"))]
    assert [(call.id, call.arguments) for call in assembled(*deltas).tool_calls] == [
        ("a", '{"n": 1}'),
        ("b", '{"n": 2}'),
    ]


def test_calls_with_the_same_index_and_no_ids_are_other_calls_once_one_is_complete() -> None:
    deltas = [delta(piece('{"n": 1}', "add", index=0)), delta(piece('{"n": 2}', "add", index=0))]
    assert called(assembled(*deltas)) == [("add", '{"n": 1}'), ("add", '{"n": 2}')]


def test_calls_in_one_chunk_are_other_calls_whatever_their_index_and_id() -> None:
    calls = delta(piece("{}", "add", index=0, id="x"), piece("{}", "add", index=0, id="x"))
    reply = assembled(calls)
    assert called(reply) == [("add", "{}"), ("add", "{}")]
    assert len({call.id for call in reply.tool_calls}) == 2


def test_pieces_without_an_index_belong_to_their_id_or_to_the_last_call() -> None:
    deltas = [
        delta(piece("", "add", id="a")),
        delta(piece('{"n":')),
        delta(piece(" 1}")),
        delta(piece("", "sub", id="b")),
        delta(piece('{"n": 2}', id="b")),
    ]
    assert called(assembled(*deltas)) == [("add", '{"n": 1}'), ("sub", '{"n": 2}')]


def test_pieces_of_two_calls_may_alternate() -> None:
    deltas = [
        delta(piece("", "add", index=0, id="a"), piece("", "sub", index=1, id="b")),
        delta(piece('{"n"', index=0), piece('{"m"', index=1)),
        delta(piece(": 1}", index=0)),
        delta(piece(": 2}", index=1)),
    ]
    assert called(assembled(*deltas)) == [("add", '{"n": 1}'), ("sub", '{"m": 2}')]


def test_an_id_that_is_repeated_in_every_piece_is_one_call() -> None:
    deltas = [delta(piece(text, "add", index=0, id="a")) for text in ("", '{"n":', " 1}", "")]
    assert called(assembled(*deltas)) == [("add", '{"n": 1}')]


def test_an_id_that_is_another_in_every_piece_is_one_call() -> None:
    deltas = [delta(piece("", "add", index=0, id="a")), delta(piece("{}", index=0, id="b"))]
    assert assembled(*deltas).tool_calls == (ToolCall("a", "add", "{}"),)


def test_ids_that_are_missing_or_taken_are_made_up() -> None:
    deltas = [
        delta(piece("{}", "add", index=0)),
        delta(piece("{}", "add", index=1, id="")),
        delta(piece("{}", "add", index=2, id="x")),
        delta(piece("{}", "add", index=3, id="x")),
        delta(piece("{}", "add", index=4, id=7)),
    ]
    assert [call.id for call in assembled(*deltas).tool_calls] == ["new_0", "new_1", "x", "new_2", "7"]


def test_arguments_may_be_an_object() -> None:
    assert called(assembled(delta(piece({"n": "ü"}, "add", id="a")))) == [("add", '{"n": "ü"}')]


@pytest.mark.parametrize("arguments", ["", "  ", None])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    assert called(assembled(delta(piece(arguments, "add", id="a")))) == [("add", "{}")]


@pytest.mark.parametrize(
    "pieces",
    [
        ["{}", '{"n": 1}'],
        [{}, '{"n"', ": 1}"],
        ['{"n": 1}', '{"n": 1}'],
        [json.dumps('{"n": 1}')],
    ],
)
def test_what_only_the_sending_did_to_arguments_is_undone(pieces: list[Any]) -> None:
    deltas = [delta(piece(part, index=0, id="a")) for part in pieces]
    deltas.insert(0, delta(piece(None, "add", index=0, id="a")))
    assert called(assembled(*deltas)) == [("add", '{"n": 1}')]


@pytest.mark.parametrize("arguments", ['{"n": 1', "add 1", '{"n": 1}{"n": 2}', "[" * 100_000, "[1]"])
def test_malformed_arguments_stay_as_the_model_wrote_them(arguments: str) -> None:
    assert called(assembled(delta(piece(arguments, "add", id="a")))) == [("add", arguments)]


def test_a_name_may_come_in_pieces_or_again() -> None:
    deltas = [delta(piece(None, part, index=0, id="a")) for part in ("get", "_wea", "ther")]
    assert called(assembled(*deltas, offered=("get", "get_weather"))) == [("get_weather", "{}")]
    deltas = [
        delta(piece(None, "get", index=0)),
        delta(piece(None, "get", index=0)),
        delta(piece("{}", "get", index=0)),
    ]
    assert called(assembled(*deltas, offered=("get",))) == [("get", "{}")]


def test_names_of_two_calls_are_not_one_name() -> None:
    deltas = [delta(piece("", "list")), delta(piece("", "show"))]
    assert called(assembled(*deltas, offered=("list", "show"))) == [("list", "{}"), ("show", "{}")]


def test_more_calls_than_there_may_be_are_told() -> None:
    assembly = Assembly(most_calls=2)
    assembly.feed(chunk(delta(*(piece("{}", "add", id=str(number)) for number in range(3)))))
    assert assembly.overfull
    assert len(assembly.reply().tool_calls) == 2


@pytest.mark.parametrize(
    ("text", "sent"),
    [('{"n": 1}', '{"n": 1}'), ('{"n": 1', "{}"), ("[1]", "{}"), (None, "{}"), ({"n": 1}, '{"n": 1}'), ("", "{}")],
)
def test_arguments_in_a_history_are_always_an_object(text: Any, sent: str) -> None:
    assert repaired_arguments(text) == sent


NAMES = st.text("abcdefgh_", min_size=1, max_size=12)
ARGUMENTS = st.dictionaries(NAMES, st.text(max_size=8) | st.integers(), min_size=1, max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)


def no_name_begins_with_another_twice(names: list[str]) -> bool:
    """Where one does, nobody can tell a name that is sent again from its second half."""
    return not any(longer.startswith(name + name) for name in names for longer in names)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    names = draw(st.lists(NAMES, max_size=4).filter(no_name_begins_with_another_twice))
    calls = tuple(ToolCall(f"id{number}", name, draw(ARGUMENTS)) for number, name in enumerate(names))
    return Reply(draw(st.text(max_size=20)), calls, "tool_calls" if calls else "stop", Usage(3, 4))


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in itertools.pairwise([0, *places, len(text)])]


@st.composite
def cut_replies(draw: st.DrawFn) -> tuple[Reply, list[JSON]]:
    """A reply, and chunks in which some server might send it."""
    reply = draw(replies())
    indexes = draw(st.sampled_from(["counted", "missing"]))
    repeated = draw(st.booleans())
    as_object = draw(st.booleans())
    chunks = [chunk({"role": "assistant", "content": draw(st.sampled_from([None, ""]))})]
    chunks += [chunk({"content": part}) for part in cut(draw, reply.text)]
    for number, call in enumerate(reply.tool_calls):
        index: JSON = {"index": number} if indexes == "counted" else {}
        if as_object:
            chunks.append(chunk(delta(piece(json.loads(call.arguments), call.name, id=call.id, **index))))
            continue
        chunks.append(chunk(delta(piece(draw(st.sampled_from(["", None])), call.name, id=call.id, **index))))
        again: JSON = {"id": call.id, "name": call.name} if repeated else {}
        chunks += [chunk(delta(piece(part, **again, **index))) for part in cut(draw, call.arguments)]
    if draw(st.booleans()):
        chunks.append(chunk({}, draw(st.sampled_from(["stop", reply.finish_reason]))))
    chunks.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    return reply, chunks


@given(cut_replies())
def test_any_way_of_cutting_a_reply_gives_the_same_reply(case: tuple[Reply, list[JSON]]) -> None:
    reply, chunks = case
    assembly = Assembly([call.name for call in reply.tool_calls])
    text = "".join(assembly.feed(item) for item in chunks)
    assert text == reply.text
    assert assembly.reply() == reply


FIELDS = st.sampled_from(
    [
        *("choices", "delta", "message", "tool_calls", "function", "name", "arguments", "id", "index", "content"),
        *("usage", "prompt_tokens", "finish_reason"),
    ]
)
VALUES = st.recursive(
    st.none() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(FIELDS, VALUES, max_size=4), max_size=5))
def test_nothing_that_a_server_sends_breaks_it(chunks: list[Any]) -> None:
    assembly = Assembly()
    for item in chunks:
        assembly.feed(item)
    reply = assembly.reply()
    assert all(call.id for call in reply.tool_calls)


def test_a_server_that_repeats_the_name_with_every_piece_is_not_listened_to_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[int] = []

    def loads(text: str) -> Any:
        parsed.append(len(text))
        return original(text)

    original = json.loads
    monkeypatch.setattr("gaia.llm.assembly.json.loads", loads)
    braces = "}" * 50_000
    reply = assembled(delta(piece('{"a": "', "f")), *[delta(piece(braces, "f")) for _ in range(100)])
    assert called(reply) == [("f", '{"a": "' + braces * 100)]
    assert sum(parsed) < 32 * 1024 * 1024


def test_a_name_that_never_ends_is_cut_short() -> None:
    [(name, _)] = called(assembled(*[delta(piece(name=f"{number}_")) for number in range(10_000)]))
    assert len(name) < 2_000
