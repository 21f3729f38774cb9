"""Writing one recording. Everything here blocks, and is called in a thread, never by two at a time."""

from __future__ import annotations

import base64
import codecs
import os
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import hermes
from hermes.config import Log, make_private
from hermes.errors import HermesError, Refused

from . import CAST, LINES, directory
from ._clean import Cleaner
from ._prune import prune_if_due

if TYPE_CHECKING:
    from hermes._watch import Entry
    from hermes.approval import Decision
    from hermes.credentials.former import Former
    from hermes.credentials.scrub import Stream

__all__ = ["VERSION", "Writer"]

VERSION = 1
NEAR = 0.02  # seconds between pieces of output that are written as one
COMMANDS = 16  # that are written before other threads have a turn
SAME = 64  # directories, sessions and the like that are kept as they are written
TERMINAL = 16 << 20  # bytes of one terminal
NAMES = {1: "stdout", 2: "stderr"}
COLUMNS, ROWS = 80, 24

_encode = msgspec.json.Encoder().encode


class Writer:
    """One client's recording. ``taken``: bytes of output that are no longer waited with."""

    def __init__(self, facts: Mapping[str, Any], settings: Log, password: str | None) -> None:
        self.taken = 0
        self._settings = settings
        self._clean = Cleaner(password)
        self._directory = directory()
        now = time.time()
        # So that the order of the names is that of time.
        stamp = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}{int(now * 1000) % 1000:03}"
        self.id = f"{stamp}-{facts['client']}"
        self._file: _File | None = None
        self._facts_known: dict[str, str] = {}
        self._facts = {"type": "session", "version": VERSION, "id": self.id, "hermes": hermes.__version__}
        self._facts |= {key: self._text(value) for key, value in facts.items()}
        self._lines: list[bytes] = []
        self._outputs: dict[tuple[int, int], _Output] = {}
        self._casts: dict[int, _Cast] = {}
        self._full = False

    def take(self, events: deque[tuple[Any, ...]]) -> None:
        """Write what there is.

        :raises OSError: it cannot be written
        """
        while events:
            what, entry, when, *rest = events.popleft()
            if what == "output":
                chan, parts = rest[0], [rest[1]]
                while events and events[0][:2] == (what, entry) and events[0][3] == chan:
                    if events[0][2] - when > NEAR:
                        break
                    parts.append(events.popleft()[4])
                rest[1] = b"".join(parts)
                self.taken += len(rest[1])
            elif what == "cut":
                self.taken += len(rest[1]) + len(rest[3])
            getattr(self, f"_{what}")(entry, when, *rest)
            if what == "end" and entry.number % COMMANDS == 0:
                time.sleep(0)  # the event loop does not wait for long: it has commands to run
        lines, self._lines = self._lines, []
        if lines:
            self._append(b"".join(lines))

    def _append(self, data: bytes) -> None:
        if self._file is None:
            make_private(self._directory)
            self._file = _File(self._directory / (self.id + LINES))
            data = _encode(self._facts) + b"\n" + data
            prune_if_due(self._directory, self._settings)
        self._file.write(data)
        limit = self._settings.max_size
        if limit and self._file.size > limit // 4:
            self._full = True  # of outputs: commands are few bytes
            if self._file.size > limit // 2:
                raise OSError(0, "it would fill all that log.max_size allows", str(self._file.path))

    def _line(self, what: str, entry: Entry | None, when: float, /, **facts: Any) -> None:
        number = {} if entry is None else {"n": entry.number}
        self._lines.append(_encode({"type": what, **number, "time": round(when, 6), **facts}) + b"\n")

    def _text(self, value: Any) -> Any:
        """Return a fact without secrets. Most are the same again and again."""
        if not isinstance(value, str):
            return value
        found = self._facts_known.get(value)
        if found is None:
            if len(self._facts_known) >= SAME:
                self._facts_known.clear()
            found = self._clean.text(value.encode("utf-8", "surrogateescape"))
            self._facts_known[value] = found
        return found

    # --- what events say

    def _secrets(self, entry: None, when: float, values: set[bytes], former: Former | None) -> None:
        self._clean.know(values, former)
        self._facts_known.clear()
        for output in self._outputs.values():
            output.scrub.renew(self._clean.scrub)
        for cast in self._casts.values():
            cast.output.scrub.renew(self._clean.scrub)

    def _command(self, entry: Entry, when: float, decision: Decision | Refused | None) -> None:
        facts: dict[str, Any] = {"kind": entry.kind, "text": self._clean.command(entry.raw)}
        if entry.session is not None:
            facts["session"] = self._text(entry.session)
        if entry.cwd is not None:
            facts["cwd"] = self._text(os.fspath(entry.cwd))
        if entry.given is not None:
            facts["program"] = self._clean.command(entry.given)
        if decision is not None:
            facts["decision"] = self._decided(decision)
        if entry.size is not None:
            facts["terminal"] = f"{self.id}.{entry.number}{CAST}"
        self._line("command", entry, when, **facts)

    def _decided(self, decision: Decision | Refused) -> dict[str, Any]:
        """Return what was decided; who was asked, and answered what, is in the audit log."""
        if isinstance(decision, Refused):
            reason = str(decision.context.get("reason") or decision.message)
            found = {"action": "refuse", "reason": self._text(reason)}
        else:
            found = {"action": decision.action}
            if decision.action != "allow":
                found["reason"] = self._text(decision.reason)
        return found if decision.rule is None else {**found, "rule": decision.rule}

    def _started(self, entry: Entry, when: float, job: str) -> None:
        self._line("started", entry, when, job=job)

    def _changed(self, entry: None, when: float, path: str, error: HermesError | None) -> None:
        refused = (
            {} if error is None else {"error": {"code": error.code, "message": self._text(error.message)}}
        )
        self._line("change", None, when, path=self._text(path), **refused)

    def _output(self, entry: Entry, when: float, chan: int, data: bytes) -> None:
        if entry.size is not None:
            self._cast(entry).data(when, data)
        elif not self._full:
            state = self._outputs.get((entry.number, chan))
            if state is None:
                state = self._outputs[entry.number, chan] = _Output(self._clean.scrub.stream())
            self._data(entry, when, chan, state.feed(data))

    def _cut(self, entry: Entry, when: float, chan: int, head: bytes, missing: int, tail: bytes) -> None:
        if entry.size is not None:  # nobody looked at it while it ran
            self._cast(entry).data(when, head)
            if missing:
                self._cast(entry).gap(when, missing, self._clean.scrub.rest(tail)[0])
            return
        if self._full:
            return
        state = self._outputs.pop((entry.number, chan), None)
        if state is None and not missing:  # as most are, and quicker
            self._data(entry, when, chan, self._clean.scrub.whole(head)[0])
            return
        state = state or _Output(self._clean.scrub.stream())
        self._data(entry, when, chan, state.feed(head) + state.end(cut=missing > 0))
        if missing:
            self._line("omitted", entry, when, stream=NAMES.get(chan, str(chan)), bytes=missing)
            self._data(entry, when, chan, self._clean.scrub.rest(tail)[0])

    def _data(self, entry: Entry, when: float, chan: int, data: bytes) -> None:
        if not data:
            return
        facts: dict[str, Any] = {"stream": NAMES.get(chan, str(chan))}
        try:
            facts["data"] = data.decode("utf-8")
        except UnicodeDecodeError:
            facts["data_b64"] = base64.b64encode(data).decode("ascii")
        self._line("output", entry, when, **facts)

    def _resized(self, entry: Entry, when: float, rows: int, cols: int) -> None:
        if entry.number in self._casts:
            self._casts[entry.number].event(when, "r", f"{cols}x{rows}")

    def _end(self, entry: Entry, when: float, facts: dict[str, Any]) -> None:
        for chan in NAMES:
            state = self._outputs.pop((entry.number, chan), None)
            if state is not None and not self._full:
                self._data(entry, when, chan, state.end())
        if (cast := self._casts.pop(entry.number, None)) is not None:
            cast.end(when)
        found = {key: value for key, value in facts.items() if value is not None}
        found["duration"] = round(found["duration"], 6)
        for key in ("cwd", "spill"):
            if key in found:
                found[key] = self._text(found[key])
        if "error" in found:
            found["error"] = {key: self._text(value) for key, value in found["error"].items()}
        self._line("end", entry, when, **found)

    def _cast(self, entry: Entry) -> _Cast:
        cast = self._casts.get(entry.number)
        if cast is None:
            make_private(self._directory)
            assert entry.size is not None
            rows, cols = entry.size
            head = {
                "version": 2,
                "width": cols or COLUMNS,
                "height": rows or ROWS,
                "timestamp": int(entry.began),
                "title": self._clean.command(entry.raw) or "shell",
                "env": {"TERM": self._text(entry.term or "xterm-256color")},
            }
            file = _File(self._directory / f"{self.id}.{entry.number}{CAST}")
            file.write(_encode(head) + b"\n")
            output = _Output(self._clean.scrub.stream())
            cast = self._casts[entry.number] = _Cast(file, entry.began, output)
        return cast


class _File:
    """A file of this user's alone, which must be new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)

    def write(self, data: bytes) -> None:
        """Write all of it.

        :raises OSError: it cannot be written
        """
        self.size += len(data)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            error.filename = str(self.path)
            raise

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


class _Output:
    """One output in pieces: no secret in it, and no character cut in two."""

    def __init__(self, scrub: Stream) -> None:
        self.scrub = scrub
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        data = self._rest + self.scrub.feed(data)
        keep = _unfinished(data)
        self._rest = data[len(data) - keep :] if keep else b""
        return data[: len(data) - keep] if keep else data

    def end(self, *, cut: bool = False) -> bytes:
        rest, self._rest = self._rest, b""
        return rest + self.scrub.end(cut=cut)


def _unfinished(data: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a character."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            return back if byte >= 0xC0 and back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
    return 0


class _Cast:
    """A terminal, in the format of asciinema."""

    def __init__(self, file: _File, began: float, output: _Output) -> None:
        self.output = output
        self._file = file
        self._began = self._last = began
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._full = False

    def data(self, when: float, data: bytes) -> None:
        """Write output; what could be the beginning of a secret waits for the next."""
        if self._file.size > TERMINAL:
            if not self._full:
                self.event(when, "m", "the recording ends here: it is as long as one may be")
            self._full = True
            return
        if text := self._text.decode(self.output.feed(data)):
            self.event(when, "o", text)

    def event(self, when: float, kind: str, text: str) -> None:
        self._last = max(self._last, when)
        self._file.write(_encode([round(self._last - self._began, 6), kind, text]) + b"\n")

    def gap(self, when: float, missing: int, tail: bytes) -> None:
        """Write that something is missing, and what came after it, in which no secret is left."""
        before = self._text.decode(self.output.end(cut=True), True)
        note = f"\r\n[... {missing} bytes were not recorded ...]\r\n"
        self.event(when, "o", before + note + tail.decode("utf-8", "replace"))

    def end(self, when: float) -> None:
        if not self._full and (text := self._text.decode(self.output.end(cut=True), True)):
            self.event(when, "o", text)
