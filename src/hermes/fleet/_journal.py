"""What is known of a fleet across clients: its results, and a journal of what was begun.

Both are files to which whole lines are added, each on the disk before anything follows from it. A command is
begun when a line of the journal says so, and finished when one of the results does; each beginning has
exactly one result. All functions block; async callers use a thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes.errors import HermesError

from ._input import Command

__all__ = ["Array", "Begun", "Journal"]

VERSION = 1
FINAL = ("ok", "timed_out", "gone")
"""Statuses of commands that ran, or may have; one that failed or was refused never did."""


@dataclass(frozen=True)
class Begun:
    """A command that was begun: where, and by which mark it is found there."""

    id: str
    digest: str
    sandbox: str
    mark: str = ""
    guest: str = ""


@dataclass
class Array:
    """A job array: its name in the queue, its directory, its commands by index, its number once known."""

    name: str
    folder: str
    ids: list[str]
    number: str = ""


@dataclass
class _State:
    begun: dict[str, list[Begun]] = field(default_factory=dict)
    results: dict[str, list[str]] = field(default_factory=dict)
    boxes: list[str] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    submitted: int = 0


class Journal:
    """The two files of a fleet, held by one client at a time."""

    def __init__(self, output: Path) -> None:
        """Name them; nothing is opened."""
        self.output = output
        self.path = output.with_name(output.name + ".journal")
        self.header: dict[str, Any] = {}
        self._state = _State()
        self._files: dict[Path, int] = {}
        self._mutex = threading.Lock()

    # --- opening

    def open(self) -> None:
        """Take hold of the files, and read them.

        :raises HermesError: code ``fleet_busy``, another client has them; ``fleet_unreadable``, they make no
            sense; ``fleet_unwritable``
        """
        try:
            fd = self._files[self.path] = self._opened(self.path)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HermesError(
                    f"another hermes runs this fleet: it holds {self.path}; nothing was started here",
                    code="fleet_busy",
                    hint="Wait for it, or press Ctrl-C there. 'hermes fleet status' shows how far it is.",
                ) from None
            self._files[self.output] = self._opened(self.output)
            self._read()
        except OSError as error:
            self.close()
            raise self._unwritable(error) from error
        except BaseException:
            self.close()
            raise

    def look(self) -> bool:
        """Read the files without holding them; return whether a client holds them."""
        for path in (self.path, self.output):
            with contextlib.suppress(FileNotFoundError):
                self._files[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            held = False
            if self.path in self._files:
                try:
                    fcntl.flock(self._files[self.path], fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    held = True
            self._read(repair=False)
            return held
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the files. Does nothing the second time."""
        with self._mutex:  # a writer that nobody waits for any more may still be at work in its thread
            files, self._files = self._files, {}
            for fd in files.values():
                os.close(fd)

    @staticmethod
    def _opened(path: Path) -> int:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return fd

    def _read(self, *, repair: bool = True) -> None:
        for number, record in self._lines(self.path, repair):
            try:
                self._take(record)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise self._unreadable(self.path, number, f"it makes no sense ({error!r})") from error
        for number, record in self._lines(self.output, repair):
            ident, status = record.get("id"), record.get("status")
            if not isinstance(ident, str) or not isinstance(status, str):
                raise self._unreadable(self.output, number, "it is no result of a fleet")
            results = self._state.results.setdefault(ident, [])
            results.append(status)
            if len(results) > len(self._state.begun.get(ident, ())):
                raise HermesError(
                    f"{self.output}:{number} has a result of '{ident}', but {self.path} does not know that "
                    "it was begun; nothing was started",
                    code="fleet_unreadable",
                    hint="Name another file with --output, or remove this one to run everything anew.",
                )

    def _take(self, record: dict[str, Any]) -> None:
        state = self._state
        if "fleet" in record:
            if record["version"] != VERSION:
                raise ValueError(f"version {record['version']}")
            self.header = record
        elif "begin" in record:
            begun = Begun(
                id=record["begin"],
                digest=record["digest"],
                sandbox=record["sandbox"],
                mark=record["mark"],
                guest=record["guest"],
            )
            state.begun.setdefault(begun.id, []).append(begun)
        elif "array" in record:
            array = Array(record["array"], record["dir"], [ident for ident, _ in record["ids"]])
            state.arrays[array.name] = array
            state.submitted += 1
            for ident, digest in record["ids"]:
                state.begun.setdefault(ident, []).append(Begun(ident, digest, array.name))
        elif "job" in record:
            state.arrays[record["of"]].number = record["job"]
        elif "back" in record:
            for ident in record["back"]:
                state.begun[ident].pop()
        elif "box" in record:
            state.boxes.append(record["box"])
        elif "removed" in record:
            state.arrays.pop(record["removed"], None)
            state.boxes = [name for name in state.boxes if name != record["removed"]]
        else:
            raise ValueError("a record of no known kind")

    def _lines(self, path: Path, repair: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the lines of a file one by one: results may be large."""
        fd = self._files.get(path)
        if fd is None:
            return
        whole = 0
        with open(fd, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    record = json.loads(line)
                except ValueError as error:
                    raise self._unreadable(path, number, f"it is no JSON ({error})") from error
                if not isinstance(record, dict):
                    raise self._unreadable(path, number, "it is no JSON object")
                yield number, record
                whole += len(line)
        if repair and os.fstat(fd).st_size > whole:
            # A client died as it wrote the last line: nothing followed from it yet.
            os.ftruncate(fd, whole)
            os.fsync(fd)

    # --- what it says

    def begin_fleet(self, backend: str, limit: int) -> None:
        """Say which fleet this is; one that was begun goes on as it is.

        :raises HermesError: code ``fleet_differs``; it was begun on another place
        """
        if not self.header:
            header = {"fleet": secrets.token_hex(5), "version": VERSION, "backend": backend, "limit": limit}
            self._append(self.path, header)
            self.header = header
        elif self.header["backend"] != backend:
            raise HermesError(
                f"this fleet was begun on {self.header['backend']}, not on {backend}; nothing was started",
                code="fleet_differs",
                hint=f"Give --sandbox {self.header['backend']}, or another --output to run everything anew.",
            )

    def check(self, commands: Sequence[Command]) -> None:
        """See that the commands are those that were begun.

        :raises HermesError: code ``fleet_differs``
        """
        known = {command.id: command.digest for command in commands}
        for ident, begun in self._state.begun.items():
            if not begun or (not self.open_for(ident) and (self.status(ident) not in FINAL)):
                continue
            wanted = known.get(ident)
            if wanted is None and not self.open_for(ident):
                continue  # its result is there, and nobody asks for it any more
            if wanted != begun[-1].digest:
                what = "is another one now" if wanted else "is not there any more"
                raise HermesError(
                    f"the command '{ident}' was begun, and {what}; nothing was started",
                    code="fleet_differs",
                    hint="Give a changed command another id, or name another --output to run all anew.",
                )

    @property
    def fleet(self) -> str:
        """A name that no other fleet has."""
        return str(self.header["fleet"])

    @property
    def limit(self) -> int:
        """Bytes of each stream in a result."""
        return int(self.header["limit"])

    @property
    def boxes(self) -> list[str]:
        """Sandboxes that were made, or were about to be, and were not removed."""
        return list(self._state.boxes)

    @property
    def arrays(self) -> list[Array]:
        """Job arrays whose directories were not removed, the oldest first."""
        return list(self._state.arrays.values())

    @property
    def submitted(self) -> int:
        """How many job arrays there ever were, those that were about to be submitted too."""
        return self._state.submitted

    def open_for(self, ident: str) -> Begun | None:
        """Return how a command was begun whose result is not there yet, None when there is none such."""
        begun = self._state.begun.get(ident, [])
        return begun[-1] if len(begun) > len(self._state.results.get(ident, ())) else None

    def open_all(self) -> Iterator[Begun]:
        """Yield every beginning without a result."""
        for ident in list(self._state.begun):
            if begun := self.open_for(ident):
                yield begun

    def status(self, ident: str) -> str | None:
        """Return the status of a command's last result, None when there is none."""
        results = self._state.results.get(ident)
        return results[-1] if results else None

    # --- adding to it

    def box(self, name: str) -> None:
        """Note that a sandbox is about to be made."""
        if name not in self._state.boxes:
            self._note({"box": name})

    def begin(self, begun: Begun) -> None:
        """Note that a command is about to be started."""
        self._note(
            {
                "begin": begun.id,
                "digest": begun.digest,
                "sandbox": begun.sandbox,
                "mark": begun.mark,
                "guest": begun.guest,
            }
        )

    def array(self, array: Array, commands: Sequence[Command]) -> None:
        """Note that a job array is about to be submitted, with which all of its commands count as begun."""
        ids = [[command.id, command.digest] for command in commands]
        self._note({"array": array.name, "dir": array.folder, "ids": ids})

    def job(self, array: Array, number: str) -> None:
        """Note the number of an array."""
        array.number = number
        self._note({"job": number, "of": array.name})

    def back(self, idents: Sequence[str]) -> None:
        """Note that begun commands were not started, and now cannot be any more."""
        if idents:
            self._note({"back": list(idents)})

    def removed(self, name: str) -> None:
        """Note that a sandbox, or the directory of an array, is no more."""
        self._note({"removed": name})

    def finish(self, ident: str, result: Mapping[str, Any]) -> None:
        """Add the result of a command."""
        with self._mutex:
            self._write(self.output, {"id": ident, **result})
            self._state.results.setdefault(ident, []).append(str(result["status"]))

    def _note(self, record: dict[str, Any]) -> None:
        with self._mutex:
            self._write(self.path, record)
            self._take(record)

    def _append(self, path: Path, record: Mapping[str, Any]) -> None:
        with self._mutex:
            self._write(path, record)

    def _write(self, path: Path, record: Mapping[str, Any]) -> None:
        data = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            fd = self._files[path]
            before = os.fstat(fd).st_size
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                os.fsync(fd)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, before)  # half a line would spoil the next one
                raise
        except OSError as error:
            raise self._unwritable(error) from error
        except KeyError:
            raise HermesError("the fleet is not open any more", code="fleet_closed") from None

    def _unwritable(self, error: OSError) -> HermesError:
        return HermesError(
            f"{self.output} and {self.path.name} beside it cannot be written: {error.strerror or error}",
            code="fleet_unwritable",
            hint="See to it that they can be, or name another file with --output; what runs goes on.",
        )

    @staticmethod
    def _unreadable(path: Path, number: int, why: str) -> HermesError:
        return HermesError(
            f"{path}:{number} cannot be used: {why}; nothing was started, and the file is as it was",
            code="fleet_unreadable",
            hint="Repair it, or name another file with --output to run everything anew.",
        )
