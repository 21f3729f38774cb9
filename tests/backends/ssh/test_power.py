"""Machines that sleep: woken when they are needed and only then, released when nobody needs them."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import hermes
from _ssh import TESTS, Machine, until
from hermes.config import Lifetime
from hermes.testing.tools import stopwatch

from .conftest import Open

pytestmark = [pytest.mark.root_only, pytest.mark.timeout(90)]

# Sleep and wakefulness of a machine whose link is cut while it sleeps.
POWER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from _ssh import Link
folder, control, cut = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] == "off"
with (folder / "log").open("a") as log:
    log.write(sys.argv[4] + "\\n")
Link(control).set(cut=cut)
"""


class Power:
    """What wakes a machine and lets it sleep, and how often either was done."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder = folder
        script = folder / "power.py"
        script.write_text(POWER)
        words = [sys.executable, str(script), str(TESTS), str(folder), str(machine.folder / "control")]
        self.options: dict[str, Any] = {
            "wake_command": shlex.join([*words, "on"]),
            "release_command": shlex.join([*words, "off"]),
            "connect_timeout": 2,
            "keepalive": 1,
        }

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def power(tmp_path: Path, own: Machine) -> Power:
    return Power(tmp_path, own)


async def test_it_is_woken_when_it_sleeps_and_only_then(own: Machine, power: Power, open_on: Open) -> None:
    box = await open_on(own.host, **power.options)
    assert power.log == []
    await box.destroy()
    own.link.set(cut=True)
    with stopwatch(30):
        box = await open_on(own.host, **power.options)
    assert power.log == ["on"]
    assert (await box.run("uname -n")).text == "own\n"
    await box.destroy()
    assert own.left() == {}


async def test_a_suspended_one_is_released_and_goes_on_where_it_was(
    own: Machine, power: Power, open_on: Open
) -> None:
    box = await open_on(own.host, name="sleeper", **power.options)
    await box.run("echo kept >file; x=1")
    await box.suspend()
    assert power.log == ["off"]
    await box.close()
    again = await open_on(own.host, name="sleeper", **power.options)
    assert power.log == ["off", "on"]
    assert (await again.run("cat file")).text == "kept\n"
    await again.destroy()
    assert own.left() == {}
    assert own.files() == set()


@pytest.mark.slow
async def test_it_is_released_when_nobody_uses_it(own: Machine, power: Power, open_on: Open) -> None:
    life = Lifetime(idle_stop=8)  # longer than an opening takes
    box = await open_on(own.host, name="idle", lifetime=life, **power.options)
    job = await box.start("sleep 12; echo done")
    await asyncio.sleep(10)
    assert power.log == []  # it is in use
    assert (await job.wait()).text == "done\n"
    await until(lambda: power.log == ["off"], 25)
    await asyncio.sleep(2)
    with stopwatch(40):
        assert (await box.run("echo on")).text == "on\n"
    assert power.log == ["off", "on"]


async def test_one_that_others_use_is_not_released(own: Machine, power: Power, open_on: Open) -> None:
    other = await open_on(own.host, name="other")
    await other.start("sleep 1000")
    box = await open_on(own.host, name="mine", **power.options)
    await box.suspend()
    assert power.log == []
    assert (await other.run("echo on")).text == "on\n"


async def test_one_that_does_not_wake_is_said_to(own: Machine, power: Power, tmp_path: Path) -> None:
    own.link.set(cut=True)
    options = {**power.options, "wake_command": "true", "wake_timeout": 3}
    with stopwatch(30), pytest.raises(hermes.Unreachable, match="woken"):
        await own.host.sandbox(**options).open()
    options["wake_command"] = "echo no such relay >&2; exit 3"
    with stopwatch(30), pytest.raises(hermes.BackendError, match="no such relay"):
        await own.host.sandbox(**options).open()


@pytest.mark.slow
async def test_nothing_is_lost_that_is_asked_while_it_is_released(
    own: Machine, power: Power, open_on: Open
) -> None:
    """To let it go takes a while, and who comes meanwhile finds it awake, or has it woken."""
    slow = f"sleep 2; {power.options['release_command']}"
    options = {**power.options, "release_command": slow}
    box = await open_on(own.host, name="both", lifetime=Lifetime(idle_stop=8), **options)
    await box.run("true")
    start = asyncio.get_running_loop().time()
    await asyncio.sleep(8.5)
    number = 0
    while asyncio.get_running_loop().time() - start < 16:
        number += 1
        assert (await box.run(f"echo {number} >>log; echo {number}")).text == f"{number}\n"
        await asyncio.sleep(0.1)
    assert (await box.run("cat log")).text == "".join(f"{one}\n" for one in range(1, number + 1))
    # Whoever used it all the time did not lose it.
    assert power.log in ([], ["off", "on"])
