"""Limits of agents are checked as those of the bridge are."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from gaia.agents.base.console import CONFIRM_TIMEOUT
from gaia.agents.chat.limits import ChatLimits
from gaia.agents.chat.store import StoreLimits
from gaia.llm.limits import ModelLimits
from gaia.mcp.aio.limits import ManagerLimits
from gaia_bridge.settings import Limits


@pytest.mark.parametrize("kind", [ChatLimits, ManagerLimits, ModelLimits, StoreLimits])
def test_every_limit_has_a_default_of_its_type(kind: type[Limits]) -> None:
    hints = get_type_hints(kind)
    assert len(kind.__struct_defaults__) == len(kind.__struct_fields__)
    for name, default in zip(kind.__struct_fields__, kind.__struct_defaults__, strict=True):
        assert type(default) is hints[name], name


@pytest.mark.parametrize(
    ("kind", "field", "value", "problem"),
    [
        (ChatLimits, "turn_timeout", -1, "ChatLimits.turn_timeout is -1; expected a number, 0 or more and finite"),
        (ModelLimits, "retries", 0.5, "ModelLimits.retries is 0.5; expected a whole number, 0 or more"),
        (StoreLimits, "busy_timeout", [], "StoreLimits.busy_timeout is []; expected a number, 0 or more and finite"),
        (ManagerLimits, "upstream", {}, "ManagerLimits.upstream is {}; expected a value of the type UpstreamLimits"),
    ],
)
def test_a_limit_that_is_none_is_refused_by_name(kind: type[Limits], field: str, value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        kind(**{field: value})
    assert str(caught.value) == problem


def test_a_confirmation_is_given_up_by_the_console_before_the_turn_gives_it_up() -> None:
    assert ChatLimits().confirm_timeout > CONFIRM_TIMEOUT
