"""A request behind which is no client: it says nothing, hears nothing, and nobody can be asked."""

from __future__ import annotations

import pytest

from gaia_bridge.calls.own_request import OwnRequest
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ClientCapabilityError
from gaia_bridge.model import LogMessage, Progress

pytestmark = pytest.mark.anyio


async def test_nobody_is_told_anything_and_nothing_fails_because_of_that() -> None:
    request: ClientRequest = OwnRequest("somebody")
    await request.report_progress(Progress(1, 2, "half"))
    await request.log(LogMessage("info", "said"))
    await request.close_stream()
    assert not request.when_client_leaves(lambda: pytest.fail("nobody leaves"))
    assert (request.client, request.log_level, request.request_state) == ("somebody", None, None)


@pytest.mark.parametrize(
    ("method", "capability"), [("elicitation/create", "elicitation"), ("roots/list", "roots"), ("x/y", "x/y")]
)
async def test_who_asks_is_told_what_the_client_would_have_to_declare(method: str, capability: str) -> None:
    with pytest.raises(ClientCapabilityError) as refused:
        await OwnRequest("somebody").push(method, {})
    assert refused.value.data == {"requiredCapabilities": {capability: {}}}
