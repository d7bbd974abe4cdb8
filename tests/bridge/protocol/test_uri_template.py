"""A template describes what it expands to, as another implementation sees it, and is looked through once."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gaia_bridge.protocol.uri_template import UriTemplate, UriTemplateError
from tests.support.on_demand import mcp_uri_template

_PARTS = st.sampled_from(
    ["a", "/", "?", "#", "%C3%A9", "é", ".", "{x}", "{+y}", "{?q}", "{&r}", "{#f}", "{/p*}", "{.e}", "{;m}", "{?s,t}"]
)
_TEXTS = st.lists(_PARTS, max_size=6).map(lambda parts: f"u:{''.join(parts)}")
_VALUES = st.text(st.characters(codec="utf-8"), max_size=5)


@given(_TEXTS, st.data())
def test_whatever_a_template_expands_to_is_what_it_describes(template: str, data: st.DataObject) -> None:
    try:
        oracle = mcp_uri_template.UriTemplate.parse(template)
    except mcp_uri_template.InvalidUriTemplate:
        return
    names = data.draw(st.sets(st.sampled_from(oracle.variable_names))) if oracle.variable_names else set[str]()
    lists = template.count("*") > 0
    values = {name: [data.draw(_VALUES)] if name == "p" and lists else data.draw(_VALUES) for name in names}
    assert UriTemplate(template).matches(oracle.expand(values))


@given(_TEXTS, _TEXTS)
def test_whatever_another_implementation_finds_described_is(template: str, uri: str) -> None:
    assume(not set("?&#") & set(template))  # queries and fragments it reads more freely than they are written
    try:
        oracle = mcp_uri_template.UriTemplate.parse(template)
    except mcp_uri_template.InvalidUriTemplate:
        return
    ours = UriTemplate(template)
    if oracle.match(uri) is not None:
        assert ours.matches(uri)
    assert ours.matches(ours.sample)


@given(st.text(st.sampled_from("{}+#./;?&*:,%a1é "), max_size=12))
def test_a_text_that_is_no_template_is_refused_and_never_anything_else(text: str) -> None:
    try:
        template = UriTemplate(text)
    except UriTemplateError:
        return
    assert template.matches(template.sample)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("u:{x}", "u:a/b"),
        ("u:{x}/c", "u:a/d"),
        ("u:{/x}/c", "u:/a"),
        ("u:{?q}", "u:a=1"),
        ("u:{#f}", "u:f"),
        ("u:a", "u:b"),
        ("u:{x}", "v:a"),
        ("u:{x}", "u:a?b"),
        ("u:{?q}z", "u:?q=1#z"),
    ],
)
def test_what_a_template_does_not_expand_to_it_does_not_describe(template: str, uri: str) -> None:
    assert not UriTemplate(template).matches(uri)
    assert mcp_uri_template.UriTemplate.parse(template).match(uri) is None


def test_a_template_of_many_variables_is_looked_through_in_one_pass() -> None:
    template = UriTemplate("u:" + "{+x}" * 20)
    assert template.matches("u:" + "a" * 5_000)
    assert not UriTemplate("u:" + "{+x}" * 20 + "!").matches("u:" + "a" * 5_000)


def test_more_expressions_than_anybody_needs_are_refused() -> None:
    with pytest.raises(UriTemplateError, match="more than 20"):
        UriTemplate("{x}" * 21)
