"""Whether the program that the bridge runs in traces (OpenTelemetry)."""

from __future__ import annotations

import sys


def is_traced() -> bool:
    """Whether anybody collects spans: the SDK is there then, and not the API alone, which makes none."""
    return "opentelemetry.sdk" in sys.modules
