"""The password for sudo, with the real sudo of an account that has one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

import hermes
from _ssh import Host

from .conftest import Open

pytestmark = pytest.mark.root_only  # nobody else can read the account's password

WRONG = "wr0ng-password"


@pytest.fixture
def account(host: Host) -> Host:
    name = os.environ.get("PARTS_SUDO_USER")
    if not name:
        pytest.skip("no account that may use sudo: scripts/parts start sudo")
    return host.as_user(name)


@pytest.fixture
def password(account: Host) -> str:
    return Path(os.environ["PARTS_SUDO_PASSWORD_FILE"]).read_text("ascii")


@pytest.fixture
def right(password: str, hermes_home: Path) -> str:
    """The password, configured; in a file, so that it is in no process's environment."""
    return configure(hermes_home, password)


def configure(home: Path, password: str) -> str:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = home / ".env"
    file.touch(0o600)
    file.write_text(f"HERMES_SUDO_PASSWORD={password}\n", "utf-8")
    return password


async def test_it_is_given(open_on: Open, account: Host, right: str) -> None:
    box = await open_on(account)
    await box.files.write("script.sh", b"sudo -k\nsudo id -u\n")
    for command in (
        "sudo -k; sudo id -u",
        "sudo -k; sudo -A id -u",
        "sudo -k; echo 1 | sudo sed s/1/0/ | cat",
        "sudo -k; sudo echo 0 | sudo cat",
        "sh script.sh",
        "sudo -k; (setsid sudo id -u) & wait",
        "sudo -k; env DISPLAY=:0 /usr/bin/sudo id -u",
    ):
        for run in (box.run, box.exec):
            result = await run(command)
            assert (result.exit_code, result.text) == (0, "0\n"), (command, result)
    result = await (await box.start("sudo -k; sudo id -u")).wait()
    assert result.text == "0\n", result


async def test_it_is_asked_for_again_when_sudo_forgets(open_on: Open, account: Host, right: str) -> None:
    box = await open_on(account)
    for _ in range(3):
        assert (await box.run("sudo -k; sudo id -u")).text == "0\n"
    assert (await box.run("sudo -k; SUDO_ASKPASS= sudo -A id -u")).exit_code == 1


@pytest.mark.parametrize(
    "command",
    [
        "sudo cat",
        "sudo -S cat",
        "echo guess | sudo -S cat",
        "sudo cat /proc/self/environ",
        "sudo env",
        "sudo -u $USER env",
        "sudo -u $USER $SUDO_ASKPASS",
        "sudo $SUDO_ASKPASS",
        "sudo -u $USER env -u SUDO_COMMAND $SUDO_ASKPASS",
        "sudo -u $USER sh -c 'SUDO_COMMAND= exec $0' $SUDO_ASKPASS | cat",
    ],
)
@pytest.mark.parametrize("output", ["passed", "logged"])
async def test_what_runs_by_sudo_never_sees_it(
    open_on: Open, account: Host, right: str, command: str, output: str
) -> None:
    box = await open_on(account.as_user(f"{account.user}-once") if output == "logged" else account)
    # It asks, or it remembers: then no question of this very sudo was answered before.
    for session, before in (("asks", "sudo -k"), ("remembers", "sudo true")):
        result = await box.run(f"{before}; {command}", merge_stderr=True, session=session)
        assert right not in result.text


EVIL = """
import array, os, socket, sys
def ask(fd):
    guest = socket.socket(socket.AF_UNIX)
    guest.connect(os.path.join(os.path.dirname(os.environ["REAL"]), "sudo.sock"))
    guest.sendmsg([b"?"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    return guest.makefile().read()
with open("taken", "w") as taken:
    read, write = os.pipe()
    os.mkfifo("fifo")
    fifo = os.open("fifo", os.O_RDWR)
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    pair = socket.socketpair()
    for fd in (write, read, fifo, file, pair[0].fileno(), 2, 0, os.open("/dev/null", os.O_WRONLY)):
        taken.write(ask(fd) + "\\n")
    os.set_blocking(read, False)
    os.set_blocking(fifo, False)
    pair[1].setblocking(False)
    for fd in (read, fifo, file, pair[1].fileno()):
        try:
            taken.write(repr(os.read(fd, 1000)))
        except OSError as error:
            taken.write(str(error))
"""

TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
child = os.fork()
if not child:
    libc.ptrace(0, 0, 0, 0)
    os.execvp("sudo", ["sudo", "id", "-u"])
while True:
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
    libc.ptrace(7, child, 0, 0 if os.WSTOPSIG(status) == 5 else os.WSTOPSIG(status))
"""


@pytest.mark.parametrize(
    "command",
    [
        "$SUDO_ASKPASS",
        "$SUDO_ASKPASS prompt | cat",
        # programs of that name
        "printf '#!/bin/sh\\n$SUDO_ASKPASS' >sudo; chmod +x sudo; PATH=.:$PATH; sudo id; ./sudo id | cat",
        "cp $(command -v sudo) sudo; ./sudo id",
        "cp $(command -v bash) sudo; ./sudo -c '$SUDO_ASKPASS; true' | cat",
        "ln -s $(command -v sg) sudo; ./sudo $(id -gn) -c '$SUDO_ASKPASS; true' | cat",
        "ln -s $(command -v su) sudo; echo x | ./sudo -c '$SUDO_ASKPASS; true' | cat",
        "ln $SUDO_ASKPASS sudo; ./sudo | cat",
        # what watches it
        "python3 tracer.py",
        "unshare -Ur sudo id; unshare -Ur $SUDO_ASKPASS | cat",
        "unshare -Ur python3 evil.py",
    ],
)
async def test_what_is_not_sudo_gets_nothing(open_on: Open, account: Host, right: str, command: str) -> None:
    box = await open_on(account)
    await box.files.write("evil.py", EVIL.encode())
    await box.files.write("tracer.py", TRACER.encode())
    result = await box.run(f"sudo -k; {command}", merge_stderr=True, timeout=30, env={"LC_ALL": "C"})
    assert right not in result.text, result.text
    found = await box.run("cat taken file 2>&1; true")
    assert right not in found.text


@pytest.mark.parametrize(
    "program",
    [
        "exec $REAL >taken",
        "$REAL >taken; cat taken",
        "$REAL | tee taken",
        "cat </proc/self/fd/1 >>taken & exec $REAL",
        "exec 3>&1; (exec 1>&2; cat <&3) & exec $REAL",
        "exec python3 evil.py",
    ],
)
async def test_nor_does_another_program_that_sudo_asks(
    open_on: Open, account: Host, right: str, program: str
) -> None:
    """The real sudo starts what SUDO_ASKPASS says, which may be anything."""
    box = await open_on(account)
    await box.files.write("evil.py", EVIL.encode())
    await box.files.write("evil", f"#!/bin/sh\necho here >>ran\n{program}\n".encode())
    command = "chmod +x evil; export REAL=$SUDO_ASKPASS; sudo -k; SUDO_ASKPASS=./evil sudo true; cat ran"
    result = await box.run(command, merge_stderr=True, timeout=30)
    assert "here" in result.text
    assert right not in result.text
    assert right not in (await box.run("cat taken file 2>&1; true")).text
    if "py" in program:
        assert (await box.run("grep -c 'not sudo' taken")).text == "8\n"


async def test_a_wrong_one_locks(open_on: Open, account: Host, hermes_home: Path) -> None:
    configure(hermes_home, WRONG)
    box = await open_on(account)
    result = await box.run("sudo id -u")
    assert result.exit_code == 1
    assert b"the password was wrong" in result.stderr
    assert WRONG.encode() not in result.stderr
    began = time.monotonic()
    for _ in range(3):
        result = await box.run("sudo id -u")
        assert result.exit_code == 1
        assert b"none is given any more in this session" in result.stderr
        assert b"try again" not in result.stderr
    assert time.monotonic() - began < 1.5  # sudo takes longer for one that it tries


async def test_sessions_lock_apart(open_on: Open, account: Host, hermes_home: Path, password: str) -> None:
    configure(hermes_home, WRONG)
    box = await open_on(account, name="apart")
    assert (await box.run("sudo id -u", session="one")).exit_code == 1
    await box.close()
    configure(hermes_home, password)
    box = await open_on(account, name="apart")
    assert b"any more" in (await box.run("sudo id -u", session="one")).stderr
    assert (await box.run("sudo id -u", session="two")).text == "0\n"
    await box.destroy()


async def test_a_wrong_one_is_tried_once_by_two_at_a_time(
    open_on: Open, account: Host, hermes_home: Path
) -> None:
    configure(hermes_home, WRONG)
    box = await open_on(account)
    result = await box.run("sudo id -u & sudo id -u & sudo id -u & wait", merge_stderr=True)
    assert result.text.count("try again") == 1, result.text


async def test_it_is_locked_where_sudo_asks_once(open_on: Open, account: Host, hermes_home: Path) -> None:
    """Then there is no second question that would tell; how long sudo takes does."""
    configure(hermes_home, WRONG)
    box = await open_on(account.as_user(f"{account.user}-once"))
    for _ in range(2):
        result = await box.run("sudo id -u")
        assert result.exit_code == 1
        assert b"1 incorrect password attempt" in result.stderr
    assert b"any more in this session" in (await box.run("sudo id -u")).stderr


async def test_without_one_nothing_is_set(open_on: Open, account: Host, hermes_home: Path) -> None:
    box = await open_on(account)
    assert "SUDO_ASKPASS" not in (await box.run("env")).text
    assert (await box.run("sudo -k; sudo id -u")).exit_code == 1


async def test_on_a_terminal_sudo_asks_there(open_on: Open, account: Host, right: str) -> None:
    box = await open_on(account)
    await box.run("true")
    command = "sudo -k; env; SUDO_ASKPASS=/nothing sudo -p 'Well? ' id -u"
    job = await box.start(command, pty=(24, 80))
    said = b""
    async for data in job.follow():
        said += data
        if b"Well?" in said:
            break
    assert right.encode() not in said
    await job.write(right + "\n")
    assert (await job.wait()).exit_code == 0


async def test_on_a_terminal_it_is_not_given(open_on: Open, account: Host, right: str) -> None:
    box = await open_on(account)
    result = await (await box.start("sudo -k; sudo -A id -u", pty=(24, 80))).wait()
    assert "no askpass program" in result.text
    # What a session has exported goes along.
    await box.run("true")
    result = await (await box.start("sudo -k; sudo -A id -u", pty=(24, 80))).wait()
    assert "this sudo has a terminal" in result.text


async def test_a_question_without_an_answer_ends_with_the_command(
    open_on: Open, account: Host, right: str
) -> None:
    """A person who is asked may think for long; what waits for him can still be ended."""
    asked: list[str] = []

    async def never(request: hermes.Request, decision: hermes.Decision) -> bool:
        asked.append(request.text)
        await asyncio.sleep(1000)
        return True

    box = await open_on(account, approval="ask", on_approval=never, judge=Sudo(seen=False))
    for _ in range(2):
        result = await box.run("sudo id -u", timeout=1.0)
        assert (result.status, result.exit_code) == ("timed_out", 124)
        assert (await box.run("pgrep -x sudo; true")).text == ""
    assert asked == ["sudo id -u"] * 2


class Sudo:
    """Asks about sudo; of a command it sees what the shell would run, or nothing."""

    name = "sudo"

    def __init__(self, *, seen: bool) -> None:
        self.seen = seen

    def judge(self, request: hermes.Request, state: object = None) -> hermes.Decision:
        words = request.text.split()
        if words[0] == "sudo" and (self.seen or request.cwd is None):
            programs = (hermes.Program(tuple(words)),)
            return hermes.Decision(action="ask", reason="root", programs=programs)
        return hermes.Decision(action="allow")


@pytest.mark.parametrize("seen", [True, False])
async def test_it_is_given_for_what_was_let_through(
    open_on: Open, account: Host, right: str, seen: bool
) -> None:
    asked: list[str] = []
    answers = [True, False]

    def answer(request: hermes.Request, decision: hermes.Decision) -> bool:
        asked.append(request.text)
        return answers[len(asked) - 1]

    box = await open_on(account, approval="ask", on_approval=answer, judge=Sudo(seen=seen))
    result = await box.exec("sudo id -u")
    assert result.text == "0\n", result
    assert asked == ["sudo id -u"]  # once, by whichever
    result = await box.exec("true; sudo -k; sudo id -g")
    assert result.exit_code == 1
    assert b"the answer was no" in result.stderr
    assert asked[1:] == ["sudo id -g"]


async def test_with_nobody_to_ask_it_is_not_given(open_on: Open, account: Host, right: str) -> None:
    box = await open_on(account, approval="ask", judge=Sudo(seen=False))
    result = await box.run("sudo id -u")
    assert result.exit_code == 1
    assert b"hermes: no password for sudo: refused" in result.stderr


async def test_a_client_that_leaves_leaves_no_sudo_waiting(open_on: Open, account: Host, right: str) -> None:
    async def never(request: hermes.Request, decision: hermes.Decision) -> bool:
        asked.set()
        await asyncio.sleep(1000)
        return True

    asked = asyncio.Event()
    options: dict[str, Any] = {"approval": "ask", "judge": Sudo(seen=False), "on_approval": never}
    box = await open_on(account, name="leaves", **options)
    job = await box.start("true; sudo -k; sudo id -u")
    async with asyncio.timeout(20):
        await asked.wait()
    await box.close()
    box = await open_on(account, name="leaves", **options)
    result = await (await box.job(job.id)).wait()
    assert "has gone" in result.text + result.stderr.decode()
    await box.destroy()


async def test_it_is_nowhere_to_be_found(open_on: Open, account: Host, right: str, hermes_home: Path) -> None:
    """Not in an argument or the environment of any process, in no file, in no log."""
    box = await open_on(account, approval="ask", on_approval=lambda *_: True, judge=Sudo(seen=True))
    found: set[str] = set()

    async def watch() -> None:
        while True:
            found.update(await asyncio.to_thread(in_processes, right.encode()))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    for _ in range(5):
        assert (await box.exec("sudo -k; sudo id -u")).text == "0\n"
    result = await box.exec(f"sudo echo {right}")
    assert result.exit_code == 0
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    # The one that says it itself shows that the watch works.
    found = {one for one in found if "echo" not in one}
    assert not found, found
    places = [hermes_home, Path("/dev/shm"), Path("/home", account.user)]
    holders = [path for place in places for path in files_with(place, right.encode())]
    assert holders == [hermes_home / ".env"], holders
    assert right not in repr((box, box.__dict__, box._gate.__dict__, box.describe()))


LOCAL = """
import asyncio, hermes
async def main():
    async with hermes.Sandbox("local", workspace="private", approval="off") as box:
        command = "sudo -k; sudo id -u; sudo cat; $SUDO_ASKPASS | cat; env"
        for run in (box.run, box.exec):
            print((await run(command, merge_stderr=True)).text)
        result = await (await box.start("sudo -k; sudo id -u")).wait()
        print(result.text)
asyncio.run(main())
"""


@pytest.mark.parametrize("given", ["in the file", "in the environment"])
async def test_in_local_as_well(account: Host, password: str, given: str) -> None:
    """A hermes of the account's own, which is let read our Python and our files."""
    name = account.user
    with tempfile.TemporaryDirectory(prefix="hermes-") as made:
        configure(Path(made), password)
        shutil.chown(Path(made), name, name)
        shutil.chown(Path(made, ".env"), name, name)
        env = {"PATH": "/usr/bin:/bin", "USER": name, "HERMES_HOME": made, "HOME": f"/home/{name}"}
        # sudo lets go of such a right, so what it starts has to be readable as it is.
        env["HERMES_LOCAL_PYTHON"] = "/usr/bin/python3"
        if given == "in the environment":
            os.unlink(Path(made, ".env"))
            env["HERMES_SUDO_PASSWORD"] = password
        reads = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        become = ["setpriv", "--reuid", name, "--regid", name, "--init-groups", *reads]
        process = await asyncio.create_subprocess_exec(
            *become,
            sys.executable,
            "-c",
            LOCAL,
            env=env,
            cwd=made,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        out, _ = await process.communicate()
        said = out.decode()
        assert said.splitlines().count("0") == 3, said
        assert said.count("it was not sudo that asked") == 2
        assert said.count("SUDO_ASKPASS=") == 2
        assert password not in said
        assert "HERMES_SUDO_PASSWORD" not in said


def in_processes(secret: bytes) -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                data = (process / name).read_bytes()
                if secret in data:
                    found.add(f"{process}/{name}: {data[:200]!r}")
    return found


def files_with(place: Path, secret: bytes) -> list[Path]:
    found = []
    for folder, _, names in os.walk(place):
        for name in names:
            path = Path(folder, name)
            with contextlib.suppress(OSError):
                if path.is_file() and secret in path.read_bytes():
                    found.append(path)
    return found
