"""Which proxy leads to a server: variables, and what goes round it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.client.transport_factory import secrets_of
from gaia_bridge.config import EntryError, parse_entry
from gaia_bridge.config.fingerprints import fingerprint, launch_line
from gaia_bridge.config.proxies import ProxyAddressError, SocksError, proxy_at, proxy_for
from gaia_bridge.model import HttpServerSpec, OpenApiServerSpec
from gaia_bridge_desk.review.launch_lines import launch_line_text, launch_warnings

P = "http://p:3128"
HERE = Path()


def way(url: str, **environ: str) -> str | None:
    """The proxy to `scheme host port`, as text."""
    scheme, host, port = url.split()
    found = proxy_for(scheme, host, int(port), None, environ)
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("environ", "http", "https"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": P}, None, P),
        ({"HTTP_PROXY": P}, P, None),
        ({"http_proxy": P, "REQUEST_METHOD": "GET"}, P, None),
        ({"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, None, None),
        ({"ALL_PROXY": P, "https_proxy": "q"}, P, "http://q:80"),
        ({"HTTPS_PROXY": P, "https_proxy": ""}, None, None),
        ({"all_proxy": "https://[2001:db8::1]"}, "https://[2001:db8::1]:443", "https://[2001:db8::1]:443"),
        ({"ALL_PROXY": P, "NO_PROXY": "x", "no_proxy": "*"}, None, None),
    ],
)
@pytest.mark.requirement("F-070")
def test_variables_name_proxies_as_curl_and_httpx_read_them(
    environ: dict[str, str], http: str | None, https: str | None
) -> None:
    assert way("http h.example 80", **environ) == http
    assert way("https h.example 443", **environ) == https


@pytest.mark.parametrize(
    ("item", "round_", "through"),
    [
        ("example.com", ["example.com 443", "a.example.com 1", "EXAMPLE.com. 443"], ["notexample.com 443"]),
        (".example.com", ["a.example.com 443", "example.com 443"], ["example.org 443"]),
        ("*.example.com", ["a.example.com 443"], ["example.org 443"]),
        ("x, example.com:8443", ["example.com 8443"], ["example.com 443"]),
        ("10.1.2.3 x", ["10.1.2.3 443"], ["10.1.2.4 443"]),
        ("10.0.0.0/8", ["10.1.2.3 443", "::ffff:10.1.2.3 443"], ["11.1.2.3 443", "ten.example 443"]),
        ("10.1.2.3:8443", ["10.1.2.3 8443"], ["10.1.2.3 443"]),
        ("2001:db8::/32", ["2001:db8::7 443"], ["2001:db9::7 443"]),
        ("[2001:db8::7]:8443", ["2001:db8::7 8443"], ["2001:db8::7 443"]),
        (",, /, :, [", [], ["example.com 443"]),
    ],
)
def test_no_proxy_has_names_addresses_networks_and_ports(item: str, round_: list[str], through: list[str]) -> None:
    assert [place for place in round_ if way(f"https {place}", ALL_PROXY=P, NO_PROXY=item)] == []
    assert [place for place in through if not way(f"https {place}", ALL_PROXY=P, NO_PROXY=item)] == []


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0"]
)
@pytest.mark.parametrize("named", [None, P])
def test_this_machine_is_never_reached_by_a_proxy(host: str, named: str | None) -> None:
    assert proxy_for("http", host, 80, named, {"ALL_PROXY": P}) is None


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "::"])
def test_an_odd_spelling_of_this_machine_is_this_machine(host: str) -> None:
    assert proxy_for("https", host, 443, P, {}) is None


def test_an_entry_has_the_last_word() -> None:
    environ = {"ALL_PROXY": "socks5://s:1", "NO_PROXY": "*"}
    assert str(proxy_for("https", "h.example", 443, P, environ)) == P
    assert proxy_for("https", "h.example", 443, False, {"ALL_PROXY": P}) is None


def test_user_and_password_are_sent_and_never_shown() -> None:
    proxy = proxy_at("http://me:p%40ss@p:3128/", "HTTPS_PROXY")
    assert proxy.authorization == "Basic bWU6cEBzcw=="
    assert (str(proxy), repr(proxy)) == (P, "Proxy('http://p:3128', named by HTTPS_PROXY)")


@pytest.mark.parametrize("text", ["ftp://x:1", "http://a b", "http://x:port", "http://me:pa/ss@p:1", "http://x:0", ""])
def test_what_is_no_address_is_not_repeated(text: str) -> None:
    with pytest.raises(ProxyAddressError) as caught:
        proxy_at(text, "HTTPS_PROXY")
    assert str(caught.value) == "HTTPS_PROXY is no address of a proxy; expected http://HOST:PORT"


def test_socks_is_told_with_what_to_do_unless_it_is_gone_round() -> None:
    environ = {"ALL_PROXY": "socks5h://me:secret@s:1", "NO_PROXY": "a.example"}
    assert way("https a.example 443", **environ) is None
    with pytest.raises(SocksError, match="ALL_PROXY names a SOCKS proxy, and the bridge speaks to HTTP") as caught:
        way("https b.example 443", **environ)
    assert "secret" not in str(caught.value)


# In entries


@pytest.mark.parametrize("way", ["url", "openapi"])
def test_an_entry_names_a_proxy_with_references_or_none(way: str) -> None:
    address = "http://${env:WHO}@p:3128"
    parsed = parse_entry("x", {way: "https://h.example/", "proxy": address}, HERE, {"WHO": "me:s3cret-pass"})
    assert isinstance(parsed.spec, HttpServerSpec | OpenApiServerSpec)
    assert parsed.spec.proxy == "http://me:s3cret-pass@p:3128"
    assert "s3cret-pass" in secrets_of(parsed.spec) and parsed.warnings == ()
    assert "s3cret" not in repr(parsed)
    direct = parse_entry("x", {way: "https://h.example/", "proxy": False}, HERE).spec
    plain = parse_entry("x", {way: "https://h.example/"}, HERE).spec
    assert isinstance(direct, HttpServerSpec | OpenApiServerSpec) and direct.proxy is False
    assert len({fingerprint(spec) for spec in (parsed.spec, direct, plain)}) == 3


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, "'proxy' is true"),
        ("ftp://me:hunter22@x", "'proxy' is no address of a proxy; expected http://HOST:PORT"),
        ("socks5://me:hunter22@x", "'proxy' names a SOCKS proxy"),
        ("", "'proxy' is no address"),
    ],
)
def test_a_proxy_of_an_entry_that_is_none_is_refused(value: object, told: str) -> None:
    with pytest.raises(EntryError) as caught:
        parse_entry("x", {"url": "https://h.example/", "proxy": value}, HERE)
    assert told in str(caught.value) and "hunter22" not in str(caught.value)


def test_a_proxy_to_this_machine_or_for_a_program_is_not_heeded() -> None:
    assert (
        "'proxy' is not heeded: this machine"
        in parse_entry("x", {"url": "http://[::1]/", "proxy": P}, HERE).warnings[0]
    )
    assert "'proxy' is not heeded: it does not go" in parse_entry("x", {"command": "x", "proxy": P}, HERE).warnings[0]


@pytest.mark.requirement("S-25")
def test_a_proxy_of_a_project_is_shown_without_its_password_and_is_part_of_what_is_approved() -> None:
    entry = {"url": "https://h.example/mcp", "proxy": "http://me:hunter22@evil.example:1"}
    assert launch_line_text(entry).splitlines() == ["https://h.example/mcp", "proxy: 'http://me:***@evil.example:1'"]
    assert any("'proxy' sees whom" in warning for warning in launch_warnings(entry))
    assert launch_line(entry) == entry
    assert launch_line_text({"url": "https://h.example", "proxy": False}).splitlines()[1] == "proxy: false"


@given(st.text(max_size=60))
def test_whatever_is_written_as_a_proxy_is_judged(text: str) -> None:
    try:
        proxy = proxy_at(text, "x")
    except ProxyAddressError:
        return
    assert proxy.host and 0 < proxy.port < 65_536


@given(st.text(max_size=40))
def test_whatever_is_in_no_proxy_is_understood_or_passed_over(text: str) -> None:
    proxy_for("https", "h.example", 443, None, {"ALL_PROXY": P, "NO_PROXY": text})
