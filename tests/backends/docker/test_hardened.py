"""What a container may do by default, each point seen from inside."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import hermes
from _containers import ROOT, python, sandbox, text

pytestmark = pytest.mark.asyncio(loop_scope="module")

THREE = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3}
OURS = {"/workspace", "/home/hermes", "/scratch", "/run/hermes"}
MEMORY = {"/tmp", "/var/tmp", "/run", "/dev/shm"}
ENGINES = {"/dev", "/dev/mqueue", "/sys/fs/cgroup", "/run/lock", "/run/mount"}  # in memory, and root's
STATUS = "grep -E '^(Uid|Cap...|NoNewPrivs|Seccomp):' /proc/%s/status"
MIB = 1 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(place: str, shared_home: Path) -> AsyncIterator[hermes.Sandbox]:
    """A sandbox of which nothing was asked, but skills that it gets."""
    (shared_home / "skills" / "one").mkdir(parents=True, exist_ok=True)
    (shared_home / "skills" / "one" / "SKILL.md").write_text("first\n")
    async with sandbox(place) as found:
        yield found


def limited(place: str) -> bool:
    """Whether this user's engine can enforce limits: a rootless one cannot without cgroup v2."""
    return ROOT or place == "docker"


def facts(said: str) -> dict[str, str]:
    """Return the fields of ``/proc/PID/status``."""
    return {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in said.splitlines())}


def mask(*capabilities: int) -> int:
    return sum(1 << one for one in capabilities)


async def test_the_image_cannot_be_written(box: hermes.Sandbox) -> None:
    """Not even by its own root, who may write where it has the right to."""
    for path in ("/x", "/usr/x", "/usr/bin/x", "/etc/x", "/root/x", "/opt/x", "/var/lib/x", "/home/x"):
        result = await box.run(["touch", path])
        assert result.exit_code == 1, path
        assert b"Read-only" in result.stderr or not ROOT, (path, result.stderr)
    result = await box.run("echo x >>/etc/passwd")
    assert result.exit_code != 0
    found = await text(box, "findmnt -n -o OPTIONS / || grep ' / ' /proc/mounts")
    assert "ro," in found


async def test_only_what_is_the_sandboxs_own_can_be_written(box: hermes.Sandbox, place: str) -> None:
    """Every mount that is not read-only is tried, and every directory that seems writable is looked at."""
    found = await python(
        box,
        """
import os, stat
for line in open("/proc/self/mountinfo"):
    fields = line.split()
    point, options = fields[4], fields[5].split(",")
    if "rw" not in options or not stat.S_ISDIR(os.stat(point).st_mode):
        continue
    probe = os.path.join(point, "hermes-probe")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY, 0o600))
        os.unlink(probe)
        print(point)
    except OSError:
        pass
""",
    )
    writable = set(found.splitlines())
    assert writable > OURS
    assert writable <= OURS | MEMORY | ENGINES, writable
    looking = r"find / -path /proc -prune -o -type d -writable -print 2>/dev/null; true"
    for folder in (await text(box, looking)).splitlines():
        above = [point for point in writable if folder == point or folder.startswith(point + "/")]
        assert above or folder in ("/run/lock", "/run/mount"), folder


async def test_what_the_engine_itself_leaves_writable_holds_no_files_of_the_host(box: hermes.Sandbox) -> None:
    """Its ``/dev`` and the top of its control groups are in memory, and only its own."""
    for point in sorted(ENGINES):
        kind = await text(box, f"stat -f -c %T {point} 2>/dev/null || true")
        assert kind in ("tmpfs", "mqueue", "cgroup2fs", ""), (point, kind)


async def test_files_of_devices_are_the_harmless_ones(box: hermes.Sandbox) -> None:
    found = await text(box, "cd /dev && find . -type b -o -type c ! -path './pts/*' | sort")
    assert set(found.split()) <= {
        f"./{name}" for name in ("full", "null", "random", "tty", "urandom", "zero", "console")
    }


@pytest.mark.parametrize(
    ("user", "effective", "bound"),
    [("root", mask(*THREE.values()), mask(*THREE.values())), ("1234:1234", 0, None)],
    ids=["root", "ordinary"],
)
async def test_capabilities(place: str, user: str, effective: int, bound: int | None) -> None:
    """Root keeps three; another user has none, nor a way to any beyond the three."""
    async with sandbox(place, user=user) as box:
        for who in ("self", "1", "$PPID"):
            seen = facts(await text(box, STATUS % who))
            assert seen["Uid"] == user.partition(":")[0].replace("root", "0")
            assert int(seen["CapEff"], 16) == effective, who
            assert int(seen["CapPrm"], 16) == effective, who
            assert int(seen["CapAmb"], 16) == int(seen["CapInh"], 16) == 0, who
            if bound is not None:
                assert int(seen["CapBnd"], 16) == bound, who
            else:
                assert int(seen["CapBnd"], 16) & ~mask(*THREE.values()) == 0, who
        await text(box, "touch ~/a /workspace/a && ls -la ~/.hermes/skills ~/.local >/dev/null || true")


async def test_nothing_gains_privileges_and_calls_are_filtered(box: hermes.Sandbox) -> None:
    for who in ("1", "self", "$PPID"):
        seen = facts(await text(box, STATUS % who))
        assert seen["NoNewPrivs"] == "1"
        assert seen["Seccomp"] == "2"


async def test_places_in_memory_run_no_programs(box: hermes.Sandbox) -> None:
    mounts = {}
    for line in (await text(box, "cat /proc/mounts")).splitlines():
        _, point, kind, rest, *_ = line.split()
        mounts[point] = (kind, set(rest.split(",")))
    for point in MEMORY:
        kind, options = mounts[point]
        assert kind == "tmpfs"
        assert {"noexec", "nosuid", "nodev"} <= options, point
        assert any(one.startswith("size=") for one in options), point
        if point == "/run" and not ROOT:
            continue
        result = await box.run(f"cp /bin/true {point}/t && {point}/t; code=$?; rm -f {point}/t; exit $code")
        assert result.exit_code == 126, point
    kind, options = mounts["/scratch"]
    assert kind == "tmpfs"
    assert {"nosuid", "nodev"} <= options and "noexec" not in options


async def test_programs_run_from_tmp_where_that_was_wished(place: str) -> None:
    async with sandbox(place, tmp_exec=True) as box:
        for point in ("/tmp", "/var/tmp"):
            assert (await box.run(f"cp /bin/true {point}/t && {point}/t")).exit_code == 0, point
        assert (await box.run("cp /bin/true /dev/shm/t && /dev/shm/t")).exit_code == 126


async def test_programs_can_be_built_and_run_where_tmpdir_points_to(box: hermes.Sandbox) -> None:
    found = await text(
        box,
        "set -e; d=$(mktemp -d); echo $d; cp /bin/echo $d/binary; $d/binary binary runs; "
        "printf '#!/bin/sh\\necho script runs\\n' >$d/script; chmod +x $d/script; $d/script; "
        "python3 -c 'import tempfile; print(tempfile.gettempdir())'; rm -r $d",
    )
    folder, *said = found.splitlines()
    assert folder.startswith("/scratch/")
    assert said == ["binary runs", "script runs", "/scratch"]
    await text(box, "cp /bin/true ~/t && ~/t && cp ~/t /workspace/t && /workspace/t && rm ~/t /workspace/t")


async def test_places_in_memory_are_of_limited_size(place: str) -> None:
    sizes = {"/tmp": 8, "/var/tmp": 8, "/scratch": 12, "/dev/shm": 4}
    wishes = {"tmp_size": 8 * MIB, "scratch_size": 12 * MIB, "shm_size": 4 * MIB}
    async with sandbox(place, **wishes) as box:
        for point, size in sizes.items():
            result = await box.run(
                f"head -c 20M /dev/zero >{point}/big; code=$?; stat -c %s {point}/big; exit $code"
            )
            assert result.exit_code != 0, point
            assert b"No space left" in result.stderr
            assert int(result.text) <= size * MIB
            assert (await box.run(["rm", f"{point}/big"])).exit_code == 0
        assert await text(box, "echo still here") == "still here"


async def test_the_skills_are_a_copy_of_its_own(box: hermes.Sandbox, shared_home: Path) -> None:
    assert await text(box, "cat ~/.hermes/skills/one/SKILL.md") == "first"
    await text(box, "cd ~/.hermes/skills && echo mine >one/SKILL.md && mkdir two && echo new >two/SKILL.md")
    assert (shared_home / "skills" / "one" / "SKILL.md").read_text() == "first\n"
    assert not (shared_home / "skills" / "two").exists()
    (shared_home / "skills" / "one" / "SKILL.md").write_text("first\n")


async def test_the_environment_is_not_the_hosts(box: hermes.Sandbox) -> None:
    found = dict(line.partition("=")[::2] for line in (await text(box, "env")).splitlines())
    assert found["HOME"] == "/home/hermes"
    assert found["TMPDIR"] == "/scratch"
    known = {"HOSTNAME", "PWD", "OLDPWD", "LOGNAME", "HOME", "TMPDIR", "USER", "SHLVL", "LC_CTYPE", "PATH"}
    passed_on = {"TERM", "LANG", "TZ"}
    assert set(found) <= known | passed_on | {"_", "container", "HERMES_TASK"}
