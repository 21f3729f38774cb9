"""Fleets of the library: what a file may say, the journal, and a client that ends at the worst moment."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.config import Config
from hermes.errors import ConfigError, HermesError
from hermes.fleet import Fleet, Summary, read_commands
from hermes.fleet._arrays import Arrays
from hermes.fleet._boxes import Boxes
from hermes.fleet._journal import Array, Begun, Journal
from hermes.state import Store


class Crash(BaseException):
    """The end of a client, at once."""


@pytest.fixture
def path(hermes_home: Path) -> Path:
    return hermes_home.parent / "f.jsonl"


def write(path: Path, *commands: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in commands))


async def run(path: Path, jobs: int = 1, **options: Any) -> Summary:
    fleet = Fleet(path, backend="local", workspace=str(path.parent), jobs=jobs, approval="off", **options)
    return await fleet.run()


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.with_name("f.results.jsonl").read_text().splitlines()]


def log(path: Path) -> list[str]:
    found = path.with_name("log")
    return found.read_text().split() if found.exists() else []


# --- what a file may say


def test_a_file_of_commands(path: Path) -> None:
    path.write_text(
        '{"command": "a"}\n\n{"command": ["b", "c d"], "id": "x", "timeout": "1m", "env": {"A": ""}}\r\n'
        '  {"command": "e", "cwd": "f/../g", "stdin": ""}'
    )
    first, second, third = read_commands(path)
    assert (first.id, first.text, first.timeout, first.env, first.cwd, first.stdin) == (
        *("1", "a", None, {}, None),
        None,
    )
    assert (second.id, second.text, second.timeout, second.env) == ("x", "b 'c d'", 60.0, {"A": ""})
    assert (third.id, third.cwd, third.stdin) == ("4", "g", b"")
    assert len({first.digest, second.digest, third.digest}) == 3


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"command": "a"', "it is no JSON: Expecting ',' delimiter, at column 16"),
        ('["a"]', "it is no JSON object"),
        ("[" * 100_000, "too deep"),
        ("{}", "there is no 'command'"),
        ('{"command": ""}', "'command' is empty"),
        ('{"command": []}', "'command' has to be text, or a list"),
        ('{"command": ["a", 1]}', "'command' has to be text, or a list"),
        ('{"command": "a\\u0000"}', "'command' holds a NUL"),
        ('{"command": "\\ud800"}', "half of a surrogate pair"),
        ('{"command": "a", "command": "b"}', "a key is there twice"),
        ('{"command": "a", "time": 1}', "unknown key 'time'; did you mean 'timeout'?"),
        ('{"command": "a", "xyz": 1}', "unknown key 'xyz'; there are id, command"),
        ('{"command": "a", "id": 7}', "'id' has to be text"),
        ('{"command": "a", "id": "1"}', "the id '1' is that of line 1 already"),
        ('{"command": "a", "timeout": 0}', "'timeout' has to be more than 0"),
        ('{"command": "a", "timeout": NaN}', "'timeout' has to be more than 0"),
        ('{"command": "a", "timeout": true}', "'timeout' has to be seconds"),
        ('{"command": "a", "timeout": "soon"}', "is not a duration"),
        ('{"command": "a", "env": {"A B": "1"}}', "'A B' cannot be a variable's name"),
        ('{"command": "a", "env": {"A": 1}}', "A has to be text"),
        ('{"command": "a", "env": ["A"]}', "'env' has to be an object"),
        ('{"command": "a", "cwd": ""}', "'cwd' has to be the path"),
        ('{"command": "a", "stdin": 1}', "'stdin' has to be text"),
        (b'{"command": "\xff"}', "it is not UTF-8, at byte 14"),
    ],
)
async def test_lines_that_are_refused(path: Path, line: str | bytes, fault: str) -> None:
    bad = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b'{"command": "echo x >>log"}\n' + bad + b"\n")
    with pytest.raises(ConfigError) as caught:
        await run(path)
    assert caught.value.code == "fleet_invalid"
    assert f"{path}:2: " in caught.value.message
    assert fault in caught.value.message
    assert [one.name for one in path.parent.iterdir()] == [path.name]


async def test_many_faults_and_no_command(path: Path) -> None:
    path.write_text("x\n" * 20)
    with pytest.raises(ConfigError, match="and 15 more such lines"):
        await run(path)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="holds no command"):
        await run(path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        await run(path.with_name("nothing"))
    with pytest.raises(ConfigError, match="jobs is 0"):
        Fleet(path, jobs=0)


# --- the journal


def begun(ident: str) -> Begun:
    return Begun(ident, "d", "box", "m", "g")


def opened(path: Path) -> Journal:
    journal = Journal(path.with_name("f.results.jsonl"))
    journal.open()
    return journal


def test_half_a_line_is_as_if_it_had_never_been_written(path: Path) -> None:
    journal = opened(path)
    journal.begin_fleet("local", 100)
    journal.begin(begun("a"))
    journal.finish("a", {"status": "ok"})
    journal.begin(begun("b"))
    journal.finish("b", {"status": "ok"})
    journal.close()
    for file in (journal.path, journal.output):
        data = file.read_bytes()
        file.write_bytes(data[:-3])
        again = Journal(journal.output)
        if file == journal.path:  # a result of what was never begun: not ours, and not touched
            with pytest.raises(HermesError, match="does not know that it was begun"):
                again.open()
            file.write_bytes(data)
        else:
            again.open()
            assert [one.id for one in again.open_all()] == ["b"]
            again.finish("b", {"status": "timed_out"})
            again.close()
            assert [json.loads(line)["status"] for line in file.read_text().splitlines()] == [
                "ok",
                "timed_out",
            ]


def test_what_the_journal_tells_again(path: Path) -> None:
    journal = opened(path)
    journal.begin_fleet("singularity", 7)
    write(path, *({"id": one, "command": one} for one in "abc"))
    commands = read_commands(path)
    array = Array("fleet-x-1", "/nowhere", ["a", "b", "c"])
    journal.array(array, commands)
    journal.job(array, "12")
    journal.finish("b", {"status": "gone"})
    journal.back(["c"])
    journal.box("one")
    journal.box("two")
    journal.removed("one")
    journal.close()
    again = opened(path)
    assert (again.fleet, again.limit, again.boxes) == (journal.fleet, 7, ["two"])
    assert [(one.name, one.ids, one.number) for one in again.arrays] == [("fleet-x-1", ["a", "b", "c"], "12")]
    assert [one.id for one in again.open_all()] == ["a"]
    assert [again.status(one) for one in "abc"] == [None, "gone", None]
    again.check(commands)
    with pytest.raises(HermesError, match="'a' was begun, and is not there any more"):
        again.check(commands[1:])
    with pytest.raises(HermesError, match="another hermes runs this fleet"):
        opened(path)
    again.close()
    opened(path).close()


@pytest.mark.parametrize("line", ["no json", "[1]", '{"unknown": 1}', '{"back": ["z"]}', '{"version": 1}'])
def test_a_journal_without_sense_is_left_alone(path: Path, line: str) -> None:
    journal = Journal(path.with_name("f.results.jsonl"))
    journal.path.write_text(line + "\n")
    with pytest.raises(HermesError) as caught:
        journal.open()
    assert caught.value.code == "fleet_unreadable"
    assert f"{journal.path}:1 " in caught.value.message
    assert journal.path.read_text() == line + "\n"


async def test_results_that_are_another_programs(path: Path) -> None:
    write(path, {"command": "true"})
    path.with_name("f.results.jsonl").write_text('{"id": "1", "status": "ok"}\n')
    with pytest.raises(HermesError, match="does not know that it was begun"):
        await run(path)


async def test_a_place_for_results_that_cannot_be_written(path: Path) -> None:
    write(path, {"command": "echo x >>log"})
    with pytest.raises(HermesError) as caught:
        await run(path, output=path.with_name("nowhere") / "r.jsonl")
    assert caught.value.code == "fleet_unwritable"
    assert log(path) == []


# --- a client that ends at the worst moment


def before(name: str) -> Callable[[pytest.MonkeyPatch, type], None]:
    """End the client as it is about to call a method for the command ``b``."""

    def arrange(patch: pytest.MonkeyPatch, kind: type) -> None:
        real = getattr(kind, name)

        def crash(self: Any, *args: Any, **options: Any) -> Any:
            if any(getattr(one, "id", one) == "b" for one in args):
                raise Crash
            return real(self, *args, **options)

        patch.setattr(kind, name, crash)

    return arrange


def after(name: str) -> Callable[[pytest.MonkeyPatch, type], None]:
    """End the client as it comes back from a method, called for the command ``b``."""

    def arrange(patch: pytest.MonkeyPatch, kind: type) -> None:
        real = getattr(kind, name)

        async def crash(self: Any, *args: Any) -> Any:
            result = await real(self, *args)
            if args[-1] == "b" or any(getattr(one, "id", "") == "b" for one in args):
                raise Crash
            return result

        patch.setattr(kind, name, crash)

    return arrange


@pytest.mark.parametrize(
    ("kind", "arrange"),
    [
        pytest.param(Journal, before("begin"), id="before it is begun"),
        pytest.param(Boxes, before("_fresh"), id="begun, not started"),
        pytest.param(Boxes, after("_start"), id="started"),
        pytest.param(Boxes, after("_fresh"), id="ended"),
        pytest.param(Boxes, after("_write"), id="written down"),
    ],
)
async def test_a_client_that_crashes(
    path: Path, kind: type, arrange: Callable[[pytest.MonkeyPatch, type], None]
) -> None:
    write(
        path,
        *({"id": one, "command": f"cat >>log; echo {one} >>log; exit 4", "stdin": one} for one in "abc"),
    )
    with pytest.MonkeyPatch.context() as patch:
        arrange(patch, kind)
        with pytest.raises(Crash):
            await run(path)
    summary = await run(path)
    assert (summary.ok, summary.total, summary.troubles) == (3, 3, ())
    assert log(path) == ["aa", "bb", "cc"]
    assert [(one["id"], one["exit_code"]) for one in results(path)] == [("a", 4), ("b", 4), ("c", 4)]
    assert await asyncio.to_thread(Store(path.parent / "home").all) == []


async def test_a_start_that_comes_late_runs_nothing_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client was killed as it sent it; it arrives when the next client has already looked."""
    write(path, {"id": "a", "command": "echo a >>log; sleep 0.3; echo out; exit 6"})
    with pytest.MonkeyPatch.context() as patch:
        before_b = before("_fresh")
        write(path, {"id": "b", "command": "echo b >>log; sleep 0.3; echo out; exit 6"})
        before_b(patch, Boxes)
        with pytest.raises(Crash):
            await run(path)
    real = Boxes._start
    starts: list[int] = []

    async def late(self: Boxes, box: Any, one: Begun) -> int:
        starts.append(await real(self, box, one))  # the one that was on its way
        starts.append(await real(self, box, one))
        return starts[-1]

    monkeypatch.setattr(Boxes, "_start", late)
    await run(path)
    assert len(starts) == 2
    assert log(path) == ["b"]
    [found] = results(path)
    assert (found["exit_code"], found["stdout"], found["stderr"]) == (6, "out\n", "")


async def test_a_fleet_of_the_library(path: Path) -> None:
    write(path, *({"command": f"echo {n} >>log; sleep 0.1"} for n in range(9)))
    told: list[str] = []
    fleet = Fleet(
        path, backend="local", workspace=str(path.parent), jobs=3, approval="off", on_progress=told.append
    )
    work = asyncio.ensure_future(fleet.run())
    await until(lambda: asyncio.to_thread(log, path))
    fleet.hold()
    held = await work
    assert 1 <= held.ok <= 6
    assert held.waiting == 9 - held.ok
    assert await fleet.status() == (held, False)
    assert any("of 9 done" in line for line in told)
    summary = await fleet.run()
    assert str(summary) == "9 of 9 done"
    assert sorted(log(path)) == [str(n) for n in range(9)]


async def until(true: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(20):
        while not await true():
            await asyncio.sleep(0.02)


async def test_what_approval_refuses_is_not_run(path: Path) -> None:
    import hermes

    class Careful:
        name = "careful"

        def judge(self, request: hermes.Request, state: object = None) -> hermes.Decision:
            assert request.kind == "start"
            return hermes.Decision(action="block" if "rm" in request.text else "allow", reason="it removes")

    write(path, {"id": "no", "command": "rm -f log"}, {"id": "yes", "command": "echo yes >>log"})
    fleet = Fleet(path, backend="local", workspace=str(path.parent), jobs=1, judge=Careful())
    summary = await fleet.run()
    assert (summary.ok, summary.refused) == (1, 1)
    assert {one["id"]: one["status"] for one in results(path)} == {"no": "refused", "yes": "ok"}
    assert log(path) == ["yes"]


async def test_declared_credentials_are_there_and_not_in_results(
    path: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a file is renewed while the fleet runs, which the guest has to be sent again."""
    monkeypatch.setenv("A_FLEET_TOKEN", "value-of-the-fleet-01")
    folder = hermes_home / "credentials"
    folder.mkdir(0o700, parents=True)
    hermes_home.chmod(0o700)
    file = folder / "file"
    file.touch(0o600)
    file.write_text("content-of-the-file-1")
    config = msgspec.convert({"credentials": {"env": ["A_FLEET_TOKEN"]}}, Config)
    same = '[ "$(cat $HERMES_CREDENTIALS/file)" = content-of-the-file-%d ] && echo same'
    begun, go = path.with_name("begun"), path.with_name("go")
    write(
        path,
        {"command": "echo ${#A_FLEET_TOKEN} $A_FLEET_TOKEN", "id": "env"},
        {
            "command": f"{same % 1}; >{begun}; until [ -e {path.parent}/go ]; do sleep 0.02; done",
            "id": "file",
        },
        {"command": same % 2, "id": "renewed"},
        {"command": "echo $A_FLEET_TOKEN", "env": {"A_FLEET_TOKEN": "its own"}, "id": "own"},
    )
    work = asyncio.ensure_future(run(path, config=config))
    await until(lambda: asyncio.to_thread(begun.exists))
    file.write_text("content-of-the-file-2")
    go.touch()
    summary = await work
    assert summary.ok == 4, summary.troubles
    said = {one["id"]: one["stdout"] for one in results(path)}
    assert said["env"] == "21 [redacted]\n"
    assert (said["file"], said["renewed"], said["own"]) == ("same\n", "same\n", "its own\n")
    assert "value-of-the-fleet" not in "".join(
        one.read_text("utf-8", "replace") for one in path.parent.iterdir() if one.is_file()
    )


async def test_each_fleet_command_has_the_variables_it_names(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_FLEET_TOKEN", "value-of-the-fleet-01")
    settings = {"env": ["A_FLEET_TOKEN"], "per_command": True}
    write(path, {"command": "env | grep -c FLEET_TOK"}, {"command": "echo ${#A_FLEET_TOKEN}"})
    await run(path, config=msgspec.convert({"credentials": settings}, Config))
    assert [one["stdout"] for one in results(path)] == ["0\n", "21\n"]


# --- the same with job arrays


@pytest.fixture
def in_jobs(path: Path) -> Iterator[dict[str, Any]]:
    """Options of a fleet that runs in jobs of a real SLURM; nothing of it is left at the end."""
    image = os.environ.get("PARTS_ROOTFS")
    if not image or not os.environ.get("SLURM_CONF") or shutil.which("apptainer") is None:
        pytest.skip("no SLURM, or no apptainer with an image: scripts/parts start apptainer rootfs slurm")
    yield {
        "backend": "singularity",
        "workspace": "private",
        "image": image,
        "slurm": {"time": "5"},
        "binds": [f"{path.parent}:/data"],
    }
    journal = Journal(path.with_name("f.results.jsonl"))
    journal.look()
    assert journal.arrays == []
    asked = ["squeue", "--me", "-h", f"--name=fleet-{journal.fleet}-1,fleet-{journal.fleet}-2"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.parametrize(
    ("kind", "name", "times"), [(Arrays, "_sbatch", 1), (Journal, "job", 1), (Arrays, "_sbatch", 2)]
)
async def test_a_client_that_crashes_as_it_submits(
    path: Path, in_jobs: dict[str, Any], kind: type, name: str, times: int
) -> None:
    """Before and after SLURM took the array; and when the first one comes as well as the next client's."""
    write(path, *({"id": n, "command": f"echo {n} >>/data/log; sleep 1; echo {n}"} for n in "abc"))
    options = {**in_jobs, "jobs": 3, "approval": "off"}

    def crash(*args: Any) -> Any:
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, name, crash)
        with pytest.raises(Crash):
            await Fleet(path, **options).run()
    submit, submitted = Arrays._sbatch, []

    async def count(self: Arrays, array: Array, jobs: int) -> Any:
        for _ in range(times):
            submitted.append(await submit(self, array, jobs))
        return submitted[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arrays, "_sbatch", count)
        summary = await Fleet(path, **options).run()
    assert len(submitted) == (0 if name == "job" else times)
    assert (summary.ok, summary.total, summary.troubles) == (3, 3, ())
    assert sorted(log(path)) == ["a", "b", "c"]
    assert sorted(one["stdout"] for one in results(path)) == ["a\n", "b\n", "c\n"]


async def test_a_job_array_has_no_credentials_and_says_so(
    path: Path, in_jobs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_FLEET_TOKEN", "value-of-the-fleet-01")
    write(path, {"command": "echo it: $A_FLEET_TOKEN; echo value-of-the-fleet-01"})
    options = {**in_jobs, "approval": "off"}
    plain: dict[str, Any] = {"credentials": {"env": ["A_FLEET_TOKEN"]}}
    refused = await Fleet(path, config=msgspec.convert(plain, Config), **options).run()
    assert (refused.waiting, [one.code for one in refused.troubles]) == (1, ["credentials_missing"])
    plain["credentials"]["missing"] = "warn"
    with pytest.warns(UserWarning, match="do without declared credentials: A_FLEET_TOKEN"):
        summary = await Fleet(path, config=msgspec.convert(plain, Config), **options).run()
    assert summary.ok == 1
    assert [(one["stdout"], one["redacted"]) for one in results(path)] == [("it:\n[redacted]\n", 1)]
