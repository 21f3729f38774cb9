"""What a tool gives back: text for a model, and the same as an object."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from hermes._json import plain
from hermes.errors import HermesError, Refused
from hermes.session import Spill

__all__ = ["Error", "Outcome", "Reply", "Told", "cut", "error_reply", "fenced", "is_binary", "readable"]

LEAST = 4096  # bytes of a result: less would leave no room for what has to be said
HEADER = 1536  # of them are for what is said about the output
SHOWN = 300  # of a path or the like in a header
HEX_SHOWN = 256


class Told(msgspec.Struct, kw_only=True):
    """Why there is no result."""

    code: str
    message: str
    hint: str | None = None


Error = Annotated[Told | None, msgspec.Meta(description="Why it was not done; null when it was.")]


class Reply(msgspec.Struct, kw_only=True):
    """The object that a tool gives back. Each tool adds its own fields."""

    status: Literal["ok", "timed_out", "running", "refused", "failed"] = "ok"
    error: Error = None
    hint: Annotated[str | None, msgspec.Meta(description="What may be of use next.")] = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A tool's result. ``failed``: nothing came of the call; a command with an exit code is none of these.

    ``spill`` is the whole of an output that was too long; ``job`` the id of what runs on.
    """

    text: str
    reply: Reply
    failed: bool = False
    spill: Spill | None = None
    job: str | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The object as plain JSON values."""
        found: dict[str, Any] = msgspec.to_builtins(self.reply)
        return found


def error_reply(kind: type[Reply], error: HermesError) -> Outcome:
    """Return the outcome of a call that was refused, or could not be done as it was asked for."""
    refused = isinstance(error, Refused)
    message, hint = _short(plain(error.message)), plain(error.hint) if error.hint else None
    told = Told(code=error.code, message=message, hint=hint)
    reply = kind(status="refused" if refused else "failed", error=told)
    text = message if refused else f"error: {message}"
    return Outcome(f"{text}\n{hint}" if hint else text, reply, failed=True)


def _short(text: str) -> str:
    return cut(text, 2 * HEADER)[0]


def cut(text: str, limit: int, where: str = "") -> tuple[str, bool]:
    """Return head and tail of a text of more than *limit* bytes of UTF-8, and whether something is missing.

    :param where: says where the whole is
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    note = f"\n[... about {len(data) - limit} bytes are left out here{where} ...]\n"
    room = max(0, limit - len(note.encode()))
    head = data[: room // 2].decode("utf-8", "ignore")
    tail = data[len(data) - (room - room // 2) :].decode("utf-8", "ignore")
    return head + note + tail, True


_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>]|[()][0-9A-B])")
_OVERWRITTEN = re.compile(r"[^\n\r]*\r+(?=[^\n\r])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def readable(data: bytes) -> str:
    """Return output as text that is worth a model's while: no colours, no line that was written over."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _CODES.sub("", text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    return text if text.isprintable() else _CONTROL.sub("\ufffd", text)


def is_binary(data: bytes) -> bool:
    """Say whether bytes are no text: there are NULs, or many that are no UTF-8."""
    part = data[:8192]
    if not part:
        return False
    odd = part.decode("utf-8", "replace").count("\ufffd")
    return part.count(0) > len(part) // 100 or odd > len(part) // 5


def binary_note(data: bytes, size: int, what: str) -> str:
    """Return what a model is told in place of bytes that are no text."""
    shown = data[:HEX_SHOWN]
    lines = [shown[at : at + 32].hex(" ", 4) for at in range(0, len(shown), 32)]
    return f"[{what} is binary: {size} bytes, of which these are the first {len(shown)}]\n" + "\n".join(lines)


def fenced(text: str, source: str) -> str:
    """Return text between marks that it cannot close, so that it stands for data whatever it says."""
    mark = secrets.token_hex(4)
    return f"<data-{mark} from={source!r}>\n{text}{'' if text.endswith(chr(10)) else chr(10)}</data-{mark}>"


def shown(text: str) -> str:
    """Return a path or a command as a header has it: on one line, and not too long."""
    line = readable(plain(text).encode("utf-8", "replace")).replace("\n", "\\n")
    return line if len(line) <= SHOWN else line[: SHOWN - 3] + "..."
