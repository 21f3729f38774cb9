"""Files that lay there before the session, and were changed in it: of these only what was put in is known.

In the text of such a file ``BEFORE`` alone on a line stands for what was there, and what follows was
appended; twice it stands for a file whose text was changed, and what follows are the pieces that were put
in. When the file is run, these are judged: what was appended as any text, a piece as far as it says
something, for it is no whole command.
"""

from __future__ import annotations

import re
from functools import partial

from hermes._lazy import Lazy

from . import _marks as marks
from ._call import Call
from ._marks import BEFORE, UNKNOWN
from ._run import Interpreter

MAX_LINES = 200
_CUT = Lazy(f"({BEFORE}+)\n?")
_SUBSTITUTED = Lazy(
    r"\bs([^\w\s\\;&{(<[])((?:\\.|(?!\1)[^\\])*)\1((?:\\.|(?!\1)[^\\])*)\1([gIim0-9]*)", re.DOTALL
)
_ADDED = Lazy(r"(?:^|[;{}\n\s]|\d|\$|/)[aic](?:\s*\\\s*\n?\s*|\s+)(\S[^\n]*)")
_LANGUAGES = {
    ".js": "Node",
    ".mjs": "Node",
    ".cjs": "Node",
    ".ts": "Node",
    ".rb": "Ruby",
    ".pl": "Perl",
    ".php": "PHP",
    ".lua": "Lua",
}
_ESCAPED = Lazy(r"\\(.)|&", re.DOTALL)
_VALUE = Lazy(r"\"[\w:.-]+\"\s*:\s*\"((?:[^\"\\]|\\.)*)\"")
# Of which of sed's patterns it is known here what they match.
_PLAIN = Lazy(r"(?:[\w\s\"',:=@%#<>!~-]|\\[./])*")


def changed(pieces: list[str]) -> str:
    """Return the text of a file into which these were put."""
    return f"{BEFORE}{BEFORE}\n" + "".join(one + "\n" for one in pieces if one.strip())


def pieces(code: str) -> list[str]:
    """Return what code of sed, or of Perl, puts into a file."""
    found = [_unescaped(match.group(3)) for match in _SUBSTITUTED.finditer(code)]
    return found + [one.strip() for one in _ADDED.findall(_SUBSTITUTED.sub("s", code))]


def _unescaped(text: str) -> str:
    """Return what a replacement puts in: what it takes over from the text is not known."""
    return _ESCAPED.sub(lambda match: _meant(match.group(1)), text)


def _meant(sign: str | None) -> str:
    if sign is None or sign.isdigit():
        return UNKNOWN
    return {"n": "\n", "t": "\t"}.get(sign, sign)


def substituted(code: str, text: str) -> str | None:
    """Return what plain substitutions make of a text that is known; None where that is not known."""
    if marks.marked(text):
        return None
    for one in filter(None, map(str.strip, code.split("\n"))):
        match = _SUBSTITUTED.fullmatch(one)
        if match is None or not _PLAIN.fullmatch(match.group(2)) or match.group(4) not in ("", "g"):
            return None
        old, new = re.sub(r"\\(.)", r"\1", match.group(2)), _unescaped(match.group(3))
        if not old or UNKNOWN in new:
            return None
        many = -1 if match.group(4) else 1
        text = "\n".join(line.replace(old, new, many) for line in text.split("\n"))
    return text


def later(run: Interpreter, path: str, text: str) -> str | None:
    """Judge what was put into a file that is about to be run; return what was appended, None for nothing."""
    cut = _CUT.split(text)
    kept = cut[0]
    for mark, chunk in zip(cut[1::2], cut[2::2], strict=True):
        if len(mark) == 1:
            kept += chunk
            continue
        held, run.lenient = run.lenient, True
        try:
            lines = list(run.first(chunk.strip("\n").split("\n"), MAX_LINES))
            # What was put in may be several lines, or several pieces.
            for piece in ["\n".join(lines), *(lines if len(lines) > 1 else ())]:
                _judge(run, path, piece.strip())
        finally:
            run.lenient = held
    return kept if kept.strip() else None


def _judge(run: Interpreter, path: str, piece: str) -> None:
    if not piece:
        return
    name = path.rpartition("/")[2]
    ending = name[name.rfind(".") :] if "." in name else ""
    call = Call([], run.state.cwd, run.span, captured=True)
    if ending == ".py":
        from ._python import python

        python(run, call, piece)
    elif ending in _LANGUAGES:
        from ._inline import text

        text(run, call, piece, _LANGUAGES[ending])
    else:
        if ending == ".mk" or name.lower() in ("makefile", "gnumakefile"):
            piece = piece.replace("$$", "$")
        for one in [piece.lstrip("@-"), *_VALUE.findall(piece)]:
            run.subshell(partial(run.quietly, one), captured=True)
