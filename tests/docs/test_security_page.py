"""What the page about security says of numbers, files and checks is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from gaia_bridge.config.paths import default_trust_path
from gaia_bridge.constants import DEFAULT_HOST, KIB, MIB
from gaia_bridge.server.http import guard
from gaia_bridge.server.http.token import TOKEN_BYTES
from gaia_bridge.settings import HttpLimits
from tests.docs.pages import DOCS

PAGE = (DOCS / "security.md").read_text("utf-8")


def test_the_checks_of_the_guard_are_listed_in_their_order_with_their_answers() -> None:
    listed = re.findall(r"^    (\w+(?: \w+)?)  .*?((?:\d{3}(?:, | / )?)+)", guard.__doc__ or "", re.MULTILINE)
    assert len(listed) == 9
    rows = [line.split("|")[1:4] for line in PAGE.partition("| check |")[2].splitlines()[2:11]]
    for (name, statuses), (check, _, answered) in zip(listed, rows, strict=True):
        assert check.strip().strip("`").lower() == name.lower()
        assert re.findall(r"\d{3}", answered) == re.findall(r"\d{3}", statuses)


def test_its_numbers_are_those_of_the_settings() -> None:
    limits = HttpLimits()
    assert f"| header size | {limits.header_bytes // KIB} KiB |" in PAGE
    assert f"| body | {limits.body_bytes // MIB} MiB, within {limits.body_timeout:g} seconds |" in PAGE
    assert f"a token: {TOKEN_BYTES * 8} bits" in PAGE
    assert f"listens on {DEFAULT_HOST}" in PAGE


def test_the_files_that_it_names_are_those_that_are_written() -> None:
    assert f"`~/{default_trust_path().relative_to(Path.home())}`" in PAGE
