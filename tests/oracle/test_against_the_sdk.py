"""Our verdicts on requests, malformed ones among them, are those of the SDK's server, or a row says why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.endpoints import HANDSHAKE, MODERN, Reply, our_lines, ours, their_lines, theirs
from tests.oracle.requests import Case, cases, generated
from tests.oracle.verdicts import compared, explained, rows

ERAS: Final = (HANDSHAKE, MODERN)
EXAMPLES: Final = 20
"""Requests of one generated list."""

_SHOWN: Final = 300
"""Bytes of a body."""

_WAYS: Final[Mapping[str, tuple[Callable[[str], AbstractAsyncContextManager[Any]], ...]]] = {
    "http": (ours, theirs),
    "lines": (our_lines, their_lines),
}


class Difference(NamedTuple):
    """Two verdicts."""

    revision: str
    case: Case
    ours: str
    theirs: str
    mine: Reply
    other: Reply


async def _differences(revision: str, way: str, sent: Iterable[Case]) -> list[Difference]:
    """What is different, with the connections opened once."""
    opened, reopened = _WAYS[way]
    found: list[Difference] = []
    async with opened(revision) as mine, reopened(revision) as other:
        for case in sent:
            if way == "lines" and not case.is_line:
                continue
            replies = [await endpoint.send(case.content, case.headers, case.method) for endpoint in (mine, other)]
            verdicts = compared(case, *replies)
            if verdicts[0] != verdicts[1]:
                found.append(Difference(revision, case, *verdicts, *replies))
    return found


@cache
def of_corpus(revision: str, way: str) -> list[Difference]:
    """The differences of the whole corpus."""
    return asyncio.run(_differences(revision, way, cases(revision)))


def unexplained(differences: Iterable[Difference]) -> str:
    """What no row covers."""
    left = (it for it in differences if not explained(it.revision, it.case, it.ours, it.theirs))
    return "\n".join(
        f"{it.revision} {it.case.label}\n"
        f"  ours: {it.ours} {it.mine.body[:_SHOWN]!r}\n"
        f"  theirs: {it.theirs} {it.other.body[:_SHOWN]!r}"
        for it in left
    )


@pytest.mark.parametrize(
    ("revision", "way"),
    [
        (HANDSHAKE, "http"),
        (MODERN, "http"),
        (MODERN, "lines"),
        pytest.param(HANDSHAKE, "lines", marks=pytest.mark.thorough),  # its requests are judged as those over HTTP
    ],
)
def test_every_request_of_the_corpus_is_answered_as_by_the_sdk_or_a_row_says_why_not(revision: str, way: str) -> None:
    assert not (found := unexplained(of_corpus(revision, way))), found


@pytest.mark.thorough
def test_every_row_of_the_table_occurs_in_each_of_its_eras_and_with_each_of_its_patterns() -> None:
    found = [it for revision in ERAS for way in _WAYS for it in of_corpus(revision, way)]
    used = {(row, it.revision) for it in found for row in explained(it.revision, it.case, it.ours, it.theirs)}
    eras = {"handshake": HANDSHAKE, "modern": MODERN}
    assert [(row.cases, era) for row in rows() for era in row.eras if (row, eras[era]) not in used] == []
    narrowed = [(row, row._replace(cases=(pattern,))) for row in rows() for pattern in row.cases]
    assert [
        alone.cases
        for _, alone in narrowed
        if not any(
            alone.covers("modern" if it.revision == MODERN else "handshake", it.case.label, it.ours, it.theirs)
            for it in found
        )
    ] == []


def test_every_row_of_the_table_has_a_reason_of_its_own() -> None:
    assert all(len(row.why) > 8 for row in rows())
    assert len(set(rows())) == len(rows())


def _compare(revision: str, way: str, sent: list[Case]) -> None:
    found = unexplained(asyncio.run(_differences(revision, way, sent)))
    assert not found, found


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("revision", ERAS)
def test_generated_requests_are_answered_as_by_the_sdk(revision: str, way: str) -> None:
    @given(st.lists(generated(revision), min_size=1, max_size=EXAMPLES))
    @settings(max_examples=10, derandomize=True)
    def check(sent: list[Case]) -> None:
        _compare(revision, way, sent)

    check()


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("revision", ERAS)
def test_many_generated_requests_are_answered_as_by_the_sdk(revision: str, way: str) -> None:
    @given(st.lists(generated(revision), min_size=1, max_size=EXAMPLES))
    @settings(max_examples=400, derandomize=True)
    def check(sent: list[Case]) -> None:
        _compare(revision, way, sent)

    check()
