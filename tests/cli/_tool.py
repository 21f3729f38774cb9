"""The real command line, as a program of its own, against the real local backend."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERMES = [sys.executable, "-m", "hermes"]


class Cli:
    """Runs ``hermes`` in a directory of the test's own, and ends what it left."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cwd = home.parent / "work"
        self.cwd.mkdir()
        self._started: list[subprocess.Popen[bytes]] = []

    def __call__(
        self, *args: str, cwd: Path | None = None, timeout: float = 60, **options: Any
    ) -> subprocess.CompletedProcess[bytes]:
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        return subprocess.run(
            [*HERMES, *args],
            cwd=cwd or self.cwd,
            timeout=timeout,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            check=False,
            **options,
        )

    def out(self, *args: str, **options: Any) -> str:
        """Run a command that must succeed, and return what it printed."""
        done = self(*args, **options)
        assert done.returncode == 0, done
        return done.stdout.decode()

    def json(self, *args: str, **options: Any) -> Any:
        return json.loads(self(*args, **options).stdout)

    def sh(self, script: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a shell script in which ``$H`` is hermes."""
        env = {**os.environ, "H": " ".join(HERMES)}
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.cwd,
            env=env,
            capture_output=True,
            timeout=60,
            check=False,
            **options,
        )

    def start(self, *args: str, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([*HERMES, *args], cwd=self.cwd, **options)
        self._started.append(process)
        return process

    def guest_pid(self) -> int:
        """The pid of the guest of the sandbox of this directory."""
        code = (
            "import asyncio, hermes, sys\n"
            "async def main():\n"
            "    box = hermes.Sandbox('local', name=sys.argv[1])\n"
            "    await box.open(create=False)\n"
            "    print(box._open_channel.guest['pid'])\n"
            "    await box.close()\n"
            "asyncio.run(main())\n"
        )
        name = self.json("sandbox", "ls", "--json")[0]["name"]
        done = subprocess.run(
            [sys.executable, "-c", code, name], capture_output=True, check=True, cwd=self.cwd
        )
        return int(done.stdout)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait()
        self("sandbox", "rm", "--all", "--yes")


def eventually(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Return what *check* returns once that is true; the last of it when it never is."""
    end = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def running(mark: str) -> list[int]:
    """Pids of processes with *mark* as one of their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in arguments:
                found.append(int(entry.name))
    return found
