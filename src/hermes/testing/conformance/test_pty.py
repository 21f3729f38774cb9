"""Terminals: programs that want one get one, with its size, its keys and its signals."""

from __future__ import annotations

import asyncio

import pytest

from hermes import Pty, Sandbox

from .._harness import case
from ..tools import eventually, fails, gone, out, pids, stopwatch, tag


async def until(pty: Pty, text: str | bytes, within: float = 10.0) -> bytes:
    """Read until *text* has been shown, and return what was."""
    wanted = text.encode() if isinstance(text, str) else text
    seen = b""
    try:
        async with asyncio.timeout(within):
            while wanted not in seen:
                data = await pty.read()
                assert data, f"the terminal ended before it showed {wanted!r}; it showed {seen!r}"
                seen += data
    except TimeoutError:
        raise AssertionError(
            f"the terminal did not show {wanted!r} within {within:g} s, but {seen!r}"
        ) from None
    return seen


async def rest(pty: Pty) -> bytes:
    async with asyncio.timeout(10):
        return b"".join([data async for data in pty])


@case
async def test_is_a_terminal(box: Sandbox) -> None:
    pty = await box.pty("test -t 0 && test -t 1 && test -t 2 && tty >/dev/null && echo yes")
    assert await rest(pty) == b"yes\r\n"
    assert await pty.wait() == 0


@case
async def test_exit_code_of_a_terminal(box: Sandbox) -> None:
    assert await (await box.pty("exit 7")).wait() == 7
    assert await (await box.pty("kill -9 $$")).wait() == 137


@case
async def test_size_of_a_terminal(box: Sandbox) -> None:
    async with await box.pty("stty size; read x; stty size; tput cols", rows=31, cols=97) as pty:
        await until(pty, "31 97")
        await pty.resize(45, 123)
        await pty.send_keys("Enter")
        shown = await rest(pty)
        assert b"45 123\r\n" in shown
        assert b"\n123\r\n" in shown


@case
async def test_resize_is_signalled(box: Sandbox) -> None:
    command = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    async with await box.pty(["bash", "-c", command]) as pty:
        await until(pty, "ready")
        await pty.resize(50, 60)
        assert b"50 60" in await rest(pty)


@case
async def test_interactive_shell(box: Sandbox) -> None:
    async with await box.pty(env={"PS1": "> "}) as pty:
        await pty.write("PS1='$ '\n")
        await pty.write('cd /etc; x=$((40 + 2)); echo "<$x>" $PWD\n')
        await until(pty, "<42> /etc")
        await pty.write("exit 5\n")
        assert await pty.wait() == 5


@case
async def test_interrupt_key(box: Sandbox) -> None:
    """Ctrl-C ends what runs in the foreground, not the shell."""
    mark = tag()
    async with await box.pty() as pty:
        await pty.write(f"sleep {mark}; echo status $?\n")
        await eventually(lambda: pids(box, mark))
        await pty.send_keys("C-c")
        await pty.write("echo on $((1+1))\n")
        await until(pty, "on 2")
        await gone(box, mark)


@case
async def test_suspend_key(box: Sandbox) -> None:
    """Job control works: Ctrl-Z, jobs, fg."""
    mark = tag()
    async with await box.pty() as pty:
        await pty.write(f"sleep {mark}\n")
        await eventually(lambda: pids(box, mark))
        await pty.send_keys("C-z")
        await until(pty, "Stopped")
        await pty.write("kill -9 %1; echo killed $((1+1))\n")
        await until(pty, "killed 2")
        await gone(box, mark)


@case
async def test_end_of_input_key(box: Sandbox) -> None:
    pty = await box.pty("cat; echo end")
    await pty.send_keys("line", "Enter", "C-d")
    assert (await rest(pty)).replace(b"\r", b"").endswith(b"line\nend\n")


@case
async def test_named_keys(box: Sandbox) -> None:
    """Keys arrive as a terminal sends them."""
    async with await box.pty("stty raw -echo; echo ready; head -c 16 | od -An -tx1") as pty:
        await until(pty, "ready")
        await pty.send_keys("Up", "Left", "F1", "Escape", "Tab", "C-a", "M-x", "BSpace", "ü")
        shown = await rest(pty)
        assert shown.split()[:16] == b"1b 5b 41 1b 5b 44 1b 4f 50 1b 09 01 1b 78 7f c3".split()


@case
async def test_python_prompt(box: Sandbox) -> None:
    async with await box.pty(["python3", "-q"], env={"PYTHON_BASIC_REPL": "1"}) as pty:
        await until(pty, ">>> ")
        await pty.write("6 * 7\n")
        await until(pty, "42")
        await pty.write("input('name? ')\n")
        await until(pty, "name? ")
        await pty.write("ada\n")
        await until(pty, "'ada'")
        await pty.write("exit(3)\n")
        assert await pty.wait() == 3


@case
async def test_password_prompt(box: Sandbox) -> None:
    """What is typed at a prompt that does not echo is not shown."""
    async with await box.pty("read -rsp 'Password: ' p; echo; echo \"${#p} characters\"") as pty:
        await until(pty, "Password: ")
        await pty.write("s3cret!\n")
        shown = await rest(pty)
        assert b"7 characters" in shown
        assert b"s3cret" not in shown


@case
async def test_full_screen_program(box: Sandbox, folder: str) -> None:
    """An editor is driven by keys and writes what was typed."""
    if (await box.exec("command -v vi")).exit_code:
        pytest.skip("there is no vi in this place")
    async with await box.pty(["vi", "-u", "NONE", "note"], cwd=folder) as pty:
        await until(pty, "~")
        await pty.send_keys("i", "hello", "Enter", "world", "Escape")
        await asyncio.sleep(0.3)  # right after an Escape the editor takes a key for part of a sequence
        await pty.send_keys(":wq", "Enter")
        assert await asyncio.wait_for(pty.wait(), 10) == 0
    assert await out(box, f"cat {folder}/note") == "hello\nworld"


@case
async def test_terminal_type(box: Sandbox) -> None:
    pty = await box.pty("echo $TERM", term="vt100")
    assert await rest(pty) == b"vt100\r\n"


@case
async def test_much_output_on_a_terminal(box: Sandbox) -> None:
    pty = await box.pty("seq 1 100000")
    shown = await rest(pty)
    assert shown == b"".join(b"%d\r\n" % n for n in range(1, 100001))


@case
async def test_read_with_a_time_limit(box: Sandbox) -> None:
    """Nothing is lost by a read that was given up."""
    async with await box.pty("sleep 0.5; echo late") as pty:
        with pytest.raises(TimeoutError), stopwatch(0.4):
            await pty.read(timeout=0.05)
        assert await pty.read(timeout=5) == b"late\r\n"


@case
async def test_read_after_the_end(box: Sandbox) -> None:
    pty = await box.pty("echo x")
    assert await rest(pty) == b"x\r\n"
    assert await pty.read(timeout=2) == b""
    assert await pty.read(timeout=2) == b""


@case
async def test_closing_a_terminal_ends_the_tree(box: Sandbox) -> None:
    mark = tag()
    pty = await box.pty(f"trap '' HUP TERM; (setsid sleep {mark} &); sleep {mark}")

    async def both() -> bool:
        return len(await pids(box, mark)) >= 2

    await eventually(both)
    await pty.close()
    await gone(box, mark, within=1)


@case
async def test_a_terminal_is_listed_and_goes_on_alone(box: Sandbox) -> None:
    """Without anybody who reads it, a terminal's program runs on, and what it showed is kept."""
    pty = await box.pty("echo begun; read x; echo got $x")
    await until(pty, "begun")
    await pty.detach()
    assert pty.id in {job.id for job in await box.jobs()}
    job = await box.job(pty.id)
    await job.write("it\n")
    result = await job.wait(10)
    assert result.stdout.endswith(b"got it\r\n")


@case
async def test_job_on_a_terminal(box: Sandbox) -> None:
    await box.run("x=5")
    job = await box.start("test -t 1 && stty size; echo $x", pty=(20, 70))
    assert (await job.wait(10)).stdout == b"20 70\r\n5\r\n"
    await job.resize(10, 10)
    plain = await box.start("sleep 3600")
    with fails("bad_request"):
        await plain.resize(10, 10)
    await plain.kill()


@case
async def test_terminals_side_by_side(box: Sandbox) -> None:
    ptys = [await box.pty("read x; echo got $x") for _ in range(8)]
    for n, pty in enumerate(ptys):
        await pty.write(f"{n}\n")
    for n, pty in enumerate(ptys):
        assert f"got {n}\r\n".encode() in await rest(pty)
