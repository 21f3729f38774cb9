"""What others on either machine can see: command lines and environments of the processes in between."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from _ssh import Host, command_lines

from .conftest import Open

SECRETS = ("s3cret-of-the-sandbox", "s3cret-of-the-command", "s3cret-in-the-text", "s3cret-on-stdin")


async def test_no_secret_is_in_a_list_of_processes(open_on: Open, host: Host) -> None:
    """Both ends are on this machine, so both are seen. The command's own processes are its own affair."""
    box = await open_on(host, env={"TOKEN": SECRETS[0]})
    seen: set[str] = set()

    async def watch() -> None:
        while True:
            for words in (await asyncio.to_thread(command_lines)).values():
                line = " ".join(words)
                # A shell of the command's own gets its text as any `bash -c` does.
                text = SECRETS[2] if words[:2] == ["bash", "-c"] else None
                seen.update(f"{one}: {line}" for one in SECRETS if one in line and one != text)
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    command = f": {SECRETS[2]}; echo $TOKEN $MORE $(cat); read -t 1 <> <(:); true"
    for run in (box.run, box.exec):
        result = await run(command, env={"MORE": SECRETS[1]}, stdin=SECRETS[3])
        assert result.text == f"{SECRETS[0]} {SECRETS[1]} {SECRETS[3]}\n"
    again = await open_on(host, name="again", env={"TOKEN": SECRETS[0]})
    await (await again.start(f"sleep 1; : {SECRETS[2]}")).wait()
    await again.destroy()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    assert not seen, sorted(seen)


async def test_nothing_of_this_machine_goes_along(
    open_on: Open, host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HERMES_SUDO_PASSWORD", "AWS_SECRET_ACCESS_KEY", "SSH_SECRET"):
        monkeypatch.setenv(name, "s3cret")
    box = await open_on(host)
    for result in (await box.run("env"), await box.exec("env")):
        assert "s3cret" not in result.text
        assert "HERMES_TEST_RUN" not in result.text


async def test_others_there_cannot_look_in(open_on: Open, host: Host) -> None:
    """Its files and its socket are for the account alone."""
    box = await open_on(host)
    assert (await box.run("umask; stat -c %a .")).text.split()[1] == "700"
    await box.files.write("note", b"mine")
    where = (await box.run("pwd")).text.strip()
    said = await asyncio.to_thread(
        host.as_user("hermes-dash").run, f"ls {where} 2>&1; ls /dev/shm/hermes-* /tmp/hermes-* 2>&1; true"
    )
    assert "note" not in said
    assert "guest.sock" not in said
