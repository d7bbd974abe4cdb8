"""Public names: unique, fit for every client, and reversible only through their map."""

from __future__ import annotations

import hashlib
import re
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.model import NamingPolicy, SourceKind
from gaia_bridge.protocol.names import (
    MAX_QUALIFIED,
    SourceName,
    assign_names,
    is_server_name,
    is_source_name,
    qualified_name,
    source_prefix,
    source_prefixes,
)

AGENT, SERVER = SourceKind.AGENT, SourceKind.SERVER

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")

source_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True)
printable = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=150)
"""Names that people may give a server."""
meeting = st.sampled_from(
    ["my server", "my_server", "my-server", "my.server", "@my/server", "My Server", "日本", "中国", "!"]
)
tool_name_rule = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""MCP 2025-11-25, server/tools, "Tool Names"."""
crowded = st.sampled_from(["a", "b", "a__b", "b__a", "a__b__a", "mcp_a_b", "x" * 64, "x" * 65, "a.b", "a_b", ""])
items = st.builds(
    SourceName,
    source=st.sampled_from(["a", "b", "a__b", "a.b", "a_b", "s" * 64]) | source_names | printable | meeting,
    kind=st.sampled_from(SourceKind),
    name=crowded | st.text(st.characters(exclude_categories=()), max_size=80),
)
lists_of_items = st.lists(items, max_size=30, unique_by=lambda item: (item.source, item.name))
policies = st.sampled_from(NamingPolicy)


@given(lists_of_items, policies)
@pytest.mark.requirement("F-098", "S1-19")
def test_every_item_gets_one_name_of_its_own_and_the_name_leads_back(
    listed: list[SourceName], policy: NamingPolicy
) -> None:
    assigned, _ = assign_names(listed, policy)
    assert list(assigned.values()) == listed


@given(lists_of_items, policies)
def test_a_name_is_the_items_own_or_fit_for_every_client(listed: list[SourceName], policy: NamingPolicy) -> None:
    assigned, _ = assign_names(listed, policy)
    assert all(name == item.name or SAFE.fullmatch(name) for name, item in assigned.items())


@given(lists_of_items, policies)
def test_names_are_the_same_every_time(listed: list[SourceName], policy: NamingPolicy) -> None:
    assert assign_names(listed, policy) == assign_names(list(listed), policy)


@given(lists_of_items, lists_of_items, policies)
def test_a_source_that_is_added_later_renames_nothing(
    first: list[SourceName], later: list[SourceName], policy: NamingPolicy
) -> None:
    known = {(item.source, item.name) for item in first}
    both = [*first, *(item for item in later if (item.source, item.name) not in known)]
    before, _ = assign_names(first, policy)
    after, _ = assign_names(both, policy)
    assert list(after.items())[: len(before)] == list(before.items())


@given(items, policies)
def test_a_qualified_name_is_one_that_every_client_takes(item: SourceName, policy: NamingPolicy) -> None:
    assert SAFE.fullmatch(qualified_name(item, policy))


@given(lists_of_items)
def test_qualified_names_stay_apart_where_editors_cut_them(listed: list[SourceName]) -> None:
    assigned, _ = assign_names(listed, NamingPolicy.DOUBLE)
    copilot = [f"gaia-mcp-bridge-{name}"[:64] for name in assigned]
    gemini = [f"mcp_gaia-mcp-bridge_{name}" for name in assigned]
    assert len(set(copilot)) == len(assigned)
    assert all(len(name) <= 64 for name in gemini)


def test_of_a_name_that_is_too_long_the_tools_own_part_stays() -> None:
    item = SourceName("io.github.example-company-documentation", SERVER, "search_pages")
    name = qualified_name(item, NamingPolicy.DOUBLE)
    assert name.startswith("io_github_example-com__search_pages_") and len(name) == MAX_QUALIFIED
    long = SourceName("probe", SERVER, "create_a_new_pull_request_review_comment_on_a_file")
    assert qualified_name(long, NamingPolicy.DOUBLE).startswith("probe__create_a_new_pull_request_re_")


@given(items)
@pytest.mark.requirement("S1-10")
def test_one_source_alone_keeps_its_names(item: SourceName) -> None:
    assigned, collided = assign_names([item], NamingPolicy.BARE)
    seen = all(category(character)[0] not in "CZ" or character == " " for character in item.name)
    if seen or item.kind is SourceKind.AGENT:
        assert assigned == {item.name: item}
    assert list(assigned.values()) == [item]
    assert not collided


@pytest.mark.parametrize(
    ("policy", "agent", "server"),
    [
        (NamingPolicy.DEFAULT, "find", "up__find-all"),
        (NamingPolicy.GAIA, "find", "mcp_up_find-all"),
        (NamingPolicy.DOUBLE, "code__find", "up__find-all"),
        (NamingPolicy.BARE, "find", "find-all"),
    ],
)
def test_each_policy_has_its_spelling(policy: NamingPolicy, agent: str, server: str) -> None:
    assigned, collided = assign_names([SourceName("code", AGENT, "find"), SourceName("up", SERVER, "find-all")], policy)
    assert list(assigned) == [agent, server]
    assert not collided


@pytest.mark.requirement("S1-19")
def test_the_first_to_claim_a_name_keeps_it_and_the_next_is_qualified() -> None:
    first, second = SourceName("one", AGENT, "get-status"), SourceName("two", AGENT, "get-status")
    assigned, collided = assign_names([first, second], NamingPolicy.DEFAULT)
    assert assigned == {"get-status": first, "two__get-status": second}
    assert collided == [second]


def test_names_that_only_look_alike_once_they_are_made_safe_stay_apart() -> None:
    dotted, underscored = SourceName("up", SERVER, "a.b"), SourceName("up", SERVER, "a_b")
    assigned, _ = assign_names([dotted, underscored], NamingPolicy.DEFAULT)
    assert list(assigned.values()) == [dotted, underscored]
    assert list(assigned)[1] == "up__a_b"


def test_a_name_that_was_made_up_to_be_taken_by_the_hash_of_another_hides_nothing() -> None:
    victim = SourceName("victim", AGENT, "run")
    own = SourceName("own", AGENT, "run")
    names = ["run", "victim__run"]
    for _ in range(3):  # what a hostile server would declare that knows how names are made
        identity = f"victim\0run\0{names[-1]}".encode()
        names.append(f"{names[-1][:35]}_{hashlib.sha256(identity).hexdigest()[:8]}")
    hostile = [SourceName("hostile", AGENT, name) for name in names[1:]]
    assigned, _ = assign_names([own, *hostile, victim], NamingPolicy.DEFAULT)
    assert list(assigned.values()) == [own, *hostile, victim]


def test_a_name_with_a_lone_surrogate_can_be_qualified() -> None:
    assert SAFE.fullmatch(qualified_name(SourceName("up", SERVER, "\ud800"), NamingPolicy.DOUBLE))


def test_a_name_that_fits_exactly_is_not_cut() -> None:
    item = SourceName("s", SERVER, "x" * (MAX_QUALIFIED - 3))
    assert qualified_name(item, NamingPolicy.DOUBLE) == f"s__{item.name}"
    longer = SourceName("s", SERVER, item.name + "x")
    assert qualified_name(longer, NamingPolicy.DOUBLE) != f"s__{longer.name}"


@pytest.mark.parametrize("name", ["code", "a", "A.b-c_d", "9", "x" * 64])
def test_a_plain_word_can_name_a_source(name: str) -> None:
    assert is_source_name(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "-x", "_x", "a/b", "a b", "a\n", "a\x00", "\x1b[2J", "x" * 65, "e\u0301", "\u202ecode", "%2e"],
)
@pytest.mark.requirement("C-12")
def test_what_is_no_path_segment_cannot_name_a_source(name: str) -> None:
    assert not is_source_name(name)


@pytest.mark.requirement("F-305")
@pytest.mark.parametrize("character", ["\x1b", "\n", "\u200b", "\u202e", "\U000e0041", "\x00"])
def test_no_name_of_a_server_has_characters_that_cannot_be_seen(character: str) -> None:
    name = f"read{character}file"
    for policy in NamingPolicy:
        items = [SourceName("up", SourceKind.SERVER, item) for item in (name, "read_file", "read file")]
        assigned, _ = assign_names(items, policy)
        assert list(assigned.values()) == items
        assert all(public.isprintable() for public in assigned)


@given(st.lists(printable | meeting | source_names, max_size=30))
def test_different_names_have_different_prefixes_that_the_rule_of_tool_names_takes(names: list[str]) -> None:
    prefixes = source_prefixes(names)
    assert list(prefixes) == list(dict.fromkeys(names))
    assert len(set(prefixes.values())) == len(prefixes)
    assert all(tool_name_rule.fullmatch(prefix) and SAFE.fullmatch(prefix) for prefix in prefixes.values())
    assert source_prefixes(names) == prefixes


@given(st.lists(printable | meeting, max_size=10), st.lists(printable | meeting, max_size=10))
def test_a_server_that_is_added_later_changes_no_prefix(first: list[str], later: list[str]) -> None:
    before, after = source_prefixes(first), source_prefixes([*first, *later])
    assert {name: after[name] for name in before} == before


@given(printable | meeting | source_names, st.text(st.sampled_from("abc_-"), min_size=1, max_size=20))
def test_every_policy_makes_a_name_of_a_tool_of_any_server(source: str, tool: str) -> None:
    for policy in NamingPolicy:
        assigned, _ = assign_names([SourceName(source, SERVER, tool)], policy)
        assert all(SAFE.fullmatch(name) for name in assigned)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("github", "github"),
        ("a__b-", "a__b-"),
        ("@scope/my server", "scope_my_server"),
        ("a.b", "a_b"),
        ("Zürich (Büro)", "Zurich_Buro"),
        ("x" * 100, "x" * 64),
    ],
)
def test_a_prefix_is_the_name_as_far_as_tools_may_have_its_characters(name: str, prefix: str) -> None:
    assert source_prefix(name) == prefix


def test_a_name_of_which_nothing_is_left_has_a_prefix_of_its_own() -> None:
    assert source_prefix("日本").startswith("server_")
    assert source_prefix("日本") != source_prefix("中国")


def test_two_servers_keep_apart_although_their_tools_have_different_names() -> None:
    items = [SourceName("my server", SERVER, "a"), SourceName("my/server", SERVER, "b")]
    (first, second), collided = assign_names(items, NamingPolicy.DEFAULT)
    assert (first, second.rpartition("__")[0] != "my_server", collided) == ("my_server__a", True, [])


@pytest.mark.parametrize(
    "name", ["a b", "@scope/x", "_x", "日本", "x" * 128, "https://x", " x", "a\\b", "%2e", "e\u0301"]
)
def test_what_can_be_seen_can_name_a_server(name: str) -> None:
    assert is_server_name(name)


@pytest.mark.requirement("C-12")
@pytest.mark.parametrize(
    "name",
    ["", " ", ".", "..", "-x", "a\n", "a\x00", "\x1b[2J", "x" * 129, "\u202ecode", "a\u200b", "\ud800", "a\u00a0b"],
)
def test_what_cannot_be_seen_or_means_something_else_cannot_name_a_server(name: str) -> None:
    assert not is_server_name(name)
