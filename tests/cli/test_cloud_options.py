"""What the command line chooses on places that are paid for: GPUs, and which commands share a sandbox."""

from __future__ import annotations

import pytest

from hermes.cli._place import choose, default_name
from hermes.errors import ConfigError


@pytest.mark.parametrize(
    ("place", "wanted", "expected"),
    [
        ("modal", "A100", {"gpu": "A100"}),
        ("modal", "H100:2", {"gpu": "H100:2"}),
        ("docker", "all", {"gpus": "all"}),
        ("podman", "device=0", {"gpus": "device=0"}),
        ("singularity", "all", {"nv": True}),
    ],
)
def test_a_gpu_is_each_places_own_option(place: str, wanted: str, expected: dict[str, object]) -> None:
    assert choose(place, gpu=wanted).options == expected


@pytest.mark.parametrize(
    ("place", "wanted", "said"),
    [
        ("local", "all", "local gives a sandbox no GPU"),
        ("vercel", "A100", "vercel gives a sandbox no GPU"),
        ("docker", "A100", "docker gives a sandbox GPUs of this machine, and cannot choose 'A100'"),
        ("singularity", "1", "cannot choose '1'"),
    ],
)
def test_a_gpu_that_a_place_cannot_give_is_refused(place: str, wanted: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        choose(place, gpu=wanted)
    assert "nothing was run" in str(caught.value)
    assert "--gpu all" in (caught.value.hint or "")


def test_which_commands_share_a_sandbox() -> None:
    mine = default_name(None)

    def name(reuse: str, place: str = "modal", **more: object) -> str | None:
        return choose(place, settings=[f"modal.reuse={reuse}"], **more).name  # type: ignore[arg-type]

    assert name("name", session="work", alone=True) == mine
    assert name("session", session="work", alone=True) == f"{mine}.work"
    assert name("session", alone=True) == mine
    assert name("session", session="work", name="given") == "given"
    assert name("command", alone=True) is None
    assert name("command", name="given", alone=True) == "given"
    assert name("command") == mine  # a command that only looks for one
    assert name("command", "local", alone=True) == mine
    with pytest.raises(ConfigError, match="needs a sandbox that stays"):
        name("command", session="work", alone=True)
