"""The records of a measurement, and the facts of the machine that it was made on."""

from __future__ import annotations

import contextlib
import math
import os
import platform
from collections.abc import Sequence
from typing import Literal

import msgspec

Unit = Literal["s", "B", "B/s"]
Facts = dict[str, bool | int | float | str | None]


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over ``runs`` repetitions, in its row's unit. Percentiles are by nearest rank."""

    runs: int
    min: float
    median: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Stats:
        """Sum up one value or more."""
        ordered = sorted(values)

        def rank(share: float) -> float:
            return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

        return cls(
            runs=len(ordered),
            min=ordered[0],
            median=(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2,
            p95=rank(0.95),
            p99=rank(0.99),
            max=ordered[-1],
        )


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure both ways; ``ratio`` is that of the medians, hermes to plain, and ``facts`` are asides."""

    key: str
    what: str
    unit: Unit
    hermes: Stats
    plain: Stats | None = None
    ratio: float | None = None
    facts: Facts = {}

    @classmethod
    def of(
        cls,
        key: str,
        what: str,
        hermes: Sequence[float],
        plain: Sequence[float] | None = None,
        *,
        unit: Unit = "s",
        **facts: bool | int | float | str | None,
    ) -> Row:
        """Make a row from the single values."""
        ours, theirs = Stats.of(hermes), Stats.of(plain) if plain else None
        ratio = ours.median / theirs.median if theirs is not None and theirs.median else None
        return cls(key=key, what=what, unit=unit, hermes=ours, plain=theirs, ratio=ratio, facts=facts)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured. ``load`` are the averages over 1, 5 and 15 minutes; ``memory`` in bytes."""

    system: str
    kernel: str
    architecture: str
    cpu: str
    cores: int
    memory: int
    python: str
    hermes: str
    load: tuple[float, float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run measured. ``taken`` is in seconds since the epoch."""

    backend: str
    plain: str
    taken: float
    machine: Machine
    load_after: tuple[float, float, float]
    rows: list[Row]


def machine() -> Machine:
    """Return the facts of this machine now."""
    from importlib import metadata

    try:
        own = metadata.version("hermes-places")
    except metadata.PackageNotFoundError:
        own = "unknown"
    return Machine(
        system=platform.system(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=platform.python_version(),
        hermes=own,
        load=load(),
    )


def load() -> tuple[float, float, float]:
    """Return the load averages."""
    one, five, fifteen = os.getloadavg()
    return round(one, 2), round(five, 2), round(fifteen, 2)


def _cpu() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
