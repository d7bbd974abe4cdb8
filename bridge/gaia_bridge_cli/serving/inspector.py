"""The MCP Inspector beside a bridge: a page in the browser for its features. Its failures never end the bridge."""

from __future__ import annotations

import logging
import shutil
import time
from contextlib import ExitStack
from typing import Final

import anyio
import click

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.children.error_output import ErrorOutput
from gaia_bridge.client.transports.children.process import Child, exit_text, undisturbed
from gaia_bridge.config.launching.workplaces import own_folder
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.redaction import Redactor

logger = logging.getLogger(__name__)

_PROGRAM: Final = "npx"
_ARGUMENTS: Final = ("-y", "@modelcontextprotocol/inspector@2", "--transport", "http", "--server-url")

_LIMITS: Final = UpstreamLimits(stop_grace=0.1)
"""The wait for its end is short: it does not notice that its input is closed."""


class _WithSecrets(Redactor):
    """Masks nothing: the output is for the user, and the address in it has the token of the Inspector's page."""

    def __call__(self, text: str) -> str:
        """Return the text as it is."""
        return text


async def run_inspector(url: str) -> None:
    """Start the Inspector, and end it when this is cancelled. Its failures are no errors here.

    Args:
        url: The address to which it connects.
    """
    program = shutil.which(_PROGRAM)
    if program is None:
        logger.warning(
            "the Inspector is not started: there is no npx on the PATH, a part of Node.js: https://nodejs.org/"
        )
        return
    try:
        spec = StdioServerSpec("inspector", program, (*_ARGUMENTS, url), cwd=own_folder("inspector"), inherit_env=True)
        child = Child(spec)
    except UpstreamError as error:
        logger.warning("the Inspector %s", error)
        return
    await _until_end(child)


async def _until_end(child: Child) -> None:
    stdin, *outputs = child.pipes
    ended = anyio.Event()
    child.on_exit(lambda code: ended.set())
    with ExitStack() as opened:

        async def read() -> None:
            while outputs:
                transport, _ = await outputs.pop().connect_reader(_output)
                opened.callback(transport.close)

        try:
            await undisturbed(read())
            await ended.wait()
            logger.warning("the Inspector %s; the bridge goes on without it", exit_text(child.exit_code or 0))
        finally:
            for pipe in (stdin, *outputs):
                pipe.close()
            await child.stop(_LIMITS, lambda: None)


def _output() -> ErrorOutput:
    return ErrorOutput("inspector", _WithSecrets(), _show, time.monotonic)


def _show(line: str) -> None:
    click.echo(f"inspector: {line}", err=True)
