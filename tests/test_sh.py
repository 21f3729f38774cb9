"""Sessions in a place that has no bash: sh does, with what sh can."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import hermes


@pytest.fixture
def path_without_bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("/usr/bin", "/bin"):
        for name in os.listdir(folder):
            if "bash" not in name and not (tmp_path / name).is_symlink():
                (tmp_path / name).symlink_to(os.path.join(folder, name))
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
async def box(path_without_bash: None) -> AsyncIterator[hermes.Sandbox]:
    async with hermes.Sandbox("local", workspace="private") as box:
        yield box


async def test_it_is_sh(box: hermes.Sandbox) -> None:
    assert (
        await box.run("echo ${BASH_VERSION-none}; command -v bash || echo no bash")
    ).text == "none\nno bash\n"
    assert (await box.exec("echo $0")).text == "sh\n"


async def test_state_stays(box: hermes.Sandbox) -> None:
    await box.run(
        "x='a  b'; export y=2; cd /usr; alias hi='echo hello'; f() { echo f $1; }; umask 027; set -u"
    )
    result = await box.run('echo "$x" $y; pwd; umask; f z\nhi\nenv | grep ^y=; echo $-')
    assert result.text == "a  b 2\n/usr\n0027\nf z\nhello\ny=2\nu\n"


@pytest.mark.parametrize("end", ["exit 7", "kill -9 $$", "exec sh -c 'exit 7'", "set -e; (exit 7)"])
async def test_state_survives_the_shell(box: hermes.Sandbox, end: str) -> None:
    await box.run("x=\"it's 1\"; export y=2; cd /usr; alias hi='echo hello'")
    assert (await box.run(end)).exit_code == (137 if "kill" in end else 7)
    result = await box.run('echo "$x" $y; pwd\nhi')
    assert result.text == "it's 1 2\n/usr\nhello\n"


async def test_streams_and_statuses(box: hermes.Sandbox) -> None:
    result = await box.run("cat; echo err >&2; (exit 4)", stdin=b"in\0\xff")
    assert (result.stdout, result.stderr, result.exit_code) == (b"in\0\xff", b"err\n", 4)
    assert (await box.run("echo $?")).text == "4\n"
    assert (await box.run("echo a; echo b >&2; echo c", merge_stderr=True)).stdout == b"a\nb\nc\n"
    assert (await box.run("if")).exit_code != 0
    assert (await box.run("echo still here")).text == "still here\n"


async def test_env_and_cwd_of_one_command(box: hermes.Sandbox) -> None:
    await box.run("A=old")
    result = await box.run("echo $A $B; pwd; sh -c 'echo $A'", env={"A": "n'ew", "B": "2"}, cwd="/usr")
    assert result.text == "n'ew 2\n/usr\nn'ew\n"
    assert (await box.run("echo $A ${B-none}; pwd")).text == f"old none\n{box.cwd}\n"


async def test_a_timeout_ends_the_tree_and_the_session_goes_on(box: hermes.Sandbox) -> None:
    await box.run("x=1")
    result = await box.run("echo before; setsid sleep 60 & sleep 60; echo after", timeout=0.3)
    assert (result.exit_code, result.stdout, result.timed_out) == (124, b"before\n", True)
    assert [job for job in await box.jobs() if job.kind == "stray"] == []
    assert (await box.run("echo $x")).text == "1\n"


async def test_background_jobs_and_big_output(box: hermes.Sandbox) -> None:
    result = await box.run("sleep 30 & echo at once")
    assert result.text == "at once\n" and result.duration < 5
    long = await box.run("seq 100000", max_output=1000)
    assert long.truncated and long.spill is not None
    assert await long.spill.read(0, 4) == b"1\n2\n"
    job = await box.start("echo job; exit 3")
    assert (await job.wait()).exit_code == 3


async def test_no_shell_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hermes.Sandbox("local", name="none") as box:
        await box.run("true")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(hermes.BackendError, match="neither bash nor sh"):
            await hermes.Sandbox("local").open()
        await box.destroy()
