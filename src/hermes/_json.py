"""A command's result as one JSON object: what ``hermes exec --json`` and ``hermes fleet`` print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import HermesError, exit_code, status

if TYPE_CHECKING:
    from .session import Result, Spill

__all__ = ["error_object", "plain", "result_object", "whole_characters"]


def result_object(
    result: Result, code: int, *, backend: str, sandbox: str | None, session: str | None
) -> dict[str, Any]:
    """Return a result as plain values; *code* is the exit code to tell."""
    found = {
        "status": result.status,
        "exit_code": code,
        "stdout": result.stdout.decode("utf-8", "replace"),
        "stderr": result.stderr.decode("utf-8", "replace"),
        "duration_s": round(result.duration, 6),
        "timed_out": result.timed_out,
        "truncated": result.truncated,
        "cwd": plain(result.cwd),
        "backend": backend,
        "sandbox": sandbox,
        "session": session,
        "spill": None if result.spill is None else _spill(result.spill),
        "error": None,
    }
    if result.out_of_memory:
        found["out_of_memory"] = True
    if result.redacted:
        found["redacted"] = result.redacted
    for key in ("stdout", "stderr"):
        data: bytes = getattr(result, key)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            import base64

            found[f"{key}_b64"] = base64.b64encode(data).decode("ascii")
    return found


def error_object(
    error: HermesError, *, backend: str | None, sandbox: str | None, session: str | None
) -> dict[str, Any]:
    """Return what takes a result's place when there is an error instead."""
    return {
        "status": status(error),
        "exit_code": exit_code(error),
        "stdout": "",
        "stderr": "",
        "duration_s": 0.0,
        "timed_out": False,
        "truncated": False,
        "cwd": None,
        "backend": backend,
        "sandbox": sandbox,
        "session": session,
        "spill": None,
        "error": {
            "code": error.code,
            "message": plain(error.message),
            "hint": plain(error.hint) if error.hint else None,
        },
    }


def plain(text: str) -> str:
    """Return text without declared secrets, and with U+FFFD for what stands for bytes that are not UTF-8."""
    from .credentials._declared import hide

    text = hide(text)
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # halves of characters, as a model writes them now and then
        return whole_characters(text)


def whole_characters(text: str) -> str:
    """Return text whose surrogates are the characters that they make up, or U+FFFD where they are none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _spill(spill: Spill) -> dict[str, Any]:
    """Return a spill file's facts; with a note where not all of the output is in it."""
    return {"path": plain(spill.path), "bytes": spill.bytes, "complete": spill.complete, "note": spill.note}
