"""Skills of several sources on one endpoint: each is there as a whole, and leads back to its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.model import ServerFeatures, ServerInfo
from gaia_bridge.protocol.skills import SOURCE_KEY, files_of, root_of, skill_problem
from gaia_bridge.server.resource_uris import ResourceUris
from gaia_bridge.server.skill_uris import UnlistedRoots
from gaia_bridge.text.json_types import JSON
from tests.support.fixed_sources import FixedSource


def skill(path: str, *files: str) -> JSON:
    name = path.rpartition("/")[2]
    uris = [f"skill://{path}/{file}" for file in ("SKILL.md", *files)]
    return {
        "uri": uris[0],
        "frontmatter": {"name": name, "description": f"{path} {len(files)}"},
        "resources": [{"uri": uri, "digest": f"sha256:{'a' * 64}", "size": 1} for uri in uris],
    }


def named(name: str, *skills: JSON) -> FixedSource:
    """A source with skills, which it lists as resources, too."""
    resources = tuple({"uri": entry["uri"], "name": entry["frontmatter"]["name"]} for entry in skills)
    features = ServerFeatures(
        ServerInfo(name, "1"), resources=resources, skills=skills, capabilities=frozenset({"resources"})
    )
    return fixed(name, features)


def fixed(name: str, features: ServerFeatures) -> FixedSource:
    source = FixedSource(name)
    source.features = features
    return source


def uris_of(entries: list[JSON]) -> list[str]:
    return [entry["uri"] for entry in entries]


def test_the_first_keeps_its_uri_and_the_other_is_named_with_all_its_files() -> None:
    one, two = named("one", skill("refunds")), named("two", skill("refunds", "a/b.md"))
    uris = ResourceUris([one, two])
    mine, theirs = uris.skills.entries(modern=True)
    assert (mine["uri"], mine["_meta"]) == ("skill://refunds/SKILL.md", {SOURCE_KEY: "one"})
    assert [file["uri"] for file in theirs["resources"]] == [
        "skill://two/refunds/SKILL.md",
        "skill://two/refunds/a/b.md",
    ]
    assert uris_of(uris.resources(modern=True)) == ["skill://refunds/SKILL.md", "skill://two/refunds/SKILL.md"]
    assert uris.find("skill://two/refunds/a/new.md") == (two, "skill://refunds/a/new.md")
    assert uris.find("skill://refunds/a/b.md") == (one, "skill://refunds/a/b.md")


def test_a_skill_inside_of_the_folder_of_anothers_skill_moves_as_well() -> None:
    outer, inner = named("outer", skill("acme")), named("inner", skill("acme/refunds"))
    for sources in ([outer, inner], [inner, outer]):
        first, second = (entry["uri"] for entry in ResourceUris(sources).skills.entries(modern=True))
        assert not first.startswith(root_of(second))
        assert not second.startswith(root_of(first))


def test_a_nested_skill_stays_inside_of_the_one_around_it() -> None:
    taken, nested = named("taken", skill("a")), named("own", skill("a", "b/SKILL.md"), skill("a/b"))
    entries = ResourceUris([taken, nested]).skills.entries(modern=True)
    assert uris_of(entries) == ["skill://a/SKILL.md", "skill://own/a/SKILL.md", "skill://own/a/b/SKILL.md"]
    assert entries[1]["resources"][1]["uri"] == entries[2]["uri"]


def test_a_resource_that_is_no_skill_gives_way_to_anothers_skill() -> None:
    owner = named("owner", skill("refunds"))
    features = ServerFeatures(
        ServerInfo("plain", "1"),
        resources=({"uri": "skill://refunds/SKILL.md", "name": "x"},),
        capabilities=frozenset({"resources"}),
    )
    plain = fixed("plain", features)
    for sources in ([owner, plain], [plain, owner]):
        uris = ResourceUris(sources)
        assert uris.find("skill://refunds/SKILL.md") == (owner, "skill://refunds/SKILL.md")
        public = uris.public(plain, "skill://refunds/SKILL.md")
        assert public in uris_of(uris.resources(modern=True))
        assert uris.find(public) == (plain, "skill://refunds/SKILL.md")


def test_one_source_alone_is_shown_as_it_is() -> None:
    entry = skill("refunds", "x.md")
    assert ResourceUris([named("one", entry)]).skills.entries(modern=False) == [entry]


@pytest.mark.parametrize("uri", ["skill://", "skill:", "x", "", "skill://none/x", "://"])
def test_what_is_in_no_skill_is_nobodys(uri: str) -> None:
    uris = ResourceUris([named("one", skill("a")), named("two", skill("b"))])
    assert uris.skills.find(uri) is None


parts = st.sampled_from(["a", "b", "one", "two", "skill"])
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)


@given(st.tuples(*(st.lists(paths, max_size=4, unique=True) for _ in range(3))))
def test_every_file_leads_back_to_its_source_and_no_two_share_a_uri(listed: tuple[list[str], ...]) -> None:
    sources = [
        named(name, *(skill(path, "x.md") for path in of_source))
        for name, of_source in zip(("one", "two", "b"), listed, strict=True)
    ]
    uris = ResourceUris(sources)
    entries = uris.skills.entries(modern=True)
    assert len(set(uris_of(entries))) == len(entries) == sum(map(len, listed))
    for entry in entries:
        assert skill_problem(entry) is None
        for file in files_of(entry):
            source, own = uris.find(file["uri"])
            assert source.name == entry["_meta"][SOURCE_KEY]
            assert uris.public(source, own) == file["uri"]


def test_no_source_has_a_skill_under_the_name_of_another() -> None:
    evil = named("evil", skill("shop/refunds"), skill("shop"))
    shop, desk = named("shop", skill("refunds")), named("desk", skill("refunds"))
    for order in ([evil, desk, shop], [desk, shop, evil], [shop, desk, evil]):
        found = {entry["uri"]: entry["_meta"][SOURCE_KEY] for entry in ResourceUris(order).skills.entries(modern=True)}
        assert found.get("skill://shop/refunds/SKILL.md", "shop") == "shop"
        assert found["skill://evil/shop/SKILL.md"] == found["skill://evil/shop/refunds/SKILL.md"] == "evil"


def test_what_no_list_has_belongs_to_whom_it_was_learned_of_until_somebody_lists_it() -> None:
    unlisted = UnlistedRoots()
    one, two = named("one", skill("a")), named("two", skill("b"))
    uris = ResourceUris([one, two], unlisted)
    unlisted.note("skill://hidden", one, "skill://hidden")
    unlisted.note("skill://two/secret", two, "skill://secret")
    assert uris.find("skill://hidden/x.md") == (one, "skill://hidden/x.md")
    assert uris.public(one, "skill://hidden/x.md") == "skill://hidden/x.md"
    assert uris.find("skill://two/secret/x.md") == (two, "skill://secret/x.md")
    assert uris.public(two, "skill://secret/x.md") == "skill://two/secret/x.md"
    listed = named("two", skill("hidden"))
    assert ResourceUris([one, listed], unlisted).find("skill://hidden/x.md") == (listed, "skill://hidden/x.md")
    assert ResourceUris([two], unlisted).skills.find("skill://hidden/x.md") is None
