"""Ways in which Perl, Ruby, PHP, Lua and JavaScript write a text or a function other than plainly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes._lazy import Lazy

from ._marks import UNKNOWN

_STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_LONGEST = 4000
_MOST = 50
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_PERL = Lazy(r"(?<![\w$@%&>}:])(qx|qq|qw|q)(?:([^\w\s,;)=])|\s+([^\w\s,;)=#])|\s*(=)(?!>))")
_RUBY = Lazy(r"(?<![^\s(=\[{,;|!&>])%([xqQ]?)([^\w\s=]())()")
_ALIKE = frozenset(("Ruby", "Crystal"))


def rewritten(code: str, language: str) -> tuple[str, list[str]]:
    """Return code in which quoted texts stand in plain quotes, and the commands that it runs in others."""
    if language == "Perl":
        pattern = _PERL
        if "q" not in code:
            return code, []
    elif language in _ALIKE:
        pattern = _RUBY
        if "%" not in code:
            return code, []
    else:
        return code, []
    out: list[str] = []
    commands: list[str] = []
    at = 0
    for kind, start, stop, text in _quoted(code, pattern):
        if kind in ("qx", "x"):
            commands.append(text)
            new = '""'
        elif kind == "qw":
            new = "(" + ", ".join(f'"{word}"' for word in text.split()) + ")"
        else:
            new = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        out += [code[at:start], " ", new]
        at = stop
    return "".join([*out, code[at:]]), commands


def _quoted(code: str, pattern: Lazy[str]) -> Iterator[tuple[str, int, int, str]]:
    unclosed = at = 0
    while unclosed < _MOST and (match := pattern.search(code, at)) is not None:
        sign = match.group(2) or match.group(3) or match.group(4)
        stop = _closed(code, match.end(), sign)
        if stop < 0:
            unclosed += 1
            at = match.end()
            if unclosed == _MOST or at + _LONGEST < len(code):
                yield "qx", at, at, UNKNOWN  # it was given up, and any may follow
            continue
        yield match.group(1), match.start(), stop + 1, code[match.end() : stop]
        at = stop + 1


def _closed(code: str, at: int, sign: str) -> int:
    """Return where a text ends that began with this sign; -1 where it does not."""
    closing = _CLOSING.get(sign, sign)
    level = 1
    for index in range(at, min(len(code), at + _LONGEST)):
        one = code[index]
        if index > at and code[index - 1] == "\\":
            continue
        if one == closing:
            level -= 1
            if level == 0:
                return index
        elif one == sign:
            level += 1
    return -1


# What a text that is run as a command begins with where the command is a value of the code.
VALUE = Lazy(r"\s*(?:[$@]\w|[$@]\{|#\{|#[$@]|\$[_&0-9])")
_EVALUATED = Lazy(r"[}\])>/|!,#~'\"][a-z]*e[a-z]*e")
_TWICE = Lazy(
    r"\bs([^\w\s{(\[<])(?:\\.|(?!\1)[^\\\n]){0,200}\1(?:\\.|(?!\1)[^\\\n]){0,200}\1[a-z]*e[a-z]*e[a-z]*\b|"
    r"\bs\s?[{(\[<][^\n]{0,200}[})\]>]\s?[a-z]*e[a-z]*e[a-z]*\s*(?=[;})]|$)"
)
_ASSIGNED = Lazy(r"\$(\w+)\s*=\s*[\"']")
_CALLED = Lazy(r"&\{?\s*\$(\w+)|\$(\w+)\s*->\s*\(")
_BY_TEXT = Lazy(
    r"\\&\s*CORE::|\beval\s*\(?\s*<|&\s*\{\s*[\"'\\(]|&\$\{|->can\s*\([^)\n]{0,80}\)\s*->|\*\{\s*[\"']|\bno\s+strict\b[^\n]{0,200}&\$"
)
_EVAL = Lazy(
    r"\b(?:eval|instance_eval|class_eval|load|loadstring|setTimeout|setInterval)\s*\(?\s*(" + _STRING + ")"
)
_SENT = Lazy(
    r"\b(?:send|__send__|public_send|method|instance_method)\s*\(?\s*"
    r"(?:" + _STRING + r"\s*(?:\+|<<|\.)|:?\"[^\"\n]*#\{|\[|[A-Za-z_]\w*\s*\+)|"
    r"\b(?:__send__|public_send|Kernel\.(?:send|method))\s*\(?\s*[a-z_]\w*\s*[,)]|"
    r"\b(?:const_get|instance_variable_get)\s*\(?\s*" + _STRING + r"\s*\+"
)
_LUA = Lazy(
    r"\b(?:_G|_ENV|os|io|package\.loaded)\s*(?:\.\s*\w+\s*)?\[\s*(?![\"']\w+[\"']\s*\])|"
    r"\bload(?:string)?\s*\(\s*(?![\"'\[\s])|\bgetfenv\b|\b(?:os\.execute|io\.popen)\s*(?=[,;)}\w\n]|$)"
)
_LUA_KEY = Lazy(r"\[\s*[\"']([A-Za-z_]\w*)[\"']\s*\]")
_SCRIPT = Lazy(
    r"\bconstructor\s*\.\s*constructor\b|\bconstructor\s*\[|\[\s*[\"'`]constructor[\"'`]\s*\]|"
    r"(?<![\w.])Function\s*\(|\bset(?:Timeout|Interval)\s*\(\s*[\"'`]|"
    r"\b(?:globalThis|global|process|window|self)\s*\[\s*(?![\"'`]\w+[\"'`]\s*\])|"
    r"\brequire\s*\([^)\n]{0,100}(?:fromCharCode|\.reverse\(|\batob\b|\.join\(\s*[\"'`]{2})|\bReflect\.(?:get|apply)\s*\("
)
_REQUIRED = Lazy(r"(?<![\w.$])require\s*\(\s*([A-Za-z_$][\w$]*)\s*\)\s*[.\[]")
_PHP = Lazy(r"\(\s*" + _STRING + r"\s*(?:\.\s*" + _STRING + r"\s*)*\)\s*\(|\$\{\s*[\"']|\$\$\w+\s*\(")


def computed(code: str, language: str) -> bool:
    """Say whether code calls a function of which it computes the name, or runs a text that it makes."""
    if language == "Perl":
        if _EVALUATED.search(code) and _TWICE.search(code):
            return True
        called = {one or other for one, other in _CALLED.findall(code)}
        return bool(called and called.intersection(_ASSIGNED.findall(code))) or bool(_BY_TEXT.search(code))
    if language in _ALIKE:
        return _SENT.search(code) is not None
    if language == "Lua":
        return _LUA.search(code) is not None
    if language == "PHP":
        return _PHP.search(code) is not None
    if language in ("Node", "Bun", "Deno"):
        if _SCRIPT.search(code):
            return True
        literal = set(re.findall(r"\b(?:const|let|var)\s+([\w$]+)\s*=\s*[\"'`]", code))
        return any(one not in literal for one in _REQUIRED.findall(code))
    return False


def evaluated(code: str) -> Iterator[tuple[str, int]]:
    """Return the literal texts that are run as code, and where each ends."""
    for match in _EVAL.finditer(code):
        yield match.group(1)[1:-1], match.end()


def keyed(code: str) -> str:
    """Return code of Lua in which a field that is named by a text is named plainly."""
    return _LUA_KEY.sub(r".\1", code)
