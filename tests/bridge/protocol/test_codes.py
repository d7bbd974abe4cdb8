"""Error codes: which are reserved, and which HTTP status they have."""

from __future__ import annotations

from gaia_bridge import errors
from gaia_bridge.protocol import codes


def test_exactly_the_codes_that_the_latest_revision_reserves_and_does_not_define_are_reserved() -> None:
    reserved = {code for code in range(-33_000, 1) if codes.is_reserved(code)}
    defined = {codes.HEADER_MISMATCH, codes.MISSING_CLIENT_CAPABILITY, codes.UNSUPPORTED_REVISION}
    assert reserved == set(range(-32_099, -32_019)) - defined
    assert len(defined) == 3


def test_no_error_of_ours_has_a_code_that_clients_of_the_latest_revision_would_not_get() -> None:
    ours = {name: code for module in (errors, codes) for name, code in vars(module).items() if isinstance(code, int)}
    only_earlier = {"URL_ELICITATION_REQUIRED"}
    assert {name for name, code in ours.items() if codes.is_reserved(code)} == only_earlier


def test_what_a_client_did_wrong_has_a_status_of_clients_and_what_we_did_wrong_has_none() -> None:
    assert {status // 100 for status in codes.HTTP_STATUS.values()} == {4}
    ours = (codes.INTERNAL_ERROR, codes.REQUEST_CANCELLED, codes.URL_ELICITATION_REQUIRED)
    assert codes.HTTP_STATUS.keys().isdisjoint(ours)
    assert not any(map(codes.is_reserved, codes.HTTP_STATUS))
