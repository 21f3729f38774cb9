"""Code that fills the memory or a disk: a huge value, or a loop without an end in which something grows."""

from __future__ import annotations

import ast
from typing import Any

from hermes._lazy import Lazy

from . import _marks as marks

HUGE = 10**9
_NUMBER = r"(?:10\s*(?:\*\*|\^)\s*(?:9|[1-9]\d)\b|\d+(?:\.\d+)?[eE]\+?(?:9|[1-9]\d)\b|\d[\d_]{9,}\b)"
_HUGE = Lazy(
    r"[\"'\]]\s*\*\s*\(?\s*" + _NUMBER + r"|[\"'\])]\s*x\s*\(?\s*" + _NUMBER + r"|"
    r"\b(?:rep|repeat|str_repeat|alloc\w*|Array|zeros|ones|rnorm|numeric|makeString|padStart|padEnd|make-\w+|Uint8Array|malloc)"
    r"\s*[\s(]\s*(?:[^(),]{0,40},\s*)?" + _NUMBER
)
_ENDLESS = Lazy(
    r"\bwhile\s*\(?\s*(?:1|true|!0|not\s+false)\s*(?:\)|do\b|\{|;|$|\s*[\w@$\[])|\bfor\s*\(\s*;\s*;\s*\)|"
    r"\bloop\s*(?:\{|do\b|\(|\s*\(?push)|\buntil\s*\(?\s*(?:0|false)\b|\brepeat\s+\{?\s*\w+\s*(?:<-|=)|\bwhile\s+1\s*\{|"
    r"\b1\s+while\s+push\b|\bwhile\s+(?:1|true)\s*;?\s*$|\bsetInterval\s*\(|\(loop\s*\(",
    2,
)
_GROWS = Lazy(
    r"\bpush\b|push!|\bappend\w*\b|<<|\bconcat\b|\.=|\+=|\[\w*\+\+\]|\[\]\s*=|\[#\w+\s*\+\s*1\]|\bc\(\s*\w+|\balloc\w*\b|"
    r"\b(\w+)\s*(?:=|<-)\s*\(*\s*\1\b\s*(?:\.\.|[.+&]|\1|\s)|\bprint\w*\b[^;}\n]{0,80}>|\bwrite\w*\b"
)
_ENDS = Lazy(
    r"\b(?:break|last|return|exit|die|raise|throw|sleep\w*|await|reads?|readline|getline|gets|accept|recv\w*|error|leave|"
    r"halt|stop|quit|wait|yield|abort|clearInterval)\b"
)


def grows(code: str) -> bool:
    """Say whether code of a language that is not parsed asks for more than there is."""
    if _HUGE.search(code):
        return True
    return _ENDLESS.search(code) is not None and _GROWS.search(code) is not None and not _ENDS.search(code)


_LOOPS = Lazy(r"\bsetInterval\s*\([^\n]{0,2000}")  # a timer waits
_SPAWNS = Lazy(
    r"\b(?:spawn\w*|[Pp]open\w*|fork\w*|execFile|proc_open|Process\.(?:start|spawn)|"
    r"start_?(?:Process|process)|Thread\.new|Task\.async)\b|\b(?:system|exec|shell_exec|os\.execute)\b[^\n;]{0,200}&\s*[\"'`)]"
)


def spawns(code: str) -> bool:
    """Say whether a loop without an end starts processes, and waits for none."""
    code = _LOOPS.sub("", code)
    return _ENDLESS.search(code) is not None and _SPAWNS.search(code) is not None and not _ENDS.search(code)


_GROWING = marks.names(
    "append extend add insert write writelines put update start push appendleft writestr Popen"
)
_STOPPING = marks.names("sleep input exit _exit accept recv readline read get join wait quit select")


def endless(node: ast.While) -> bool:
    """Say whether something grows in a loop of Python that has no end."""
    if not (isinstance(node.test, ast.Constant) and node.test.value):
        return False
    found = False
    for one in ast.walk(node):
        if isinstance(one, ast.Break | ast.Return | ast.Raise | ast.Yield | ast.Await):
            return False
        if isinstance(one, ast.Call):
            name = one.func.attr if isinstance(one.func, ast.Attribute) else getattr(one.func, "id", "")
            if name in _STOPPING:
                return False
            found = found or name in _GROWING
        elif isinstance(one, ast.AugAssign):
            found = (
                found or not isinstance(one.value, ast.Constant) or isinstance(one.value.value, str | bytes)
            )
    return found


def huge(node: ast.BinOp) -> bool:
    """Say whether a text or a list of Python is repeated too often."""
    if not isinstance(node.op, ast.Mult):
        return False
    for one, other in ((node.left, node.right), (node.right, node.left)):
        text = isinstance(one, ast.List | ast.Tuple) or (
            isinstance(one, ast.Constant) and isinstance(one.value, str | bytes)
        )
        if text and number(other) >= HUGE:
            return True
    return False


def number(node: Any, depth: int = 0) -> int:
    """Return the number that an expression of literals stands for; 0 for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return int(min(node.value, 10**30)) if node.value == node.value else 0
    if isinstance(node, ast.BinOp) and depth < 4:
        left, right = number(node.left, depth + 1), number(node.right, depth + 1)
        if isinstance(node.op, ast.Pow):
            return int(left ** min(right, 30)) if 0 < left <= 1000 and right > 0 else 0
        if isinstance(node.op, ast.Mult):
            return min(left * right, 10**60)
        if isinstance(node.op, ast.LShift):
            return left << min(right, 100) if left > 0 and right > 0 else 0
    return 0


def forks(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "fork"
        for one in ast.walk(node)
    )
