"""The gate without a sandbox: what is typed key by key, and how pieces of input become lines."""

from __future__ import annotations

import pytest

from approval._judge import Small
from hermes.approval import Request
from hermes.approval.engine import Engine
from hermes.approval.gate import Gate, Place
from hermes.approval.typed import Typed, _open_line
from hermes.errors import Refused


@pytest.fixture
def judge() -> Small:
    return Small()


@pytest.fixture
def typed(judge: Small) -> Typed:
    return Typed(Gate(judge, Place(backend="local", cwd="/w")), "bash", tty=True)


@pytest.fixture
def denying() -> Typed:
    engine = Engine(deny=["mkfs", "touch /x"])
    return Typed(Gate(engine, Place(backend="ssh", cwd="/w", home="/h")), "bash", tty=True)


def lines(judge: Small) -> list[str]:
    return [request.text for request in judge.seen]


async def test_a_person_is_not_asked_but_stopped_before_what_is_blocked(typed: Typed, judge: Small) -> None:
    for key in b"rm -rf x\r":
        await typed.forbid(bytes((key,)))
    with pytest.raises(Refused, match="it formats a disk"):
        for key in b"echo fine; mkfs\r":
            await typed.forbid(bytes((key,)))
    assert lines(judge) == ["rm -rf x\n", "echo fine; mkfs\n"]


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        (b"mkfz\x7fs\r", "mkfs\n"),
        (b"l\xc3\xa4\x7f\x7fmkfs\r", "mkfs\n"),
        (b"echo \x15mkfs\r", "mkfs\n"),
        (b"echo \x03mkfs\r", "mkfs\n"),
        (b"\x1b[200~mkfs\x1b[201~\r", "mkfs\n"),
        (b"fs\x01mk\r", "mkfs\n"),
        (b"mfs\x02\x02k\r", "mkfs\n"),
        (b"mfs\x1b[D\x1bODk\r", "mkfs\n"),
        (b"fs\x1b[H\x1b[Cx\x08\x02mk\x05\r", "mkfs\n"),
        (b"amkfs\x01\x04\r", "mkfs\n"),
        (b"amkfs\x1b[1~\x1b[3~\x1b[F\r", "mkfs\n"),
        (b"mkfsab\x02\x02\x0b\r", "mkfs\n"),
        (b"echo mkfs\x02\x02\x02\x02\x15\r", "mkfs\n"),
        (b"mkfs now \x17\x7f\r", "mkfs\n"),
    ],
)
async def test_the_line_is_what_is_left_of_the_keys(
    typed: Typed, judge: Small, keys: bytes, seen: str
) -> None:
    with pytest.raises(Refused):
        await typed.forbid(keys)
    assert lines(judge) == [seen]


@pytest.mark.parametrize("keys", [b"\r\r", b"   \r", b"\x1b[A\r", b"mkfs\x15\r", b"mk\tfs\r", b"mkfs\x03"])
async def test_what_cannot_be_told_is_left_to_the_person(typed: Typed, judge: Small, keys: bytes) -> None:
    await typed.forbid(keys)
    assert lines(judge) == []


@pytest.mark.parametrize(
    "keys",
    [
        b"mk\\\rfs\r",
        b"mk\\\r\\\rfs\r",
        b"f() {\rls\r}\rmk\\\rfs\r",
        b") ;\rmk\\\rfs\r",
        b"f() {\r\tls\rmk\\\rfs\r",
        b"\x1b[200~ls\rmkfs\x1b[201~\r",
        b"f() {\rmkfs\r",
        b"mkf\\\rs\x1b[A\x7f\x7fs\r",
    ],
)
async def test_lines_that_go_on_are_judged_together(denying: Typed, keys: bytes) -> None:
    *before, last = keys.rpartition(b"\r")[0].split(b"\r")
    for line in before:
        await denying.forbid(line + b"\r")
    with pytest.raises(Refused, match="user-deny"):
        await denying.forbid(last + b"\r")


async def test_a_function_of_several_lines_is_known_when_it_is_called(denying: Typed) -> None:
    typed = denying
    await typed.forbid(b"f() {\rtouch $1\r}\rf y\r")
    with pytest.raises(Refused, match="user-deny"):
        await typed.forbid(b"f /x\r")
    await typed.forbid(b"echo '\r")
    with pytest.raises(Refused, match="user-deny"):
        await typed.forbid(b"'; f /x\r")
    await typed.forbid(b"\x05\x15\r'\rf y\r")


async def test_a_refused_line_is_forgotten(typed: Typed) -> None:
    with pytest.raises(Refused):
        await typed.forbid(b"mkfs\r")
    await typed.forbid(b"ls\r")


@pytest.mark.parametrize(
    ("whole", "left"),
    [
        (b"ls", b"ls"),
        (b"ls\n", b""),
        (b"ls\r", b""),
        (b"ls\nrm -r", b"rm -r"),
        (b"rm \\\n", b"rm \\\n"),
        (b"a\nrm \\\n-rf \\\n", b"rm \\\n-rf \\\n"),
        (b"rm \\\\\n", b""),
    ],
)
def test_what_a_program_has_not_acted_on_yet(whole: bytes, left: bytes) -> None:
    assert _open_line(whole) == left


async def test_history_is_asked_about(judge: Small) -> None:
    """What a key brings back from the history cannot be known, so a judge gets to see the key."""
    typed = Typed(Gate(judge, Place(backend="local")), "bash", tty=True)
    await typed.approve(b"\x1b[A")
    assert judge.seen == []
    await typed.approve(b"\r")
    assert lines(judge) == ["\x1b[A\n"]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("!!", True),
        ("^ls^rm", True),
        ("!ls:s/ls/rm/", True),
        ("echo x!y", True),
        ('echo "x!y"', True),
        ("ls; !-2", True),
        ("echo '!x'", False),
        ('echo "done!"', False),
        ("[ 1 != 2 ]", False),
        ("! ls", False),
        ("echo \\!x $! ${!x} [!a]", False),
        ("echo a^b^", False),
    ],
)
async def test_what_a_shell_takes_from_its_history_is_asked(text: str, asked: bool) -> None:
    for reader, tty in (("bash", True), ("/bin/bash -l", True), ("bash", False), ("cat", True)):
        typed = Typed(Gate(Small(), Place(backend="local", cwd="/w")), reader, tty=tty)
        if asked and tty and "bash" in reader:
            with pytest.raises(Refused, match="history"):
                await typed.approve(f"{text}\n".encode())
        else:
            await typed.approve(f"{text}\n".encode())


async def test_ctrl_c_means_nothing_where_there_is_no_terminal(judge: Small) -> None:
    typed = Typed(Gate(judge, Place(backend="local")), "bash", tty=False)
    await typed.approve(b"echo \x03; rm ")
    with pytest.raises(Refused):
        await typed.approve(b"-rf x\n")


async def test_what_a_request_says_of_the_place(judge: Small) -> None:
    place = Place(
        backend="ssh", host="h", cwd="/w", home="/home/me", workspace="/w", agent_home="/home/me/.hermes"
    )
    gate = Gate(judge, place)
    wanted = Request(
        kind="write",
        text="f",
        cwd="/w",
        backend="ssh",
        host="h",
        home="/home/me",
        workspace="/w",
        agent_home="/home/me/.hermes",
    )
    assert gate.request("write", "f") == wanted
    for cwd, at in (
        ("x", "/w/x"),
        ("/a/../b", "/b"),
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("~you", None),
    ):
        assert gate.at("/w", cwd) == at
    assert gate.at(None, "x") is None
    await gate.command("run", "ls", cwd="~you")
    assert judge.seen[-1].cwd is None


async def test_where_a_terminal_is_follows_what_is_typed(judge: Small) -> None:
    typed = Typed(Gate(judge, Place(backend="local", cwd="/w")), "bash", tty=True, cwd="/w/sub")
    await typed.approve(b"cd deep\r")
    await typed.approve(b"ls\r")
    await typed.forbid(b"ls\r")
    assert [request.cwd for request in judge.seen] == ["/w/sub", "/w/sub/deep", "/w/sub/deep"]
