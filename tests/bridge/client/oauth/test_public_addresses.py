"""Which addresses are public, and which URLs are looked at at all."""

from __future__ import annotations

import httpx2
import pytest

from gaia_bridge.client.oauth.public_addresses import is_public, url_problem

PUBLIC = ["93.184.216.34", "192.0.78.9", "2606:4700::1111", "64:ff9b::5db8:d822", "2002:5db8:d822::1"]

INTERNAL = [
    "0.0.0.0",
    "10.0.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.168.1.1",
    "192.88.99.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::10.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::5db8:d822",
    "2001:0:5db8:d822:0:0:f5ff:fffe",
    "2001:0:a00:1::",
    "2001:db8::1",
    "2002:0a00:1::",
    "2002:7f00:1::",
    "2600:1f00::5efe:a00:1",
    "2600:1f00::200:5efe:7f00:1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.requirement("S-22", "C-15")
@pytest.mark.parametrize("address", INTERNAL)
def test_an_internal_address_is_seen_through_every_disguise(address: str) -> None:
    assert not is_public(address)


@pytest.mark.requirement("S-22")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "https:///x",
        "/relative",
        "//example.com/",
        "https://127.1/",
        "https://0/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://127.0.0.1./",
        "https://example.com./",
        "https://good@127.0.0.1/",
        "https://good\\@127.0.0.1/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://[fe80::1%25lo]/",
        "https://exa mple.com/",
        "https://good%00.example.com/",
        "https://1.2.3.4%2f/",
        "https://-x.example.com/",
        "https://example.com/" + "a" * 10_000,
    ],
)
def test_a_url_that_could_be_read_in_two_ways_is_not_followed(url: str) -> None:
    assert url_problem(httpx2.URL(url), allow_http=False)


@pytest.mark.parametrize(
    "url", ["https://example.com/", "https://a_b.example.com:8443/x?y#z", "https://[2606:4700::1]/", "https://1.2.3.4/"]
)
def test_an_ordinary_url_has_no_problem(url: str) -> None:
    assert not url_problem(httpx2.URL(url), allow_http=False)
    assert not url_problem(httpx2.URL(url.replace("https", "http")), allow_http=True)
    assert url_problem(httpx2.URL(url.replace("https", "ftp")), allow_http=True) == "not https"
