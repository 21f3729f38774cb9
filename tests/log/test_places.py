"""Every place is recorded in the same way, each with its own facts and without what is declared for it."""

from __future__ import annotations

from pathlib import Path

import pytest

import hermes
from credentials.conftest import declared, options
from log._recorded import cast_of, everything, recorded

VALUE = "cobalt-Heron-7731-quartz"


@pytest.mark.parametrize("place", ["docker", "ssh", "singularity", "jail"])
async def test_a_session(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("MY_VALUE", VALUE)
    config = declared(env=["MY_VALUE"], redact="off")
    async with hermes.Sandbox(place, config=config, **options(place)) as box:
        result = await box.run('echo "$MY_VALUE"; exit 3')
        assert result.stdout == f"{VALUE}\n".encode()
        await box.run("seq 100000", on_output=lambda data: None)
        async with await box.pty('echo "$MY_VALUE"; echo shown') as pty:
            await pty.wait()
        isolation = box.describe()["isolation"]
    assert VALUE.encode() not in everything(hermes_home)
    found = await recorded()
    assert (found.facts["backend"], found.facts["isolation"]) == (place, isolation)
    first, long, terminal = found.commands
    assert (first.exit_code, first.outputs[0].data) == (3, b"[redacted]\n")
    assert sum(len(one.data) + one.omitted for one in long.outputs) == 588895
    assert cast_of(hermes_home, terminal.number)[1] == "[redacted]\r\nshown\r\n"
