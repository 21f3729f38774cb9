"""A sandbox whose directory on this machine somebody removed: gone, and not made anew in silence."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

import hermes
from credentials.conftest import options
from hermes.backends.docker._files import base_of
from hermes.errors import SandboxGone, exit_code


@pytest.mark.parametrize(
    "place, container",
    [
        *((place, "stopped") for place in ("jail", "docker", "podman", "singularity")),
        *((place, "removed") for place in ("docker", "podman")),
    ],
)
async def test_what_is_lost_is_said(hermes_home: Path, place: str, container: str) -> None:
    given: dict[str, Any] = {"name": "lost", "approval": "off", **options(place)}
    box = await hermes.Sandbox(place, **given).open()
    try:
        await box.run("echo kept >file")
        made: Any = box._the_place()
        of_docker = place in ("docker", "podman")
        base = await asyncio.to_thread(base_of, box.id) if of_docker else made._files.base
        assert base.is_dir()
        await box.suspend()
        again = await hermes.Sandbox(place, **given).open()
        assert (await again.run("cat file")).text == "kept\n"
        await again.suspend()
        if container == "removed":
            await made._engine.remove(made._made["container"])
        await asyncio.to_thread(shutil.rmtree, base)
        with pytest.raises(
            SandboxGone, match=r"and its files are lost: its directory, .*, was removed"
        ) as caught:
            await hermes.Sandbox(place, **given).open()
        assert exit_code(caught.value) == 123
        assert "--recreate" in str(caught.value.hint) and "hermes sandbox rm lost" in str(caught.value.hint)
        assert not base.exists()
        new = await hermes.Sandbox(place, recreate=True, **given).open()
        assert (await new.run("ls")).text == ""
        await new.destroy()
    finally:
        await box.destroy()
