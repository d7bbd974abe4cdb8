"""Limits say what is wrong with a value when it is set, and not when it is first needed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, get_origin, get_type_hints

import pytest
from msgspec.structs import replace

from gaia_bridge import settings
from gaia_bridge.settings import AgentLimits, ClientLimits, HttpLimits, Limits, PageLimits, Settings

ALL = [kind for _, kind in inspect.getmembers(settings, inspect.isclass) if issubclass(kind, Limits)]


@pytest.mark.parametrize("kind", ALL)
def test_every_limit_has_a_default_of_its_type(kind: type[Limits]) -> None:
    hints = get_type_hints(kind)
    assert len(kind.__struct_defaults__) == len(kind.__struct_fields__)
    for name, default in zip(kind.__struct_fields__, kind.__struct_defaults__, strict=True):
        assert type(default) is (get_origin(hints[name]) or hints[name]), name


@pytest.mark.parametrize(
    ("kind", "field", "value", "problem"),
    [
        (AgentLimits, "threads", -1, "AgentLimits.threads is -1; expected a whole number, 0 or more"),
        (AgentLimits, "threads", 1.5, "AgentLimits.threads is 1.5; expected a whole number, 0 or more"),
        (AgentLimits, "queue", True, "AgentLimits.queue is True; expected a whole number, 0 or more"),
        (HttpLimits, "keep_alive", "75", "HttpLimits.keep_alive is '75'; expected a number, 0 or more and finite"),
        (HttpLimits, "keep_alive", -0.1, "HttpLimits.keep_alive is -0.1; expected a number, 0 or more and finite"),
        (PageLimits, "bytes", None, "PageLimits.bytes is None; expected a whole number, 0 or more"),
        (HttpLimits, "keep_alive", math.inf, "HttpLimits.keep_alive is inf; expected a number, 0 or more and finite"),
        (HttpLimits, "keep_alive", math.nan, "HttpLimits.keep_alive is nan; expected a number, 0 or more and finite"),
        (ClientLimits, "results", (("codex", 100),), "('codex', 100); expected the name of a client, and 0 for any"),
        (ClientLimits, "results", (("", 5_000),), "('', 5000); expected the name of a client, and 0 for any"),
        (ClientLimits, "instructions", (("a", False),), "('a', False); expected the name of a client, and 0 for any"),
        (ClientLimits, "instructions", ((7, 100),), "(7, 100); expected the name of a client, and 0 for any number or"),
        (
            ClientLimits,
            "results",
            ((" (via x)", 5_000),),
            "(' (via x)', 5000); expected the name of a client, and 0 for",
        ),
        (
            ClientLimits,
            "results",
            (("Codex", 5_000), ("x", 0), ("codex (via mcp-remote 1)", 0)),
            "has ('Codex', 5000) and ('codex (via mcp-remote 1)', 0); expected one number for a client, whatever the",
        ),
        (ClientLimits, "instructions", (("a", 1), ("a", 1)), "has ('a', 1) and ('a', 1); expected one number for a"),
        (Settings, "http", PageLimits(), "expected a value of the type HttpLimits"),
        (Settings, "tool_search", "auto", "Settings.tool_search is 'auto'; expected a value of the type ToolSearchPol"),
        (Settings, "max_hops", "x" * 1_000, "expected a whole number, 0 or more"),
    ],
)
def test_a_limit_that_is_none_is_refused_by_name(kind: type[Limits], field: str, value: Any, problem: str) -> None:
    makers: tuple[Callable[[], Limits], ...] = (
        lambda: kind(**{field: value}),
        lambda: replace(kind(), **{field: value}),
    )
    for made in makers:
        with pytest.raises(ValueError, match=r"; expected ") as caught:
            made()
        assert problem in str(caught.value)
        assert len(str(caught.value)) < 300


def test_zero_and_whole_seconds_are_limits() -> None:
    assert AgentLimits(queue=0, definitions_max_age=0, call_timeout=5).call_timeout == 5
