"""Odd accounts: login shells, start-up files that print, no Python, nowhere to write, nobody let in."""

from __future__ import annotations

import asyncio

import pytest

import hermes
from _ssh import Host, machine
from hermes.testing.tools import stopwatch

from .conftest import Open

SHELLS = ("bash", "dash", "zsh", "fish", "csh", "tcsh")
AWKWARD = 'it\'s "quoted" $HOME `id` !! !x ~ * \\ % # ; & | < > ( ) { } \t\x7f é'


def left_in(host: Host) -> str:
    """Return what lies in the account's home and is his elsewhere. Blocks."""
    where = "/tmp /var/tmp /dev/shm"
    return host.run(f"/bin/sh -c 'find . | sort; find {where} -user `id -un` 2>/dev/null; true'")


@pytest.mark.parametrize("shell", SHELLS)
async def test_whatever_the_login_shell(host: Host, shell: str) -> None:
    """It may print what it likes before anything runs, and it never sees a command."""
    account = host.as_user(f"hermes-{shell}")
    before = await asyncio.to_thread(left_in, account)
    async with account.sandbox() as box:
        result = await box.run("echo out; echo err >&2; exit 9")
        assert (result.exit_code, result.stdout, result.stderr) == (9, b"out\n", b"err\n")
        assert (await box.run(["printf", "%s", AWKWARD])).stdout == AWKWARD.encode()
        data = bytes(range(256)) * 2000
        assert (await box.exec("cat", stdin=data)).stdout == data
        # A session is bash whatever the account's own shell is.
        assert (await box.run("x=(1 2 3); echo ${#x[@]} ${BASH_VERSION:+bash}; id -un")).text == (
            f"3 bash\n{account.user}\n"
        )
        assert (await box.run("echo $SHELL")).text.strip().endswith(f"/{shell}")
        await box.files.write("deep/file", b"\0\xff")
        assert await box.files.read("deep/file") == b"\0\xff"
    assert await asyncio.to_thread(left_in, account) == before


async def test_what_start_up_files_set_counts_and_what_they_print_does_not(open_on: Open, host: Host) -> None:
    box = await open_on(host.as_user("hermes-zsh"))
    assert (await box.run("echo only this")).text == "only this\n"
    assert "Welcome" not in (await box.run("env")).text


@pytest.mark.parametrize(
    ("account", "said"),
    [
        ("nologin", "not available"),
        ("git", "unrecognized command"),
        ("force", "only this"),
    ],
)
async def test_an_account_that_runs_nothing_says_so(host: Host, account: str, said: str) -> None:
    """What it printed is what the user needs to know."""
    with stopwatch(10), pytest.raises(hermes.BackendError) as caught:
        await host.as_user(f"hermes-{account}").sandbox().open()
    assert said in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


async def test_a_path_without_python(open_on: Open, host: Host) -> None:
    """It is looked for where it usually is; what the user names is taken and no other."""
    account = host.as_user("hermes-nopython")
    box = await open_on(account)
    assert (await box.run("echo in")).text == "in\n"
    named = await open_on(account, python="/usr/bin/python3")
    assert (await named.run("echo in")).text == "in\n"
    with stopwatch(10), pytest.raises(hermes.BackendError, match=r"ssh\.python"):
        await open_on(account, python="/usr/bin/python9")


async def test_a_home_that_cannot_be_written_to(host: Host) -> None:
    """Sandboxes then have their files elsewhere, and leave nothing there either."""
    account = host.as_user("hermes-nohome")
    before = await asyncio.to_thread(left_in, account)
    async with account.sandbox() as box:
        assert (await box.run("echo text >file; cat file")).text == "text\n"
        await box.files.write("other", b"more")
    assert await asyncio.to_thread(left_in, account) == before


NO_PYTHON = 'for one in /usr/bin/python3*; do mount --bind /dev/null "$(readlink -f "$one")"; done'


@pytest.mark.root_only
async def test_a_machine_without_python() -> None:
    with machine(prepare=NO_PYTHON, delay=0) as own:
        with stopwatch(10), pytest.raises(hermes.BackendError, match=r"(?i)python") as caught:
            await own.host.sandbox().open()
        assert "there is no python3" in str(caught.value)
        assert own.files() == set()
        assert own.left() == {}


@pytest.mark.root_only
async def test_places_where_nothing_may_be_executed() -> None:
    """Homes and temporary directories are mounted like that in places that are careful."""
    all_of_them = '/tmp /var/tmp /dev/shm "/home/$tester"'
    careful = f'for one in {all_of_them}; do mount -o remount,bind,noexec,nosuid "$one"; done'
    with machine(prepare=careful, delay=0) as own:
        async with own.host.sandbox() as box:
            refused = await box.run("printf '#!/bin/sh\\n' >x; chmod +x x; ./x")
            assert refused.exit_code == 126  # it is so
            assert (await box.run("echo on; false")).exit_code == 1
            job = await box.start("echo job")
            assert (await job.wait()).stdout == b"job\n"
        assert own.left() == {}
        assert own.files() == set()


# A megabyte for each place that is written to.
SMALL = """
mount -t tmpfs -o "size=1m,uid=$(id -u $tester),mode=700" small "/home/$tester"
for one in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o size=1m,mode=1777 small $one; done
"""
FILL = "head -c 2000000 /dev/zero >{}/fill 2>/dev/null || true"


@pytest.mark.root_only
async def test_a_disk_that_is_full() -> None:
    """What runs goes on when it fills up: what could not be written is an error of its own."""
    with machine(prepare=SMALL, delay=0) as own:
        async with own.host.sandbox() as box:
            for place in ("/tmp", "/var/tmp", "~"):
                await box.run(FILL.format(place))
            result = await box.run("echo more >>file; echo told; exit 3")
            assert (result.exit_code, result.stdout) == (3, b"told\n")
            assert b"No space left" in result.stderr
            with pytest.raises(hermes.FileError) as caught:
                await box.files.write("big", b"x" * 500_000)
            assert caught.value.code == "no_space"
            # Output that does not fit beside it.
            long = await box.run("head -c 3000000 /dev/zero | tr '\\0' a")
            assert long.exit_code == 0
            assert len(long.stdout) > 100_000
            assert (await box.run("rm ~/fill; echo more >>file; cat file")).text == "more\n"
            await box.run("rm -f /tmp/fill /var/tmp/fill")
        assert own.left() == {}
        assert own.files() == set()


@pytest.mark.root_only
async def test_no_room_for_the_commands_themselves() -> None:
    """Then none is run, which is said; it is never a command's own exit code."""
    with machine(prepare=SMALL, delay=0) as own:
        async with own.host.sandbox() as box:
            await box.run(FILL.format("/dev/shm"))
            with pytest.raises(hermes.HermesError, match=r"was not run: .*No space left") as refused:
                await box.run(": " + "x" * 100_000 + "; echo ran; exit 3")
            assert refused.value.code == "no_space"
            await box.files.remove("/dev/shm/fill")
            assert (await box.run("echo on")).text == "on\n"
        assert own.left() == {}
        assert own.files() == set()


@pytest.mark.root_only
async def test_a_start_on_a_full_disk() -> None:
    """It says what is missing, and leaves nothing."""
    full = f"{SMALL}for one in /tmp /var/tmp /dev/shm /home/$tester; do {FILL.format('$one')}; done"
    with machine(prepare=full, delay=0) as own:
        before = own.files()
        with stopwatch(20), pytest.raises(hermes.HermesError, match=r"(?i)space|no directory"):
            await own.host.sandbox().open()
        assert own.left() == {}
        assert own.files() == before
