"""Programs that write files by their words, which may be run later: what these hold then."""

from __future__ import annotations

import re

from hermes._lazy import Lazy

from . import _marks as marks
from ._call import Call
from ._marks import UNKNOWN
from ._options import apart
from ._run import Interpreter

STDIN = frozenset(("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_TEXT = r"\"((?:[^\"\\\n]|\\.)*)\""
_AWK = Lazy(
    r"\bprintf?\b((?:[^;}\n|()\">]|\"(?:[^\"\\]|\\.)*\"|\((?:[^()\"]|\"(?:[^\"\\]|\\.)*\")*\)){0,300})"
    r">>?\s*(?:" + _TEXT + r"|([A-Za-z_]\w*)|([$(]))(\s*[\"\w$(])?"
)
_LITERALS = Lazy(r"[\s(]*" + _TEXT + r"(?:\s*,?\s*" + _TEXT + r")*[\s)]*")
_PATCHED = Lazy(r"(?m)^\+\+\+ ([^\t\n]+)")
_SPLIT = marks.names(
    "-a -b -C -l -n -t -f -k --suffix-length --bytes --line-bytes --lines --number --additional-suffix "
    "--filter --prefix --suffix-format --digits --separator"
)


def ordered(run: Interpreter, call: Call) -> str:
    """sort and its like: what comes out are the lines that went in."""
    from ._programs import filtered

    found, rest = apart(call.argv[1:], marks.names("-o --output -k -t -S -T -n --key -i -e -r"))
    out = next((value for name, value in found if name in ("-o", "--output") and value), "")
    if not out:
        return filtered(run, call)
    texts = [run.reading(run.path(one, call.cwd)) for one in rest] or [call.stdin or UNKNOWN]
    run.state.write(run.path(out, call.cwd), "".join(texts))
    return ""


def divided(run: Interpreter, call: Call) -> str:
    """split and csplit: each piece is a part of what went in."""
    found, rest = apart(call.argv[1:], _SPLIT)
    source = rest[0] if rest else "-"
    text = call.stdin if source == "-" or source in STDIN else run.reading(run.path(source, call.cwd))
    if call.name == "split":
        prefix = rest[1] if len(rest) > 1 else "x"
    else:
        prefix = next((value for name, value in found if name in ("-f", "--prefix")), "xx")
    run.state.write(run.path(prefix, call.cwd) + "*", text or UNKNOWN)
    return ""


def patch(run: Interpreter, call: Call) -> str:
    """What a patch adds is in the files that it names, or that stand in the line."""
    from ._programs import written_file

    found, rest = apart(
        call.argv[1:], marks.names("-i -o -p -d -F -r -D -B -b -V -Y -z --input --output --strip --directory")
    )
    text, named = call.stdin, rest[:1]
    for name, value in found:
        if name in ("-i", "--input"):
            text = run.reading(run.path(value, call.cwd))
        elif name in ("-o", "--output"):
            named = [value]
    if len(rest) > 1:
        text = run.reading(run.path(rest[1], call.cwd))
    added = "".join(line[1:] + "\n" for line in (text or "").split("\n") if line[:1] == "+")
    if not named:
        named = [re.sub(r"^[ab]/", "", one.strip()) for one in _PATCHED.findall(text or "")]
        added = re.sub(r"(?m)^\+\+ .*\n", "", added)
    for one in named:
        path = run.path(one, call.cwd)
        run.state.write(path, added if marks.plain(added).strip() else UNKNOWN)
    return written_file(run, call)


def awk(run: Interpreter, call: Call, code: str, values: dict[str, str]) -> None:
    """Remember what ``print`` writes to files."""
    for match in run.first(_AWK.finditer(code)):
        said, literal, name, _, more = match.groups()
        if more and literal is not None:
            literal = None
        if name:
            given = re.search(r"\b" + name + r"\s*=\s*" + _TEXT, code)
            literal = given.group(1) if given else values.get(name)
        text = UNKNOWN
        if _LITERALS.fullmatch(said):
            from ._inline import unescape

            text = unescape("".join(re.findall(_TEXT, said))) + "\n"
        if literal is not None:
            run.state.write(run.path(literal, call.cwd), text)
