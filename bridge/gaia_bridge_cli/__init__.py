"""The command line, `gaia-bridge COMMAND` or `gaia mcp COMMAND`. Exit codes, after sysexits.h:

    0    done; also after a server was ended by one SIGINT or SIGTERM, or by its client
    1    the tool that was called reports a failure; `doctor` found nothing worse than warnings
    64   the command line is wrong
    66   an agent cannot be loaded or published
    69   the address cannot be listened on, or the server cannot be reached
    70   an error of the bridge itself; `--debug` shows where
    74   standard output cannot be written
    78   a configuration file or option cannot be used; `doctor` found errors
    130, 143   ended at once, by SIGINT (`serve`: the second one) or a second SIGTERM

Everything for people goes to standard error, one line for each error; standard output is for results and the protocol.
"""

from __future__ import annotations

from gaia_bridge_cli.entry import main

__all__ = ["main"]
