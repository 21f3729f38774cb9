"""The places that adapters are tried in, as files of settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from _containers import IMAGES
from _ssh import near

PLACES = ("local", "docker", "ssh", "singularity")


def settings(place: str) -> dict[str, Any]:
    """Return the settings of a place, as `config.yaml` has them. In docker an ordinary user is who runs."""
    if place == "docker":
        return {"docker": {"image": IMAGES["docker"], "user": "1000:1000"}}
    if place == "ssh":
        host = near()
        reached = {"host": host.address, "user": host.user, "port": host.port, "key": host.key}
        return {"ssh": {**reached, "config_file": host.config}}
    if place == "singularity":
        image = os.environ.get("PARTS_ROOTFS")
        if not image:
            pytest.skip("no image: scripts/parts start rootfs")
        return {"singularity": {"image": image}}
    return {}


def documented(heading: str, others: dict[str, str]) -> str:
    """Return the first Python code below a heading of the documentation.

    :param others: what takes the place of a text in it, such as a model that cannot be had here
    """
    page = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text("utf-8")
    code = page.partition(f"\n## {heading}\n")[2].partition("```python\n")[2].partition("```")[0]
    for text, other in others.items():
        assert code.count(text) == 1, text
        code = code.replace(text, other)
    return code


def file_of(place: str, folder: Path) -> Path:
    """Write a file of settings that chooses a place; YAML has JSON in it."""
    path = folder / f"{place}.yaml"
    path.write_text(json.dumps({"sandbox": place, **settings(place)}))
    return path
