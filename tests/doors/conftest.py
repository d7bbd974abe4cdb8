"""What a test leaves behind is looked for here as well."""

from __future__ import annotations

from tests.support.bystanders import nothing_left

__all__ = ["nothing_left"]
