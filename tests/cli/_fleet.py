"""Fleets of the command line: their files, and a client that is killed on its way."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cli._tool import Cli, eventually


class FleetFile:
    """A file of commands in a directory of the test's own, and what came of it."""

    def __init__(self, cli: Cli, commands: Sequence[dict[str, Any]], *options: str) -> None:
        self.cli = cli
        self.path = cli.cwd / "f.jsonl"
        self.output = cli.cwd / "f.results.jsonl"
        self.argv = ["fleet", "run", "f.jsonl", *options]
        self.write(commands)

    def write(self, commands: Sequence[dict[str, Any]]) -> None:
        self.path.write_text("".join(json.dumps(one) + "\n" for one in commands))

    def run(self, *more: str, code: int = 0) -> str:
        """Run it to its end, and return what it said."""
        done = self.cli(*self.argv, *more, timeout=55)
        assert done.returncode == code, done
        assert done.stdout == b""
        return done.stderr.decode()

    def lines(self) -> list[dict[str, Any]]:
        """The results, in the order in which they came."""
        if not self.output.exists():
            return []
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    def results(self) -> dict[str, dict[str, Any]]:
        """The results by id; each has exactly one."""
        lines = self.lines()
        found = {line["id"]: line for line in lines}
        assert len(found) == len(lines)
        return found

    def journal(self) -> list[dict[str, Any]]:
        path = self.output.with_name(self.output.name + ".journal")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def interrupted(self, ready: Callable[[], Any], *signals: int) -> tuple[int, str]:
        """Start it, send it signals once something holds, and return its exit code and what it said."""
        process = self.cli.start(*self.argv)
        assert process.stderr is not None
        assert eventually(lambda: ready() or process.poll() is not None, 40), self.lines()
        assert process.poll() is None, (process.returncode, process.stderr.read(), self.lines())
        for number in signals or (signal.SIGKILL,):
            process.send_signal(number)
            eventually(lambda: process.poll() is not None, 0.3)
        code = process.wait(40)
        return code, process.stderr.read().decode()


def log(path: Path) -> list[str]:
    """The lines that commands have added to a file."""
    return path.read_text().split() if path.exists() else []


def at_least(path: Path, count: int) -> bool:
    """Whether so many lines were added."""
    return len(log(path)) >= count
