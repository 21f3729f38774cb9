"""A yes that is kept holds for exactly what it was given for, at one place, for one time."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from _state import sql
from approval._judge import Small
from hermes.approval import Answer, Decision, Program, Request, check
from hermes.approval.grants import DAYS, Grants, GrantStore, proposed
from hermes.errors import HermesError, Refused

pytestmark = pytest.mark.blocking_ok  # looks into the stores itself; with sandboxes the loop is watched


def request(text: str, **more: Any) -> Request:
    given: dict[str, Any] = {"kind": "run", "cwd": "/w", "backend": "local", **more}
    return Request(text=text, **given)


def decision(asked: Request) -> Decision:
    return Small().judge(asked)


BUILD = request("rm -rf ./build")


async def goes(asked: Request, grants: Grants) -> bool:
    """Whether it runs when nobody can be asked."""
    try:
        await check(Small(), asked, mode="ask", on_approval=None, grants=grants)
    except Refused:
        return False
    return True


async def grant(answer: Answer, asked: Request = BUILD) -> Grants:
    grants = Grants()
    await check(Small(), asked, mode="ask", on_approval=lambda request, decision: answer, grants=grants)
    return grants


async def test_once_is_once() -> None:
    grants = await grant(Answer.ONCE)
    assert not await goes(BUILD, grants)


@pytest.mark.parametrize("answer", [Answer.SESSION, Answer.ALWAYS])
async def test_it_holds_for_the_very_same(answer: Answer) -> None:
    grants = await grant(answer)
    assert await goes(BUILD, grants)
    assert await goes(request("rm  -rf   './build'"), grants)  # the same words


@pytest.mark.parametrize(
    "other",
    [
        request("rm -rf ./src"),
        request("rm -rf ./build ./src"),
        request("rm -rf ./build/"),
        request("rm -rf ./build --no-preserve-root"),
        request("rm -r -f ./build"),
        request("/bin/rm -rf ./build"),
        request("rm -rf ./build", cwd="/w/other"),
        request("cd sub; rm -rf ./build"),
        request("rm -rf ./build; rm -rf src"),
        request("ls; rm -rf ./build"),
        request("rm -rf ./build", kind="start"),
        request("rm -rf ./build", kind="input"),
        request("rm -rf ./build", backend="ssh"),
        request("rm -rf ./build", backend="local", host="elsewhere"),
    ],
)
@pytest.mark.parametrize("answer", [Answer.SESSION, Answer.ALWAYS])
async def test_it_holds_for_nothing_else(answer: Answer, other: Request) -> None:
    grants = await grant(answer)
    if answer is Answer.SESSION and (other.backend, other.host) != ("local", ""):
        grants = Grants()  # another place is another client's sandbox, with grants of its own
    assert not await goes(other, grants)


async def test_a_session_grant_is_this_sessions_and_this_clients() -> None:
    grants = await grant(Answer.SESSION, request("rm -rf ./build", session="one"))
    assert await goes(request("rm -rf ./build", session="one"), grants)
    assert not await goes(request("rm -rf ./build", session="two"), grants)
    assert not await goes(request("rm -rf ./build"), grants)
    assert not await goes(request("rm -rf ./build", session="one"), Grants())
    assert GrantStore().all() == []
    grants.forget("one")
    assert not await goes(request("rm -rf ./build", session="one"), grants)


async def test_one_for_always_is_every_clients_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    await grant(Answer.ALWAYS)
    assert await goes(BUILD, Grants())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + DAYS * 86400 - 60)
    assert await goes(BUILD, Grants())
    monkeypatch.setattr(time, "time", lambda: now + DAYS * 86400 + 60)
    assert not await goes(BUILD, Grants())
    assert GrantStore().all() == []


async def test_an_expiry_that_was_moved_does_not_hold(hermes_home: Path) -> None:
    await grant(Answer.ALWAYS)
    [[text]] = sql(hermes_home, "SELECT content FROM notes WHERE what = 'grants'")
    found = json.loads(text)
    found["grants"][0]["expires"] += 10 * 365 * 86400
    sql(hermes_home, "UPDATE notes SET content = ?", json.dumps(found))
    assert not await goes(BUILD, Grants())


async def test_it_can_be_taken_back() -> None:
    await grant(Answer.ALWAYS)
    await grant(Answer.ALWAYS, request("git push"))
    first, second = GrantStore().all()
    assert (first.what, first.cwd, first.rule) == ("rm -rf ./build", "/w", "recursive-delete")
    assert [one.id for one in GrantStore().revoke([first.id, "nothing"])] == [first.id]
    assert not await goes(BUILD, Grants())
    assert await goes(request("git push"), Grants())
    assert [one.id for one in GrantStore().revoke([])] == [second.id]
    assert GrantStore().all() == []


async def test_the_same_again_is_one_grant_and_what_was_shown_is_what_is_stored() -> None:
    shown = proposed(BUILD, decision(BUILD))
    await grant(Answer.ALWAYS)
    await grant(Answer.ALWAYS)
    (stored,) = GrantStore().all()
    assert (stored.id, stored.key, stored.what, stored.cwd) == (shown.id, shown.key, shown.what, shown.cwd)


@pytest.mark.parametrize(
    "changes",
    [
        {"severity": "hardline"},
        {"key": ""},
        {"programs": ()},
        {"programs": (Program(argv=("rm", "-rf", "…")),)},
        {"programs": (Program(argv=("rm", "-rf", "a…b")),)},
        {"programs": (Program(argv=("rm", "-rf", "x"), cwd="/w/…"),)},
    ],
)
@pytest.mark.parametrize("answer", [Answer.SESSION, Answer.ALWAYS])
async def test_what_must_not_be_kept_is_a_yes_for_once(answer: Answer, changes: dict[str, Any]) -> None:
    asked = msgspec.structs.replace(decision(BUILD), **changes)
    grants = Grants()
    for _ in range(2):
        log: list[str] = []
        await check(
            Small(),
            BUILD,
            mode="ask",
            decision=asked,
            on_approval=lambda request, decision, log=log: log.append("asked") or answer,  # type: ignore[misc]
            grants=grants,
        )
        assert log == ["asked"]
    assert GrantStore().all() == []


async def test_a_grant_lifts_no_block() -> None:
    asked = request("mkfs")
    grants = Grants()
    kept = msgspec.structs.replace(decision(asked), action="ask", severity="high")
    await grants.keep(asked, kept, Answer.ALWAYS)
    await grants.keep(asked, kept, Answer.SESSION)
    assert not await goes(asked, grants)


async def test_what_cannot_be_read_grants_nothing(hermes_home: Path) -> None:
    await grant(Answer.ALWAYS)
    path = hermes_home / "state" / "state.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    [[text]] = sql(hermes_home, "SELECT content FROM notes WHERE what = 'grants'")
    for broken in (
        text[:-5],
        "[]",
        '{"version": 2, "grants": []}',
        text.replace('"kind"', '"kinds"'),
        b"\xff",
    ):
        sql(hermes_home, "UPDATE notes SET content = ?", broken)
        assert not await goes(BUILD, Grants())
        with pytest.raises(HermesError, match="grants"):
            GrantStore().add(proposed(BUILD, decision(BUILD)))
        with pytest.raises(HermesError, match="grants"):
            GrantStore().revoke(["1"])
        assert sql(hermes_home, "SELECT content FROM notes") == [(broken,)]
    assert GrantStore().revoke([]) == []  # all of them
    assert GrantStore().all() == []
    await grant(Answer.ALWAYS)
    assert await goes(BUILD, Grants())
    whole = path.read_bytes()
    path.unlink()
    path.symlink_to(hermes_home / "elsewhere")
    (hermes_home / "elsewhere").write_bytes(whole)
    assert not await goes(BUILD, Grants())


MANY = """
import sys
from approval._judge import Small
from hermes.approval import Request
from hermes.approval.grants import GrantStore, proposed
for number in range(20):
    asked = Request(kind="run", text=f"rm -rf {sys.argv[1]}{number}", cwd="/w", backend="local")
    GrantStore().add(proposed(asked, Small().judge(asked)))
    if number % 2:
        GrantStore().revoke([proposed(asked, Small().judge(asked)).id])
"""


def test_two_clients_at_once_lose_nothing() -> None:
    tests = Path(__file__).resolve().parents[1]
    env = {**os.environ, "PYTHONPATH": str(tests)}
    clients = [subprocess.Popen([sys.executable, "-c", MANY, name], env=env) for name in "ab"]
    assert [client.wait(50) for client in clients] == [0, 0]
    wanted = {f"rm -rf {name}{number}" for name in "ab" for number in range(0, 20, 2)}
    assert {one.what for one in GrantStore().all()} == wanted
