"""Every rule of the table holds at endpoints of one agent, of one server and of three sources, in every revision."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from tests.probes.reaching import KINDS, REVISIONS, Endpoint, Reply, endpoint
from tests.probes.rules import RULES, Rule

pytestmark = pytest.mark.anyio

ALONE = set(product(KINDS, REVISIONS[-2:], ["http"]))
"""Where an agent and a server by themselves are probed each time."""


def of(revision: str, transport: str) -> list[Rule]:
    """The rules that can be probed there."""
    return [rule for rule in RULES if revision in rule.revisions and transport in rule.transports]


async def sent(rule: Rule, probed: Endpoint) -> Reply:
    client: Any = probed.client
    await (client.open() if rule.opened else client.restart())
    content = rule.sent(probed) if callable(rule.sent) else rule.sent
    reply: Reply = await client.send(content, rule.headers, rule.method)
    return reply


async def breach(rule: Rule, probed: Endpoint) -> str | None:
    """How a rule is broken, or `None` if it holds."""
    reply = await sent(rule, probed)
    try:
        held = rule.check(reply, probed)
    except Exception as error:
        return f"{type(error).__name__}: {error} in {reply}"
    return None if held else str(reply)


@pytest.mark.requirement("F-240", "F-208")
@pytest.mark.parametrize(
    ("kind", "revision", "transport"),
    [
        # What several sources make of a rule of an earlier revision or on stdio, they make of it alone, too.
        pytest.param(*way, marks=[] if way[0] == "three" or way in ALONE else [pytest.mark.thorough])
        for way in product(KINDS, REVISIONS, ("http", "stdio"))
    ],
)
async def test_every_rule_holds(kind: str, revision: str, transport: str) -> None:
    broken: Mapping[str, str] = {}
    async with endpoint(kind, revision, transport) as probed:
        found = {f"{rule.name} ({rule.section})": await breach(rule, probed) for rule in of(revision, transport)}
        broken = {name: what for name, what in found.items() if what is not None}
    assert not broken, "\n".join(f"{name}: {what[:600]}" for name, what in broken.items())


@pytest.mark.core
def test_every_rule_is_named_once_and_says_where_it_is_from() -> None:
    assert len({(rule.name, rule.section, tuple(rule.revisions)) for rule in RULES}) == len(RULES) >= 115
    assert all(rule.section and rule.revisions and set(rule.revisions) <= set(REVISIONS) for rule in RULES)
