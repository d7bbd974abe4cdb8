"""The undocumented parts of uvicorn that our listener stands on: a new minor version may change them.

If one of these fails, read `bridge/gaia_bridge/server/http/{connection,request_cycle,listener}.py` beside the new
version before its bound in pyproject.toml is raised.
"""

from __future__ import annotations

import inspect
from importlib.metadata import requires
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from gaia_bridge.server.http.connection import HttpConnection
from gaia_bridge.server.http.request_cycle import Cycle

OVERRIDDEN = {
    HttpToolsProtocol: {
        "connection_lost": ["self", "exc"],
        "connection_made": ["self", "transport"],
        "data_received": ["self", "data"],
        "on_body": ["self", "body"],
        "on_header": ["self", "name", "value"],
        "on_headers_complete": ["self"],
        "on_message_complete": ["self"],
        "on_response_complete": ["self"],
        "pause_writing": ["self"],
        "resume_writing": ["self"],
        "shutdown": ["self"],
        "timeout_keep_alive_handler": ["self"],
    },
    RequestResponseCycle: {"run_asgi": ["self", "app"], "send": ["self", "message"]},
}
OF_A_CONNECTION = (
    "access_log access_logger app app_state cycle flow headers logger loop parser root_path scope server_state tasks "
    "timeout_keep_alive timeout_keep_alive_task transport url"
).split()
OF_A_REQUEST = (
    "body chunked_encoding default_headers disconnected expected_content_length flow keep_alive message_event "
    "more_body on_response response_complete response_started scope transport waiting_for_100_continue"
).split()


@pytest.mark.parametrize("base", OVERRIDDEN)
def test_the_methods_that_are_overridden_or_called_have_the_parameters_of_uvicorn(base: type) -> None:
    for name, parameters in OVERRIDDEN[base].items():
        assert list(inspect.signature(getattr(base, name)).parameters) == parameters, name


def test_a_connection_overrides_no_other_method_of_uvicorn() -> None:
    """A new method of uvicorn that has the name of one of ours would be replaced by it."""
    own = {HttpToolsProtocol: HttpConnection, RequestResponseCycle: Cycle}
    for base, ours in own.items():
        shared = {name for name in vars(base) if inspect.isfunction(getattr(base, name))} & set(vars(ours))
        assert shared - {"__init__"} <= set(OVERRIDDEN[base])


@pytest.mark.anyio
async def test_the_attributes_of_a_connection_and_of_a_request_are_those_of_uvicorn() -> None:
    config = uvicorn.Config(lambda: None, interface="asgi3", log_config=None)
    config.load()
    protocol = HttpToolsProtocol(config, ServerState(), {})
    protocol.on_message_begin()
    assert [name for name in OF_A_CONNECTION if not hasattr(protocol, name)] == []
    parameters: dict[str, Any] = dict.fromkeys(inspect.signature(RequestResponseCycle).parameters)
    cycle = RequestResponseCycle(**parameters)
    assert [name for name in OF_A_REQUEST if not hasattr(cycle, name)] == []


def test_constants_and_buffers_are_as_the_listener_takes_them() -> None:
    assert HIGH_WATER_LIMIT == 65536
    assert STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
    assert {"drain", "pause_reading", "resume_reading"} <= set(vars(FlowControl))
    assert {"startup", "shutdown", "main_loop", "on_tick"} <= set(vars(uvicorn.Server))


def test_uvicorn_is_held_below_its_next_minor_version() -> None:
    mine = next(each for text in requires("gaia-mcp-bridge") or () if (each := Requirement(text)).name == "uvicorn")
    major, minor, *_ = map(int, uvicorn.__version__.split("."))
    assert not mine.specifier.contains(f"{major}.{minor + 1}.0")
    assert mine.specifier.contains(uvicorn.__version__)
