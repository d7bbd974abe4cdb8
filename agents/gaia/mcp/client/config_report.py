"""The report on a configuration (`MCPConfig.load_report`); programs may read it as GAIA's dictionary, too."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from gaia_bridge.config import Layer, LayerKind, LayerState, LoadReport

__all__ = ["ConfigReport", "gaia_report"]

_Mapping: Final[Any] = Mapping
"""Its methods are taken one by one: a class cannot inherit from both a `Struct` and a `Mapping`."""


def gaia_report(files: Iterable[Layer], config_file: Path) -> dict[str, Any]:
    """Return the report in the form of GAIA's own `load_report`; see `ConfigReport`.

    Args:
        files: The files that were read.
        config_file: The one that new servers are written to.
    """
    layers = {layer.kind: layer for layer in files}
    if (explicit := layers.get(LayerKind.EXPLICIT)) is not None:
        return {"mode": "explicit", "config_file": config_file, "servers": list(explicit.entries)}
    mapping: dict[str, Any] = {"mode": "auto", "config_file": config_file}
    for kind in (LayerKind.GLOBAL, LayerKind.LOCAL):
        layer = layers.get(kind)  # in the home folder's .gaia, the two are one file
        mapping[kind.value] = {
            "path": config_file if layer is None else layer.path,
            "exists": layer is not None and layer.state is not LayerState.ABSENT,
            "servers": [] if layer is None else list(layer.entries),
        }
    lower = mapping[LayerKind.GLOBAL.value]["servers"]
    mapping["overrides"] = [name for name in mapping[LayerKind.LOCAL.value]["servers"] if name in lower]
    return mapping


class ConfigReport(LoadReport, frozen=True, kw_only=True):
    """A report of each file's entries, and of those that cannot be used and why. Reads as GAIA's mapping as well.

    Its keys are `mode` ("auto" or "explicit") and `config_file`, which new servers are written to; of an explicit file
    `servers`, the names of its entries; else `global` and `local`, each with `path`, `exists` and `servers`, and
    `overrides`, the names of local entries that take the place of global ones.
    """

    config_file: Path
    """The file that new servers are written to."""

    def __getitem__(self, key: str) -> Any:
        return self._as_mapping()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._as_mapping())

    def __len__(self) -> int:
        return len(self._as_mapping())

    __contains__, get = _Mapping.__contains__, _Mapping.get
    keys, values, items = _Mapping.keys, _Mapping.values, _Mapping.items

    def _as_mapping(self) -> dict[str, Any]:
        return gaia_report((report.layer for report in self.layers), self.config_file)


cast(ABCMeta, Mapping).register(ConfigReport)
