"""Full disks, and too few files that may be open."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from gaia_bridge.settings import DoctorLimits
from gaia_bridge_desk.doctor.files import RESOURCES
from tests.desk.doctor.looking import by_id, look


def test_a_machine_with_enough_of_all_is_fine() -> None:
    assert set(by_id(look(RESOURCES, limits=DoctorLimits(free_bytes=1, open_files=1)))) == {"resource.fine"}


def test_a_disk_with_less_room_than_wanted_is_told_with_its_folder(tmp_path: Path) -> None:
    [finding] = look(RESOURCES, limits=DoctorLimits(free_bytes=2**62, open_files=1), environ={})[-1:]
    assert finding.kind.id == "resource.disk-full"
    assert "MiB left" in finding.message and finding.about in finding.message


def test_a_disk_that_can_hold_no_more_files_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def without_names(path: str) -> os.statvfs_result:
        about = list(real(path))
        about[5], about[7] = 1000, 0
        return os.statvfs_result(about)

    monkeypatch.setattr(os, "statvfs", without_names)
    found = by_id(look(RESOURCES, limits=DoctorLimits(free_bytes=1, open_files=1)))
    assert "can hold no more files" in found["resource.disk-full"].message


def test_few_open_files_are_told_with_how_many_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(_: int) -> tuple[int, int]:
        return 20, 4096

    monkeypatch.setattr(resource, "getrlimit", few)
    found = by_id(look(RESOURCES, limits=DoctorLimits(free_bytes=1)))
    assert "20 files may be open at once; expected 256" in found["resource.few-files"].message
    assert "ulimit -n" in found["resource.few-files"].remedy
