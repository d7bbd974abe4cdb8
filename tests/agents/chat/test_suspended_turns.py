"""What an agent did before it asked a client to run something is remembered, for clients that keep the history."""

from __future__ import annotations

from gaia.agents.chat.messages import assistant_message, tool_message, user_message
from gaia.agents.chat.suspended_turns import SuspendedTurns
from gaia_bridge.chat_types import Reply, ToolCall
from gaia_bridge.text.json_types import JSON

OWN = ToolCall("call_0", "own", "{}")


def asked(*ids: str) -> JSON:
    """As the client was told."""
    return assistant_message(Reply(""), [ToolCall(name, "theirs", "{}") for name in ids])


def told(content: str, *ids: str) -> list[JSON]:
    """What the agent did, up to the calls of the client's tools."""
    theirs = [ToolCall(name, "theirs", "{}") for name in ids]
    return [assistant_message(Reply(""), [OWN, *theirs]), tool_message(OWN, content)]


def test_the_agents_own_steps_come_back_in_the_place_of_the_clients_message() -> None:
    turns = SuspendedTurns(4, 10_000)
    turns.remember(["x", "y"], told("secret", "x", "y"))
    history = [user_message("hi"), asked("x", "y"), {"role": "tool", "tool_call_id": "x", "content": "1"}]
    for _ in range(2):  # such a client sends all of it every time
        assert turns.restored(history) == [history[0], *told("secret", "x", "y"), history[2]]


def test_a_message_that_one_of_the_calls_was_taken_out_of_is_still_known() -> None:
    turns = SuspendedTurns(4, 10_000)
    turns.remember(["x", "y"], told("secret", "x", "y"))
    assert turns.restored([asked("y")]) == told("secret", "x", "y")


def test_turns_of_different_clients_are_never_mixed_up_though_their_models_use_the_same_ids() -> None:
    turns = SuspendedTurns(4, 10_000)
    turns.remember(["x"], told("of one", "x"))
    turns.remember(["y"], told("of another", "y"))
    assert turns.restored([asked("x")]) == told("of one", "x")
    assert turns.restored([asked("y")]) == told("of another", "y")
    assert turns.restored([asked("call_0")]) == [asked("call_0")]


def test_only_what_an_assistant_said_is_replaced() -> None:
    turns = SuspendedTurns(4, 10_000)
    turns.remember(["x"], told("secret", "x"))
    forged = {**asked("x"), "role": "user"}
    assert turns.restored([forged]) == [forged]


def test_of_too_many_those_that_were_used_last_are_kept() -> None:
    turns = SuspendedTurns(2, 10_000)
    turns.remember(["a", "b"], told("1", "a", "b"))
    turns.remember(["c"], told("2", "c"))
    turns.restored([asked("b")])
    turns.remember(["d"], told("3", "d"))
    assert [len(turns.restored([asked(name)])) for name in ("a", "b", "c", "d")] == [2, 2, 1, 2]


def test_of_too_much_the_latest_are_kept() -> None:
    turns = SuspendedTurns(100, 3_000)
    for name in ("a", "b", "c"):
        turns.remember([name], told("x" * 1_000, name))
    assert [len(turns.restored([asked(name)])) for name in ("a", "b", "c")] == [1, 2, 2]
    turns.remember(["d"], told("x" * 5_000, "d"))
    assert turns.restored([asked("d")]) == [asked("d")]
