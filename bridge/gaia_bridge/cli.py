"""The command line under the name that installed programs and bundles have for it: `gaia_bridge.cli:main`.

Everything of it is in `gaia_bridge_cli`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None, prog_name: str = "gaia-bridge") -> int:
    """Run the command line; see `gaia_bridge_cli.main`.

    Args:
        args: The arguments; those of the process if not given.
        prog_name: The name of the program in its messages.

    Returns:
        The exit code.
    """
    from gaia_bridge_cli import main as run

    return run(args, prog_name)
