"""MCP servers that run as a child process ("StdioTransport")."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, cast

from msgspec.structs import replace

from gaia.mcp.client.transports.connection import ConnectionTransport
from gaia_bridge.config.launching.command_lines import is_program, split_command
from gaia_bridge.config.launching.launchers import launcher_in
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits

if TYPE_CHECKING:
    from gaia.mcp.client.transports.detached_connection import DetachedConnection
    from gaia_bridge.client.transport import Transport
    from gaia_bridge.client.transports.children.stdio import StdioLink

__all__ = ["ChildProcess", "StdioTransport"]

_LAST_LINES: Final = 10
"""Of the error output of a server that ended: what npm says of a package that it does not know has nine."""


class StdioTransport(ConnectionTransport):
    """Starts a server as a child process and talks to it over its standard input and output.

    There is never a shell in between: a command string is split into arguments here, and nothing in it is expanded.

    Args:
        command: The program if `args` are given or there is one at that very path, else the whole command, such as
            `npx -y some-server "/my files"`.
        timeout: Seconds for the handshake, and for each request. What a launcher (`npx`, `uvx`) downloads before the
            handshake has longer.
        debug: Whether requests are logged at level DEBUG.
        args: The program's arguments; attributes of these names are `None` where none were given.
        env: Variables that are set over the environment of this process, which the server inherits.

    Raises:
        ValueError: The command string is empty, or needs a shell.
    """

    def __init__(
        self,
        command: str,
        timeout: float = 30,
        debug: bool = False,
        args: Sequence[str] | None = None,
        env: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("the server", timeout, debug)
        self.command = command
        self.args = None if args is None else list(args)
        self.env = None if env is None else dict(env)
        if args is not None or is_program(command):
            program, arguments = command, list(args or ())
        else:
            program, *arguments = split_command(command)
        values = {name: str(value) for name, value in (env or {}).items() if value is not None}  # a common slip
        # The specification wants the environment inherited; the bridge itself passes on much less.
        self._spec = StdioServerSpec(self.name, program, tuple(arguments), values, inherit_env=True)
        self._understood: object = None

    @classmethod
    def from_spec(cls, spec: StdioServerSpec, timeout: float = 30, debug: bool = False) -> Self:
        """Return a transport to a configured server.

        Args:
            spec: How to launch it.
            timeout: Seconds for the handshake, and for each request.
            debug: Whether requests are logged at level DEBUG.
        """
        transport = cls(spec.command, timeout, debug, spec.args, spec.env)
        transport.name, transport._spec = spec.name, spec
        return transport

    @property
    def _process(self) -> ChildProcess | None:
        """The child, while the transport is connected; also after the child ended by itself. That of the bridge, if
        the bridge runs the server for us."""
        open_, link = self._open, self._link()
        if open_ is not None and open_.lender is not None:
            pid = open_.lender.pid
            return None if pid is None else ChildProcess(pid)
        return None if link is None else ChildProcess(link.child.pid)

    def is_connected(self) -> bool:
        """Whether the child is alive. Known at once, also before the connection's own thread has noticed."""
        if (open_ := self._open) is not None and open_.lender is not None:
            return super().is_connected()  # the bridge starts it again
        process = self._process
        return super().is_connected() and process is not None and process.poll() is None

    def send_request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and wait for its response.

        Lines that are no JSON are skipped, because many servers print a banner.

        Args:
            method: The JSON-RPC method.
            params: Its parameters.

        Returns:
            The JSON-RPC response, with `result` or `error`.

        Raises:
            RuntimeError: The server is not connected, or its process ended.
            TimeoutError: It did not answer within `timeout`.
            ValueError: It wrote to its standard output, but nothing that is JSON.
        """
        try:
            response = super().send_request(method, params)
        except (RuntimeError, TimeoutError) as error:
            link = self._link()
            if link is not None and link.garbage.count and link is not self._understood:
                raise ValueError(
                    f"{self.name} answered {method} with what is no JSON: {link.garbage.first[0]}"
                ) from error
            raise
        self._understood = self._link()
        return response

    def _link(self) -> StdioLink | None:
        open_ = self._open
        is_ours = open_ is not None and open_.lender is None
        return cast("StdioLink | None", open_.session.last_link) if open_ is not None and is_ours else None

    def _words_of(self, session: DetachedConnection) -> str:
        link = cast("StdioLink | None", session.last_link)
        return "" if link is None else "\n".join(link.error_lines[-_LAST_LINES:])

    def _server(self) -> StdioServerSpec:
        return self._spec

    def _limits(self) -> UpstreamLimits:
        launched = launcher_in((self._spec.command, *self._spec.args)) != ""
        return replace(super()._limits(), downloads=launched and self.startup_timeout is None)

    def _make_transport(self, limits: UpstreamLimits) -> Transport:
        from gaia_bridge.client.transports.children.stdio import StdioTransport as Child

        return Child(replace(self._spec, name=self.name), limits)


class ChildProcess:
    """As much of `subprocess.Popen` as is good for somebody who does not own the process.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """How the process ended, negative for a signal; `None` while it runs. 0 if that is no longer known."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13: known when its owner has seen to its end
            return None if _is_there(self.pid) else 0
        try:
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return 0  # the one who owns it has seen to its end
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
