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
        assert own.strangers() == {}


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
        assert own.strangers() == {}
        assert own.files() == set()


@pytest.mark.root_only
@pytest.mark.timeout(120)
async def test_a_disk_that_is_full() -> None:
    """Home and all else: what cannot be started says why; what runs goes on when it fills up."""
    small = (
        'mount -t tmpfs -o "size=1m,uid=$(id -u $tester),mode=700" small "/home/$tester"\n'
        "for one in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o size=1m,mode=1777 small $one; done"
    )
    fill = "head -c 2000000 /dev/zero >{}/fill 2>/dev/null; true"
    places = ("/tmp", "/var/tmp", "/dev/shm", "~")
    with machine(prepare=small, delay=0) as own:
        async with own.host.sandbox() as box:
            for place in places:
                await box.run(fill.format(place))
            result = await box.run("echo more >>file; echo told; exit 3")
            assert (result.exit_code, result.stdout) == (3, b"told\n")
            assert b"No space left" in result.stderr
            with pytest.raises(hermes.FileError) as caught:
                await box.files.write("big", b"x" * 500_000)
            assert caught.value.code == "no_space"
            # A command that does not fit is not run, and says so.
            with pytest.raises(hermes.HermesError, match=r"was not run: .*No space left") as refused:
                await box.run("echo told " + "x" * 100_000)
            assert refused.value.code == "no_space"
            with stopwatch(15), pytest.raises(hermes.HermesError, match=r"(?i)space|no directory"):
                await own.host.sandbox().open()
            await asyncio.to_thread(own.host.run, "rm -f {}/fill".format("/fill ".join(places)))
            assert (await box.run("echo more >>file; cat file")).text == "more\n"
        assert own.strangers() == {}
        assert own.files() == set()
