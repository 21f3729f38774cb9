"""How far a pull or a build is, from what the clients print."""

from __future__ import annotations

import pytest

from hermes.backends.docker._watch import Layers, Steps

A, B = "3948b380a535", "45ee1f2f5271"


def test_a_pull_of_docker() -> None:
    told: list[tuple[int, int | None]] = []
    layers = Layers(lambda done, total, unit: told.append((done, total)))
    for line in (
        "here: Pulling from hermes-test",
        f"{A}: Pulling fs layer ",
        f"{B}: Pulling fs layer ",
        f"{B}: Waiting ",
        f"{A}: Downloading  500kB/1.5MB",
        f"{B}: Downloading [=====>      ]  1MB/2.5MB",
        f"{A}: Verifying Checksum ",
        f"{A}: Download complete ",
        f"{A}: Extracting  500kB/1.5MB",
        f"{B}: Download complete ",
        f"{A}: Pull complete ",
        f"{B}: Extracting  2MB/2.5MB",
        f"{B}: Pull complete ",
        "Digest: sha256:5c69033658bee3649c31d75064080c2084ea1e8e58fb1d1b47a8e8e8b699d4ec",
    ):
        layers(line)
    kilo = [(done // 1000, total and total // 1000) for done, total in told]
    assert kilo == [
        (500, None),  # the size of the other is not known yet
        (1500, 4000),
        (2500, 4000),
        (2500, 4000),
        (500, 4000),  # all is here: from now on it is unpacked
        (1500, 4000),
        (3500, 4000),
        (4000, 4000),
    ]


def test_a_pull_of_podman_and_one_of_what_is_here() -> None:
    told: list[tuple[int, int | None]] = []
    layers = Layers(lambda done, total, unit: told.append((done, total)))
    layers(f"Copying blob {A} skipped: already exists  ")
    assert told == []
    layers(f"Copying blob {B} [=>----------] 512.0KiB / 8.0MiB")
    layers(f"Copying blob {B} done  ")
    assert told == [(512 << 10, 8 << 20), (8 << 20, 8 << 20)]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["Step 1/3 : FROM x", " ---> 2032da082d34", "Step 2/3 : RUN y"], [(0, 3), (1, 3)]),
        (["STEP 1/2: FROM x", "STEP 2/2: RUN y"], [(0, 2), (1, 2)]),
        (["[1/2] STEP 1/2: FROM x", "[2/2] STEP 1/3: FROM z"], [(0, 2), (0, 5)]),
        (["#1 [internal] load build definition", "#5 [1/2] FROM x", "#6 [2/2] RUN y"], [(0, 2), (1, 2)]),
        (["#5 [build 2/4] RUN x", "#6 [stage-1 1/2] FROM y"], [(1, 4), (1, 6)]),
    ],
)
def test_a_build(lines: list[str], found: list[tuple[int, int]]) -> None:
    told: list[tuple[int, int | None]] = []
    said: list[str] = []
    steps = Steps(said.append, lambda done, total, unit: told.append((done, total)))
    for line in lines:
        steps(line)
    assert told == found
    assert said[-1] in (lines[-1].rpartition(": ")[2], lines[-1].rpartition("] ")[2])


def test_without_anybody_who_watches_every_line_is_handed_on() -> None:
    said: list[str] = []
    steps = Steps(said.append, None)
    for line in ("Step 1/3 : FROM x", " ---> 2032da082d34"):
        steps(line)
    assert said == ["Step 1/3 : FROM x", " ---> 2032da082d34"]
