"""What commands see of what is declared, in each place."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import hermes
from _containers import PLACES
from hermes.credentials import stage

from .conftest import CLOUDS, Open, declared, keep

TOKEN = "A_DECLARED_TOKEN"
VALUE = "the-value-of-it-0123456789"
SHORT = {
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "TERM",
    "TZ",
    "TMPDIR",
}


async def text(box: hermes.Sandbox, command: str) -> str:
    result = await box.run(command)
    assert result.exit_code == 0, (command, result)
    return result.text.strip()


async def replaced(path: Path, content: str) -> None:
    await asyncio.to_thread(keep, path, content)


async def test_nothing_is_inherited(place: str, open_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    # The SDK of a cloud would use a proxy itself.
    proxies = () if place in CLOUDS else ("http_proxy", "HTTPS_PROXY")
    for name in ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", *proxies, "PYTHONPATH", TOKEN):
        monkeypatch.setenv(name, f"planted-{name}")
    box = await open_in(place)
    for result in (await box.run("env"), await box.exec("env"), await (await box.start("env")).wait()):
        assert "planted" not in result.text
    everywhere = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep planted; true"
    if place not in ("local", "ssh"):
        assert await text(box, everywhere) == ""


async def test_local_gets_a_short_list(open_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SHORT - {"PATH", "HOME"}, "LC_TIME", "EDITOR"):
        monkeypatch.setenv(name, f"of-{name}")
    box = await open_in("local")
    names = {line.partition("=")[0] for line in (await box.exec("env")).text.splitlines()}
    # LC_CTYPE is set by Python itself where the locale does not exist.
    assert names - {"PWD", "SHLVL", "_", "HERMES_TASK", "LC_CTYPE"} == {*SHORT, "LC_TIME"}


async def test_everything_may_be_inherited(open_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "ed")
    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "s3cret")
    box = await open_in("local", config=declared(inherit=True))
    assert await text(box, "echo $EDITOR [$HERMES_SUDO_PASSWORD]") == "ed []"


async def test_variables_reach_every_command(
    place: str, open_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, VALUE)
    box = await open_in(place, config=declared(env=[TOKEN], redact="off"))
    for how in (box.run, box.exec):
        assert (await how(f"sh -c 'echo ${TOKEN}'")).text == f"{VALUE}\n"
        assert (await how(f"echo ${TOKEN}", env={TOKEN: "the caller's"})).text == "the caller's\n"
    assert (await (await box.start(f"echo ${TOKEN}")).wait()).text == f"{VALUE}\n"
    monkeypatch.setenv(TOKEN, "another")
    assert await text(box, f"echo ${TOKEN}") == "another"


async def test_a_session_does_not_keep_them(open_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in what it hands to its successor, nor in what a job begins with."""
    monkeypatch.setenv(TOKEN, VALUE)
    box = await open_in("local", config=declared(env=[TOKEN], redact="off"))
    await box.run("export OWN=1; exit 3")
    await box.run("true")
    guest = box._channel.guest
    for folder in (guest["run_dir"], guest["state_dir"]):
        found = await text(box, f"grep -rl {VALUE[:8]}''{VALUE[8:]} {folder} --devices=skip; true")
        assert found == ""


@pytest.mark.parametrize("place", ["local", "docker", "ssh"])
async def test_what_a_session_took_over_lies_in_memory_only(
    place: str, open_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may keep a value in a variable of its session: what is handed to jobs is on no disk."""
    monkeypatch.setenv(TOKEN, VALUE)
    box = await open_in(place, config=declared(env=[TOKEN], redact="off"))
    await box.run(f"export KEPT=${TOKEN}; echo ready")
    job = await box.start("read -r line; echo $KEPT")
    guest = box._channel.guest
    search = f"grep -rl --devices=skip {VALUE[:8]}''{VALUE[8:]} "
    assert await text(box, f"{search} {guest['state_dir']}; true") == ""
    assert await text(box, f"df --output=fstype {guest['run_dir']} | tail -1") == "tmpfs"
    await job.write("go\n")
    assert (await job.wait()).text == f"{VALUE}\n"
    assert await text(box, f"ls {guest['run_dir']} | grep '[.]state$'; true") == ""


async def test_only_for_commands_that_name_it(open_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, VALUE)
    box = await open_in("local", config=declared(env=[TOKEN], per_command=True, redact="off"))
    assert VALUE not in (await box.run("env")).text
    assert VALUE not in (await box.run(f"env # {TOKEN}S")).text
    assert await text(box, f"echo ${TOKEN}") == VALUE
    assert f"{TOKEN}={VALUE}" in (await box.run(f"env # {TOKEN}")).text


async def test_files_are_there_and_stay_fresh(place: str, own: Path, open_in: Open) -> None:
    await replaced(own / "credentials" / "token.json", "first")
    await replaced(own / "other.json", "other")
    files = [{"path": "other.json", "to": ".hermes-test/deep/other.json"}]
    box = await open_in(place, config=declared(files=files, redact="off"))
    assert await text(box, "cat $HERMES_CREDENTIALS/token.json") == "first"
    assert (
        await text(box, "cat $HERMES_CREDENTIALS/other.json ~/.hermes-test/deep/other.json") == "otherother"
    )
    assert (await text(box, "stat -c %a $HERMES_CREDENTIALS")) == "700"
    assert (await text(box, "stat -c %a $HERMES_CREDENTIALS/token.json"))[-2:] == "00"
    await replaced(own / "credentials" / "token.json", "second")
    await asyncio.to_thread((own / "credentials" / "deep").mkdir)
    await replaced(own / "credentials" / "deep" / "new", "new")
    assert await text(box, "cat $HERMES_CREDENTIALS/token.json $HERMES_CREDENTIALS/deep/new") == "secondnew"
    assert await text(box, "cat ~/.hermes-test/deep/other.json") == "other"
    await asyncio.to_thread((own / "credentials" / "token.json").unlink)
    assert await text(box, "ls $HERMES_CREDENTIALS | tr '\\n' ' '") == "deep other.json"
    job = await box.start("cat $HERMES_CREDENTIALS/deep/new")
    assert (await job.wait()).text == "new"


@pytest.mark.parametrize("place", ["local", "docker", "ssh"])
async def test_what_is_typed_sees_fresh_ones(place: str, own: Path, open_in: Open) -> None:
    path = own / "credentials" / "token"
    await replaced(path, "first")
    box = await open_in(place, config=declared(redact="off"))
    async with await box.pty(
        "stty -echo; while read -r line; do cat $HERMES_CREDENTIALS/token; echo; done"
    ) as pty:
        await asyncio.sleep(0.3)
        for content in ("first", "second", "third"):
            await replaced(path, content)
            await pty.write("\n")
            seen = b""
            while b"\n" not in seen:
                seen += await pty.read(10)
            assert seen.strip().decode() == content


async def test_they_are_in_memory(place: str, own: Path, open_in: Open) -> None:
    await replaced(own / "credentials" / "a", "x")
    box = await open_in(place)
    assert await text(box, "df --output=fstype $HERMES_CREDENTIALS | tail -1") == "tmpfs"


async def test_one_that_comes_later_is_there(place: str, own: Path, open_in: Open) -> None:
    box = await open_in(place)
    assert await text(box, "echo [$HERMES_CREDENTIALS]") == "[]"
    await replaced(own / "credentials" / "late", "late")
    assert await text(box, "cat $HERMES_CREDENTIALS/late") == "late"


@pytest.mark.parametrize("place", [*PLACES, "singularity"])
async def test_containers_cannot_change_them(open_in: Open, own: Path, place: str) -> None:
    await replaced(own / "credentials" / "a", "x")
    box = await open_in(place)
    for command in (
        "echo y >$HERMES_CREDENTIALS/a",
        "rm $HERMES_CREDENTIALS/a",
        "touch $HERMES_CREDENTIALS/b",
    ):
        assert (await box.run(command)).exit_code != 0, command
    assert (own / "credentials" / "a").read_text() == "x"


async def test_nothing_is_sent_when_nothing_changed(place: str, own: Path, open_in: Open) -> None:
    await replaced(own / "credentials" / "a", "x")
    box = await open_in(place)
    await box.run("true")
    await asyncio.sleep(0.1)  # until the file is old enough that its time tells every change
    supply = box._supply
    assert supply is not None and supply.content.files
    supply._deliver = None  # type: ignore[method-assign, assignment]  # whatever would send fails
    for _ in range(3):
        assert (await box.run("cat $HERMES_CREDENTIALS/a")).exit_code == 0


async def test_the_next_client_sends_nothing_either(own: Path, open_in: Open) -> None:
    await replaced(own / "credentials" / "a", "x")
    one = await open_in("ssh", name="shared")
    await one.run("true")
    other = await open_in("ssh", name="shared")
    assert other._supply is not None and other._supply._sent is None
    assert await text(other, "cat $HERMES_CREDENTIALS/a") == "x"
    assert other._supply._sent is None


async def test_two_clients_with_different_files(
    tmp_path: Path, own: Path, open_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command sees those of its own client, or is not run."""
    await replaced(own / "a.json", "one")
    await replaced(own / "b.json", "two")
    one = await open_in("ssh", name="shared", config=declared(files=[{"path": "a.json"}]))
    two = await open_in("ssh", name="shared", config=declared(files=[{"path": "b.json"}]))
    for _ in range(3):
        assert await text(one, "cd $HERMES_CREDENTIALS && ls && cat *") == "a.json\none"
        assert await text(two, "cd $HERMES_CREDENTIALS && ls && cat *") == "b.json\ntwo"


async def test_a_wish_that_cannot_be_had(own: Path, open_in: Open, tmp_path: Path) -> None:
    await replaced(own / "a.json", "one")
    taken = keep(tmp_path / "taken", "not hermes's")
    config = declared(files=[{"path": "a.json", "to": str(taken)}])
    with pytest.warns(UserWarning, match="could not be put where it is wanted: .*taken: File exists"):
        box = await open_in("local", config=config)
        assert await text(box, "cat $HERMES_CREDENTIALS/a.json") == "one"
    assert taken.read_text() == "not hermes's"


@pytest.mark.blocking_ok
async def test_nothing_is_left(place: str, own: Path, open_in: Open) -> None:
    await replaced(own / "a.json", "one")
    box = await open_in(place, config=declared(files=[{"path": "a.json", "to": ".hermes-test/a.json"}]))
    inside = await text(box, "echo $HERMES_CREDENTIALS; echo ~")
    await box.destroy()
    await asyncio.sleep(0.1)
    folder, home = inside.split()
    here = stage.folder(place if place == "singularity" else "docker", box.id)
    others = [folder, f"{home}/.hermes-test"] if place in ("local", "ssh") else []  # the same machine
    assert [path for path in (here, *others) if os.path.lexists(path)] == []


@pytest.mark.blocking_ok
async def test_taken_away_before_a_suspend_and_put_back(own: Path, open_in: Open) -> None:
    await replaced(own / "credentials" / "a", "x")
    box = await open_in("docker", name="sleeper")
    assert await text(box, "cat $HERMES_CREDENTIALS/a") == "x"
    folder = stage.folder("docker", box.id)
    assert os.listdir(folder) == ["a"]
    await box.suspend()
    assert os.listdir(folder) == []
    await box.resume()
    assert await text(box, "cat $HERMES_CREDENTIALS/a") == "x"


@pytest.mark.blocking_ok
@pytest.mark.parametrize("place", ["docker", "jail"])
async def test_none_comes_back_while_it_is_suspended(place: str, own: Path, open_in: Open) -> None:
    """Tokens change and commands come while the place goes to sleep: what sleeps has none."""
    path = own / "credentials" / "a"
    await replaced(path, "0")
    box = await open_in(place, name="sleeper", config=declared(redact="off"))
    assert await text(box, "cat $HERMES_CREDENTIALS/a") == "0"
    supply = box._supply
    assert supply is not None
    shown = supply._shown.here if supply._shown is not None else None

    asleep = False

    async def busy(number: int) -> str:
        await asyncio.sleep(number * 0.02)
        if asleep:
            return "late"  # it would wake the place
        keep(path, str(number))
        try:
            return (await box.run("cat $HERMES_CREDENTIALS/a")).text
        except hermes.HermesError as error:
            return error.code

    commands = [asyncio.create_task(busy(number)) for number in range(1, 100)]
    await asyncio.sleep(0.1)
    await box.suspend()
    asleep = True
    told = [one for one in await asyncio.gather(*commands) if one != "late"]
    assert told[0].isdigit() and "gone" in told, told
    if shown is not None:
        assert os.listdir(shown) == []
    await box.resume()
    assert await text(box, "cat $HERMES_CREDENTIALS/a") == str(len(told))


@pytest.mark.blocking_ok
async def test_taken_away_through_the_channel_too(own: Path, open_in: Open) -> None:
    await replaced(own / "credentials" / "a", "x")
    box = await open_in("ssh")
    folder = await text(box, "echo $HERMES_CREDENTIALS")
    assert box._supply is not None
    async with box._supply.withdrawn():
        assert not os.path.lexists(folder)
    assert await text(box, "cat $HERMES_CREDENTIALS/a") == "x"


async def test_an_unsafe_change_stops_commands(own: Path, open_in: Open) -> None:
    path = own / "credentials" / "a"
    await replaced(path, "x")
    box = await open_in("local")
    await asyncio.to_thread(path.unlink)
    await asyncio.to_thread(path.symlink_to, "/etc/shadow")
    with pytest.raises(hermes.ConfigError, match="leads out of"):
        await box.run("true")
    await asyncio.to_thread(path.unlink)
    assert (await box.run("true")).exit_code == 0
