"""Whose the files are, which skills a sandbox sees, and what the writable root allows."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from _containers import ONE_ENGINE, ROOT, sandbox, text
from hermes.config import Config
from hermes.errors import UnsupportedError

PACKAGE = r"""
set -e
cd "$(mktemp -d)"
mkdir -p p/DEBIAN p/usr/share/hermes-test
echo hi >p/usr/share/hermes-test/a
printf 'Package: hermes-test\nVersion: 1\nArchitecture: all\n' >p/DEBIAN/control
printf 'Maintainer: x <x@example.org>\nDescription: x\n' >>p/DEBIAN/control
printf '#!/bin/sh\nchown nobody /usr/share/hermes-test/a\n' >p/DEBIAN/postinst
chmod 755 p/DEBIAN/postinst
dpkg-deb --build p x.deb >/dev/null
dpkg -i x.deb >/dev/null
stat -c %U /usr/share/hermes-test/a
dpkg -s hermes-test | grep Status
"""
FIVE = 0b1011 | 1 << 6 | 1 << 7  # CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID


async def test_files_in_a_mounted_workspace_are_the_users(place: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    async with sandbox(place, workspace=str(tmp_path)) as box:
        await text(box, "echo x >made && mkdir dir && touch dir/inner")
        assert (await text(box, "id -u")) == str(os.geteuid())
    for name in ("made", "dir", "dir/inner"):
        facts = (tmp_path / name).stat()
        assert (facts.st_uid, facts.st_gid) == (os.geteuid(), os.getegid())


@pytest.mark.root_only
async def test_files_of_another_number_are_that_ones(place: str, tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1234)
    async with sandbox(place, workspace=str(tmp_path), user="1234") as box:
        await text(box, "echo x >made; touch ~/mine")
        assert await text(box, "id -u; id -g") == "1234\n1234"
        assert (await box.run("chown 0 made")).exit_code == 1
    assert (tmp_path / "made").stat().st_uid == 1234


@pytest.mark.root_only
async def test_a_user_of_the_images(place: str) -> None:
    """Only the image knows its number: the files are in volumes then, and its own."""
    async with sandbox(place, user="nobody") as box:
        assert await text(box, "id -un; touch ~/a /workspace/b; stat -c %U ~/a /workspace/b") == (
            "nobody\nnobody\nnobody"
        )
        assert box.describe()["channel"] == "relay"
        assert int((await text(box, "grep CapEff /proc/self/status")).split()[1], 16) == 0


async def test_the_users_own_skills_can_be_shared_but_not_changed(place: str, hermes_home: Path) -> None:
    hermes_home.mkdir(0o700)
    (hermes_home / "skills" / "one").mkdir(parents=True)
    (hermes_home / "skills" / "one" / "SKILL.md").write_text("first\n")
    async with sandbox(place, config=Config(skills="shared")) as box:
        assert await text(box, "cat ~/.hermes/skills/one/SKILL.md") == "first"
        for attempt in (
            "echo x >~/.hermes/skills/one/SKILL.md",
            "touch ~/.hermes/skills/x",
            "rm -r ~/.hermes/skills/one",
        ):
            assert (await box.exec(attempt)).exit_code != 0, attempt
        await asyncio.to_thread((hermes_home / "skills" / "one" / "SKILL.md").write_text, "second\n")
        assert await text(box, "cat ~/.hermes/skills/one/SKILL.md") == "second"
    assert (hermes_home / "skills" / "one" / "SKILL.md").read_text() == "second\n"


@ONE_ENGINE
async def test_skills_may_be_left_out(place: str, hermes_home: Path) -> None:
    hermes_home.mkdir(0o700)
    (hermes_home / "skills" / "one").mkdir(parents=True)
    async with sandbox(place, config=Config(skills="off")) as box:
        assert (await box.exec("ls ~/.hermes")).exit_code == 2


@ONE_ENGINE
async def test_a_sandbox_keeps_its_own_skills_when_made_anew(place: str, hermes_home: Path) -> None:
    hermes_home.mkdir(0o700)
    (hermes_home / "skills" / "one").mkdir(parents=True)
    (hermes_home / "skills" / "one" / "SKILL.md").write_text("first\n")
    async with sandbox(place, name="learns") as box:
        await text(
            box, "cd ~/.hermes/skills && mkdir two && echo learned >two/SKILL.md && echo better >one/SKILL.md"
        )
    async with sandbox(place, name="learns", network="off", recreate=True) as box:
        assert await text(box, "cat ~/.hermes/skills/*/SKILL.md") == "better\nlearned"
        await box.destroy()
    assert (hermes_home / "skills" / "one" / "SKILL.md").read_text() == "first\n"


@pytest.mark.skipif(not ROOT, reason="numbers of other users have to be given to files of this machine")
@pytest.mark.slow
async def test_with_a_writable_root_packages_can_be_installed(place: str) -> None:
    """None can be fetched here: what installing one does is done by hand, and by its programs."""
    async with sandbox(place, writable_root=True) as box:
        assert await text(box, "id -u") == "0"
        for who in ("self", "1"):
            said = dict(
                line.split(":\t")
                for line in (await text(box, f"grep -E 'Cap|NoNew|Secc.*:' /proc/{who}/status")).splitlines()
            )
            assert int(said["CapEff"], 16) == int(said["CapBnd"], 16) == FIVE
            assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
        await text(
            box,
            "set -e; echo x >/etc/new; cp /bin/true /usr/bin/new; new; mkdir -p /var/lib/new; "
            "chown nobody:nogroup /var/lib/new; chmod 4755 /usr/bin/new",
        )
        assert await text(box, "setpriv --reuid 65534 --regid 65534 --clear-groups id -un") == "nobody"
        assert await text(box, PACKAGE) == "nobody\nStatus: install ok installed"
        result = await box.exec(
            "apt-get update -o Acquire::http::Timeout=1 -o Acquire::Retries=0", timeout=20
        )
        assert b"Permission denied" not in result.stderr + result.stdout
        assert b"setgroups" not in result.stderr + result.stdout
        assert (await box.exec("mount -t tmpfs none /mnt")).exit_code != 0


@pytest.mark.root_only
@ONE_ENGINE
async def test_what_is_written_to_the_root_outlives_a_suspend(place: str) -> None:
    async with sandbox(place, name="rooted", writable_root=True) as box:
        await text(box, "echo installed >/usr/share/installed")
        await box.suspend()
        await box.resume()
        assert await text(box, "cat /usr/share/installed") == "installed"
        await box.destroy()


@pytest.mark.root_only
@pytest.mark.parametrize("users", [("1000", "root", "1000"), ("root", "1000:1001"), ("nobody", "daemon")])
async def test_a_sandbox_made_anew_for_another_user_is_that_ones(place: str, users: tuple[str, ...]) -> None:
    """Also what was in it for its first user alone, whether in directories or in volumes."""
    for number, user in enumerate(users):
        async with sandbox(place, name="handed", user=user, recreate=number > 0) as box:
            found = await text(box, "cat /workspace/deep/*/file ~/.secret 2>/dev/null; true")
            assert found.split() == ([users[number - 1]] * 2 if number else [])
            own = await text(box, "id -u")
            assert await text(box, "find /workspace ~ ! -user $(id -u)") == ""
            assert await text(box, "stat -c %u /workspace ~") == f"{own}\n{own}"
            await text(
                box,
                "umask 077; mkdir -p /workspace/deep/$(id -u) && cd /workspace/deep && rm -f */file; "
                f"echo {user} >$(id -u)/file; echo {user} >~/.secret; ln -sfn /etc/passwd link",
            )
            await box.run("true")
            if number == len(users) - 1:
                await box.destroy()


@pytest.mark.root_only
@pytest.mark.parametrize(("first", "second"), [("1000", "nobody"), ("nobody", "1000")])
async def test_a_user_who_cannot_have_the_files_is_refused(place: str, first: str, second: str) -> None:
    async with sandbox(place, name="kept", user=first) as box:
        await text(box, "echo kept >/workspace/file")
        job = await box.start("sleep 600")
    with pytest.raises(UnsupportedError, match="nothing was removed"):
        await sandbox(place, name="kept", user=second, recreate=True).open()
    async with sandbox(place, name="kept", user=first) as box:
        assert await text(box, "cat /workspace/file") == "kept"
        assert (await box.job(job.id)).id == job.id
        await box.destroy()
