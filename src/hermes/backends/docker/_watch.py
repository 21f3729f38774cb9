"""How far a pull or a build is, read from what the client programs print for people."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..base import Measure

__all__ = ["Layers", "Steps"]

# 3948b380a535: Downloading  1.08MB/8.39MB
# Copying blob 3948b380a535 [=>--] 1.2MiB / 8.0MiB
_AMOUNT = re.compile(
    r"([0-9a-f]{12}):? +(Extracting)?.*?([\d.]+) *([kKMGT]?i?)[bB] */ *([\d.]+) *([kKMGT]?i?)[bB]"
)
_BEGUN = re.compile(r"^([0-9a-f]{12}): (?:Pulling fs layer|Waiting)|^Copying blob (?:sha256:)?([0-9a-f]{12})")
_DONE = re.compile(r"([0-9a-f]{12}):? +(?:Download complete|Pull complete|Already exists|done|skipped)")

# Step 2/4 : RUN ...   STEP 2/4: RUN ...   [1/2] STEP 2/4: RUN ...   #7 [build 2/4] RUN ...
_STEP = re.compile(
    r"^(?:\[(?P<nth>\d+)/\d+\] )?(?:Step|STEP) (?P<a>\d+)/(?P<b>\d+)"
    r"|^#\d+ \[(?:(?P<stage>\S+) +)?(?P<c>\d+)/(?P<d>\d+)\]"
)


class Layers:
    """Takes the lines of a pull on a terminal, and tells the bytes: of the download, then of unpacking it."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._sizes: dict[str, int | None] = {}
        self._here: dict[str, int] = {}
        self._unpacked: dict[str, int] = {}

    def __call__(self, line: str) -> None:
        if found := _AMOUNT.search(line):
            layer, unpacking = found[1], found[2] is not None
            size = _bytes(found[5], found[6])
            self._sizes[layer] = size
            self._here[layer] = size if unpacking else _bytes(found[3], found[4])
            if unpacking:
                self._unpacked[layer] = _bytes(found[3], found[4])
        elif found := _DONE.search(line):
            size = self._sizes.setdefault(found[1], 0) or 0
            self._sizes[found[1]] = self._here[found[1]] = size
            if "Pull complete" in line:
                self._unpacked[found[1]] = size
        elif found := _BEGUN.search(line):
            self._sizes.setdefault(found[1] or found[2], None)
            return
        else:
            return
        here, known = sum(self._here.values()), [size for size in self._sizes.values() if size is not None]
        total = sum(known) if len(known) == len(self._sizes) else None
        if here == total and self._unpacked:
            here = sum(self._unpacked.values())
        if here or total:
            self._measure(here, total, "bytes")


class Steps:
    """Takes the lines of a build, and tells the steps: of all stages that were seen so far.

    While it can, it hands on the steps' own lines alone.
    """

    def __init__(self, progress: Callable[[str], None], measure: Measure | None) -> None:
        self._progress = progress
        self._measure = measure
        self._stages: dict[str, tuple[int, int]] = {}

    def __call__(self, line: str) -> None:
        found = _STEP.match(line)
        if found is None or self._measure is None:
            if not self._stages:
                self._progress(line)
            return
        stage = found["stage"] or found["nth"] or ""
        before = self._stages.get(stage, (0, 0))[0]
        self._stages[stage] = (max(before, int(found["a"] or found["c"]) - 1), int(found["b"] or found["d"]))
        done, total = (sum(column) for column in zip(*self._stages.values(), strict=True))
        self._measure(done, total, "steps")
        self._progress(line[found.end() :].lstrip(" :"))


def _bytes(number: str, unit: str) -> int:
    power = "kMGT".index(unit[0].replace("K", "k")) + 1 if unit and unit != "i" else 0
    return int(float(number) * (1024 if unit.endswith("i") else 1000) ** power)
