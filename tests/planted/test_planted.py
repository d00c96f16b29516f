"""The deliberate defects can still be planted, and one of them is caught; `make planted` does all."""

from __future__ import annotations

from pathlib import Path

import pytest

from .run import Defect, DefectError, check, copy_package, defects

ALL = {defect.name: defect for defect in defects()}


@pytest.mark.parametrize("defect", ALL.values(), ids=ALL)
def test_every_defect_can_be_planted(defect: Defect, tmp_path: Path) -> None:
    defect.plant(copy_package(tmp_path))
    assert defect.breaks
    assert defect.tests
    for test in defect.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in Path(path).read_text(), f"there is no {test}"


def test_a_defect_is_caught() -> None:
    check(ALL["log-without-rate"])


def test_what_cannot_be_planted_is_told(tmp_path: Path) -> None:
    with pytest.raises(DefectError, match="stands 0 times"):
        Defect("stale", "nothing", (("version.py", "not there", ""),), ()).plant(copy_package(tmp_path))
