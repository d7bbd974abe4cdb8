"""Resources of several sources: every URI that a client is shown leads to what its source means by it."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.errors import ResourceNotFoundError
from gaia_bridge.model import SourceKind
from gaia_bridge.protocol.uri_template import UriTemplate, UriTemplateError
from gaia_bridge.server.resource_uris import ResourceUris
from gaia_bridge.text.json_types import JSON
from tests.support.fixed_sources import FixedSource

_URIS = st.sampled_from(
    ["u:a", "u:b", "ui://form", "ui://s1/form", "mcp://s0/u:a", "mcp://s1/ui://form", "s0:x", "u:x/y"]
)
_TEMPLATES = st.sampled_from(["u:{name}", "u:{+name}", "ui://{name}", "{+all}", "broken:{", "mcp://s1/{+rest}"])


@st.composite
def _sources(draw: st.DrawFn) -> list[FixedSource]:
    return [
        FixedSource(
            f"s{number}",
            resources=tuple(draw(st.lists(_URIS, unique=True, max_size=3))),
            templates=tuple(draw(st.lists(_TEMPLATES, unique=True, max_size=2))),
            reads=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 3)))
    ]


@given(_sources(), _URIS)
@pytest.mark.requirement("S1-15")
def test_what_a_client_is_shown_leads_back_to_its_source_under_its_own_name(
    sources: list[FixedSource], other: str
) -> None:
    addresses = ResourceUris(sources)
    shown = [(definition["uri"], definition["name"]) for definition in addresses.resources(modern=True)]
    assert len({uri for uri, _ in shown}) == len(shown) == sum(len(source.features.resources) for source in sources)
    for uri, _ in shown:
        source, own = addresses.find(uri)
        assert own in {definition["uri"] for definition in source.features.resources}
        assert addresses.public(source, own) == uri
    for source in sources:
        for definition in source.features.templates:
            listed = [item["uriTemplate"] for item in addresses.templates(modern=True)]
            assert any(addresses.find_template(uri) == (source, definition["uriTemplate"]) for uri in listed)
        said = addresses.public(source, other)
        if "resources" in source.features.capabilities and not other.startswith("http"):
            assert addresses.find(said) == (source, other)
        else:
            assert said == other


_PARTS = st.sampled_from(
    ["a", "/", "?", "#", "%C3%A9", "é", ".", "{x}", "{+x}", "{?q}", "{&q}", "{#f}", "{/p*}", "{.e}"]
)


_TEXTS = st.lists(_PARTS, max_size=5).map(lambda parts: f"u:{''.join(parts)}")


@given(_TEXTS, _TEXTS)
def test_a_template_describes_what_it_describes_however_it_is_looked_for(template: str, uri: str) -> None:
    """With two readers of one scheme: a single one is asked for any URI of it."""
    one, two = FixedSource("one", templates=(template,)), FixedSource("two", resources=("u:two",))
    try:
        parsed = UriTemplate(template)
    except UriTemplateError:
        return
    for text in (uri, parsed.sample):
        try:
            found = ResourceUris([one, two]).find(text)
        except ResourceNotFoundError:
            found = None
        assert (found is not None) == parsed.matches(text)


GREEDY = (
    "{+any}",
    "{scheme}://{+rest}",
    "notes{+rest}",
    "mcp{+rest}",
    "mcp://{+rest}",
    "mcp://c{+rest}",
    "mcp://code/{+path}",
    "mcp2://code/{+path}",
    "ui://code/{+path}",
)


@pytest.mark.requirement("F-321")
@pytest.mark.parametrize("template", GREEDY)
def test_no_template_of_a_source_leads_to_it_what_belongs_to_another(template: str) -> None:
    for order in permutations(range(3)):
        greedy = FixedSource("greedy", templates=(template,), kind=SourceKind.SERVER)
        code = FixedSource("code", resources=("notes:a", "ui://form"), templates=("notes:{name}",))
        other = FixedSource("other", resources=("notes:a", "file:///a"), kind=SourceKind.SERVER)
        addresses = ResourceUris([(greedy, code, other)[place] for place in order])
        for source in (code, other):
            for uri in ("notes:a", "notes:unlisted", "file:///unlisted", "ui://form", "anything"):
                assert addresses.find(addresses.public(source, uri)) == (source, uri)
                assert addresses.find(f"mcp://{source.name}/{uri}") == (source, uri)
        assert addresses.find("file:///unlisted") == (other, "file:///unlisted")
        assert addresses.find("notes:some") == (code, "notes:some")
        [shown] = [item["uriTemplate"] for item in addresses.templates(modern=True) if item["name"] == template]
        assert shown.startswith(("mcp://greedy/", "ui://greedy/"))
        assert addresses.find_template(shown) == (greedy, template)
        assert addresses.find("mcp://greedy/file:///x") == (greedy, "file:///x")


@pytest.mark.requirement("F-321")
@pytest.mark.parametrize("uri", ["mcp://code/notes:a", "mcp://code/unlisted", "mcp7://code/x", "ui://code/form"])
def test_no_resource_is_listed_under_an_address_of_another_source(uri: str) -> None:
    for order in permutations(range(3)):
        greedy = FixedSource("greedy", resources=(uri,), kind=SourceKind.SERVER)
        code = FixedSource("code", resources=("notes:a", "ui://form"))
        other = FixedSource("other", resources=("notes:a", "ui://form"), kind=SourceKind.SERVER)
        addresses = ResourceUris([(greedy, code, other)[place] for place in order])
        source, own = addresses.find(uri)
        assert source is code
        assert own == uri.partition("code/")[2] or (own, uri) == ("ui://form", "ui://code/form")
        [shown] = [item["uri"] for item in addresses.resources(modern=True) if item["name"] == f"{uri} of greedy"]
        assert addresses.find(shown) == (greedy, uri)
        assert addresses.public(greedy, uri) == shown
        with pytest.raises(ResourceNotFoundError):
            addresses.find("mcp://removed/notes:a")


@pytest.mark.requirement("F-321")
def test_a_source_that_alone_reads_may_describe_what_it_likes() -> None:
    one = FixedSource("one", templates=("{+any}",))
    addresses = ResourceUris([one, FixedSource("two"), FixedSource("three", kind=SourceKind.SERVER)])
    assert [item["uriTemplate"] for item in addresses.templates(modern=True)] == ["{+any}"]
    assert addresses.find("x:y") == (one, "x:y")
    with pytest.raises(ResourceNotFoundError):
        addresses.find("mcp://two/x:y")


@pytest.mark.requirement("S1-15")
def test_a_uri_stays_as_it_is_while_it_is_unambiguous() -> None:
    one, two = FixedSource("one", resources=("u:a",)), FixedSource("two", resources=("u:a", "u:b", "ui://f", "ui://g"))
    three = FixedSource("three", resources=("ui://f",), templates=("t:{x}",))
    addresses = ResourceUris([one, two, three])
    assert [item["uri"] for item in addresses.resources(modern=True)] == [
        "u:a",
        "mcp://two/u:a",
        "u:b",
        "ui://f",
        "ui://g",
        "ui://three/f",
    ]
    assert addresses.find("u:a") == (one, "u:a")
    assert addresses.find("mcp://two/u:a") == (two, "u:a")
    assert addresses.find("mcp://two/u:never/listed") == (two, "u:never/listed")
    assert addresses.find("ui://three/f") == (three, "ui://f")
    assert addresses.find("t:1") == (three, "t:1")
    assert addresses.rewritten == [(two, "u:a"), (three, "ui://f")]
    assert [addresses.public(two, uri) for uri in ("u:b", "u:c", "t:1")] == ["u:b", "mcp://two/u:c", "mcp://two/t:1"]


@pytest.mark.requirement("S1-15")
def test_links_to_the_web_stay_links_to_the_web_unless_a_source_reads_them() -> None:
    one = FixedSource("one", resources=("u:a",), templates=("https://one.test/{page}",))
    two = FixedSource("two", resources=("u:b", "https://two.test/listed"))
    assert (
        ResourceUris([FixedSource("one", resources=("u:a",)), two]).public(one, "https://x.test/") == "https://x.test/"
    )
    addresses = ResourceUris([one, two])
    assert addresses.public(one, "http://elsewhere.test/x") == "http://elsewhere.test/x"
    assert addresses.public(one, "https://one.test/x") == "https://one.test/x"
    assert addresses.public(one, "https://elsewhere.test/x") == "https://elsewhere.test/x"
    assert addresses.public(one, "https://two.test/listed") == "mcp://one/https://two.test/listed"


@pytest.mark.requirement("S1-15")
def test_what_nobody_lists_belongs_to_the_only_source_with_uris_of_that_scheme() -> None:
    one = FixedSource("one", resources=("u:a", "file:///x", "no scheme: at all"))
    two = FixedSource("two", resources=("v:a",), templates=("File:///{name}", "w+1:{id}"))
    addresses = ResourceUris([one, two, FixedSource("three", reads=True)])
    assert [addresses.find(uri) for uri in ("u:b", "V:b", "w+1:/b/c")] == [
        (one, "u:b"),
        (two, "V:b"),
        (two, "w+1:/b/c"),
    ]
    assert [addresses.public(source, "u:b") for source in (one, two)] == ["u:b", "mcp://two/u:b"]
    for uri in ("file:///a/b", "x:a", "no scheme: here", ""):
        with pytest.raises(ResourceNotFoundError):
            addresses.find(uri)


@pytest.mark.requirement("S1-15")
def test_a_template_that_describes_what_another_source_has_is_written_otherwise() -> None:
    one, two = (
        FixedSource("one", templates=("f:///{+path}",)),
        FixedSource("two", templates=("f:///{name}", "broken:{")),
    )
    addresses = ResourceUris([one, two])
    assert [item["uriTemplate"] for item in addresses.templates(modern=True)] == [
        "f:///{+path}",
        "mcp://two/f:///{name}",
        "broken:{",
    ]
    assert addresses.find("f:///a") == (one, "f:///a")
    assert addresses.find("mcp://two/f:///a") == (two, "f:///a")
    assert addresses.find_template("mcp://two/f:///{name}") == (two, "f:///{name}")
    assert addresses.find_template("broken:{") == (two, "broken:{")


@pytest.mark.requirement("S1-15")
def test_the_only_source_that_reads_resources_may_know_one_that_it_did_not_list() -> None:
    reader = FixedSource("one", reads=True, kind=SourceKind.SERVER)
    assert ResourceUris([reader, FixedSource("two", "a")]).find("u:anything") == (reader, "u:anything")
    for nobody in (ResourceUris([reader, FixedSource("two", reads=True)]), ResourceUris()):
        with pytest.raises(ResourceNotFoundError):
            nobody.find("u:anything")
    for uri in ("", "mcp://", "mcp://one", "mcp://nobody/u:a", "ui://" + "x" * 100_000):
        with pytest.raises(ResourceNotFoundError):
            ResourceUris([reader, FixedSource("two", reads=True)]).find(uri)


def test_links_of_a_source_that_nobody_can_read_from_stay_as_they_are() -> None:
    """It declares no resources, or was removed or replaced while its call went on: no other URI leads to it."""
    link: JSON = {"type": "resource_link", "uri": "u:a", "name": "a"}
    embedded: JSON = {"type": "resource", "resource": {"uri": "ui://form", "text": ""}}
    result: JSON = {"content": [link, embedded], "contents": [{"uri": "u:b", "text": ""}]}
    prompt: JSON = {"messages": [{"role": "user", "content": link}]}
    app: JSON = {"name": "t", "_meta": {"ui": {"resourceUri": "ui://form"}}}
    mute = FixedSource("mute", "a")
    readers = [FixedSource("one", resources=("u:a", "ui://form")), FixedSource("two", resources=("u:a",))]
    for others in ([], readers[:1], readers):
        addresses = ResourceUris([*others, mute])
        for source in (mute, FixedSource("gone", reads=True), FixedSource("two", reads=True)):
            assert addresses.outward(source, result) == result
            assert addresses.outward(source, prompt) == prompt
            assert addresses.with_public_uri(source, app) == app


@pytest.mark.requirement("S1-15")
def test_a_source_that_lists_what_others_would_be_called_costs_as_many_tries_as_it_lists() -> None:
    claims = tuple(f"mcp{number or ''}://two/u:a" for number in range(50))
    one, two = FixedSource("one", resources=("u:a",)), FixedSource("two", resources=(*claims, "u:a"))
    addresses = ResourceUris([one, two])
    assert addresses.public(two, "u:a") == "mcp50://two/u:a"
    assert addresses.find("mcp50://two/u:a") == (two, "u:a")


def test_results_and_definitions_name_what_clients_know() -> None:
    one, two = FixedSource("one", resources=("u:a", "ui://f")), FixedSource("two", resources=("u:a", "ui://f"))
    addresses = ResourceUris([one, two])
    link: JSON = {"type": "resource_link", "uri": "u:a", "name": "a"}
    embedded: JSON = {"type": "resource", "resource": {"uri": "u:a", "text": "u:a"}}
    text: JSON = {"type": "text", "text": "u:a"}
    result: JSON = {"content": [link, text, embedded, "odd"], "structuredContent": {"uri": "u:a"}}
    assert addresses.outward(one, result) is result
    assert addresses.outward(two, result) == {
        "content": [
            {**link, "uri": "mcp://two/u:a"},
            text,
            {"type": "resource", "resource": {"uri": "mcp://two/u:a", "text": "u:a"}},
            "odd",
        ],
        "structuredContent": {"uri": "u:a"},
    }
    prompt: JSON = {"messages": [{"role": "user", "content": link}, {"role": "user", "content": [embedded, text]}]}
    messages = addresses.outward(two, prompt)["messages"]
    assert messages[0]["content"]["uri"] == messages[1]["content"][0]["resource"]["uri"] == "mcp://two/u:a"
    assert addresses.outward(two, {"contents": [{"uri": "u:a", "text": ""}]})["contents"][0]["uri"] == "mcp://two/u:a"

    app: JSON = {"name": "t", "_meta": {"ui": {"resourceUri": "ui://f", "x": 1}, "ui/resourceUri": "ui://f", "y": 2}}
    assert addresses.with_public_uri(one, app) == app
    assert addresses.with_public_uri(two, app)["_meta"] == {
        "ui": {"resourceUri": "ui://two/f", "x": 1},
        "ui/resourceUri": "ui://two/f",
        "y": 2,
    }
    assert ResourceUris([two]).outward(two, result) is result
    assert ResourceUris([two]).with_public_uri(two, app) is app


def test_what_a_text_says_of_a_linked_result_leads_there_among_several_sources() -> None:
    sources = [FixedSource(name, resources=(f"u:{name}",)) for name in ("one", "two", "three")]
    addresses = ResourceUris(sources)
    told = "[All of it is gaia-result://0a, to be read in 2 pieces, gaia-result://0a/1 to gaia-result://0a/2]"
    link: JSON = {"type": "resource_link", "uri": "gaia-result://0a", "name": "n"}
    image: JSON = {"type": "image", "data": "", "mimeType": "image/png"}
    text, kept, same = addresses.outward(sources[1], {"content": [{"type": "text", "text": told}, link, image]})[
        "content"
    ]
    assert same is image
    assert text["text"].count("mcp://two/gaia-result://0a") == 3
    for uri, own in ((kept["uri"], "gaia-result://0a"), (f"{kept['uri']}/1", "gaia-result://0a/1")):
        assert addresses.find(uri) == (sources[1], own)
    for other in ({"content": [{"type": "text", "text": told}]}, {"content": [{"type": "text", "text": "a"}, image]}):
        assert addresses.outward(sources[1], other) is other
    linked = {"content": [{"type": "text", "text": "see u:c"}, {**link, "uri": "u:c"}]}
    assert addresses.outward(sources[1], linked)["content"][0]["text"] == "see u:c"
