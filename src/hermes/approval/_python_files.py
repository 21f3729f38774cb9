"""What Python code writes to files: the whole text where that is known, else the pieces that it puts in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from . import _marks as marks
from ._before import changed
from ._marks import DECODED, REMOTE, SECRET, UNKNOWN

if TYPE_CHECKING:
    from ._python_values import Values

_KEEPS = marks.names(
    "strip rstrip lstrip splitlines split expandtabs encode copy lower upper title removesuffix removeprefix"
)
_LOADS = marks.names(
    "json.load json.loads tomllib.load tomllib.loads yaml.safe_load yaml.load toml.load str list"
)
_DUMPS = marks.names("json.dumps yaml.dump yaml.safe_dump toml.dumps textwrap.dedent textwrap.indent")
_OPENS = marks.names("open io.open codecs.open")
_READS = frozenset(("read", "readlines", "read_text"))
MAX_DEPTH = 40
MAX_STEPS = 3000


class Files:
    """The files that one piece of code has open, and what it writes to them."""

    def __init__(self, reader: Values) -> None:
        self.reader = reader
        self.names: dict[str, tuple[str, str]] = {}  # what is written to: its path and how it was opened
        self.read: set[str] = set()
        self.given: dict[str, list[ast.expr]] = {}  # what a name stands for, or has in it
        self.texts: dict[str, list[str]] = {}
        self.kept: dict[str, tuple[str, str | None]] = {}
        self.steps = 0
        self.open: set[str] = set()  # names whose pieces are looked for

    def prepare(self, nodes: list[ast.AST]) -> None:
        """Note what names stand for, and what is written."""
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bound(target, node.value)
            elif isinstance(node, ast.AugAssign):
                self._bound(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                self._bound(node.target, node.iter)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self._bound(node.optional_vars, node.context_expr)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("append", "extend", "insert", "update")
                and node.args
            ):
                self._bound(node.func.value, node.args[-1])
        for node in nodes:
            if isinstance(node, ast.Call):
                opened = self._opened(node)
                if opened is not None and opened[1] != "r":
                    self._opening(*opened)
                self._called(node, self.reader.dotted(node.func))
        self._finish()

    def _bound(self, target: ast.expr, value: ast.expr) -> None:
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        if not isinstance(target, ast.Name):
            return
        opened = self._opened(value)
        if opened is None:
            self.given.setdefault(target.id, []).append(value)
        elif opened[1] == "r":
            self.read.add(target.id)
            self.reader.values[target.id] = self.reader.value(value)
        else:
            self.names[target.id] = opened

    def _opened(self, node: ast.expr) -> tuple[str, str] | None:
        """Return the path and the mode of a call that opens a file."""
        if not isinstance(node, ast.Call):
            return None
        reader = self.reader
        if reader.dotted(node.func) in _OPENS:
            path, rest = reader.value(node.args[0]) if node.args else None, node.args[1:]
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "open":
            path, rest = reader.value(node.func.value), node.args
        else:
            return None
        mode = next((one.value for one in node.keywords if one.arg == "mode"), rest[0] if rest else None)
        how = reader.value(mode) if mode is not None else "r"
        if not isinstance(path, str) or not isinstance(how, str):
            return None
        return reader.path(path), "a" if "a" in how else "w" if set("wx+") & set(how) else "r"

    def _opening(self, path: str, mode: str) -> None:
        """Remember what was in a file that is about to be written to."""
        self.kept.setdefault(path, ("a" if "a" in mode else "w", self.reader.run.state.files.get(path)))

    def _called(self, node: ast.Call, name: str) -> None:
        """Follow a call that writes."""
        func = node.func
        if name in ("print", "json.dump", "yaml.dump", "yaml.safe_dump"):
            keyword = next((one.value for one in node.keywords if one.arg == "file"), None)
            file = keyword if name == "print" else node.args[1] if len(node.args) > 1 else None
            path = self._path(file)
            if path:
                parts = node.args if name == "print" else node.args[:1]
                text = [self.content(one) for one in parts]
                self._put(path, "".join(text) + "\n")
        elif isinstance(func, ast.Attribute) and node.args and func.attr in ("write", "writelines"):
            path = self._path(func.value)
            if path:
                self._put(path, self.content(node.args[0]))
        elif isinstance(func, ast.Attribute) and node.args and func.attr in ("write_text", "write_bytes"):
            where = self.reader.value(func.value)
            if isinstance(where, str):
                path = self.reader.path(where)
                self._opening(path, "w")
                self._put(path, self.content(node.args[0]))

    def _path(self, file: ast.expr | None) -> str:
        if isinstance(file, ast.Name):
            return self.names.get(file.id, ("", ""))[0]
        opened = self._opened(file) if file is not None else None
        return opened[0] if opened is not None and opened[1] != "r" else ""

    def _put(self, path: str, text: str) -> None:
        self.texts.setdefault(path, []).append(text)

    def _finish(self) -> None:
        """Remember what is in the files now."""
        state = self.reader.run.state
        for path, texts in self.texts.items():
            if path not in self.kept:
                continue
            mode, before = self.kept[path]
            if mode == "a":
                if before is None:
                    state.files.pop(path, None)
                else:
                    state.write(path, before)
            state.write(path, "".join(texts), append=mode == "a")

    # What a text is made of

    def content(self, node: ast.expr) -> str:
        """Return a text that is written, as far as it is known."""
        value = self.reader.value(node)
        if isinstance(value, str) and (
            not marks.unknown(value) or any(mark in value for mark in (DECODED, REMOTE, SECRET))
        ):
            return value
        found = self.pieces(node)
        if found is not None:
            return changed(found)
        return value if isinstance(value, str) else UNKNOWN

    def pieces(self, node: ast.expr, depth: int = 0) -> list[str] | None:
        """Return what is put into a text that is read from a file; None where that is not known."""
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS:
            return None
        if isinstance(node, ast.Constant):
            return [str(node.value)]
        if isinstance(node, ast.Name):
            if node.id in self.read:
                return []
            if node.id in self.open:
                return []
            found = self.given.get(node.id)
            if not found:
                return None
            self.open.add(node.id)
            try:
                return self._every(found, depth)
            finally:
                self.open.discard(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined([node.left, node.right], depth)
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
            return self._joined(parts, depth)
        if isinstance(node, ast.Subscript):
            return self.pieces(node.value, depth + 1)
        if isinstance(node, ast.List | ast.Tuple):
            return self._every(node.elts, depth)
        if isinstance(node, ast.Dict):
            return self._every(node.values, depth)
        if isinstance(node, ast.IfExp):
            return self._every([node.body, node.orelse], depth)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.pieces(node.elt, depth + 1)
        return self._made(node, depth) if isinstance(node, ast.Call) else None

    def _made(self, node: ast.Call, depth: int) -> list[str] | None:
        name = self.reader.dotted(node.func)
        if name in ("re.sub", "re.subn") and len(node.args) > 2:
            return self._every(node.args[1:3], depth)
        if (name in _LOADS or name in _DUMPS) and node.args:
            return self.pieces(node.args[0], depth + 1)
        if name in _OPENS:
            return self._from(node)
        if not isinstance(node.func, ast.Attribute):
            return None
        head, method = node.func.value, node.func.attr
        if method in _READS:
            if method == "read_text":
                path = self.reader.value(head)
                return self._unread(self.reader.path(path)) if isinstance(path, str) else None
            if isinstance(head, ast.Name):
                return [] if head.id in self.read and self.reader.values.get(head.id) is None else None
            return self._from(head)
        if method in _KEEPS:
            return self.pieces(head, depth + 1)
        if method == "replace" and len(node.args) > 1:
            return self._every([head, node.args[1]], depth)
        if method == "join" and node.args:
            return self._every([head, node.args[0]], depth)
        return None

    def _from(self, node: ast.expr) -> list[str] | None:
        opened = self._opened(node)
        return self._unread(opened[0]) if opened is not None else None

    def _unread(self, path: str) -> list[str] | None:
        """Return no pieces for a file that lay there before, None for one that the session knows of."""
        held = self.reader.run.reading(path)
        return [] if held == UNKNOWN else None

    def _every(self, nodes: list[ast.expr], depth: int) -> list[str] | None:
        out: list[str] = []
        for one in nodes:
            found = self.pieces(one, depth + 1)
            if found is None:
                return None
            out += found
        return out

    def _joined(self, nodes: list[ast.expr], depth: int) -> list[str] | None:
        out: list[str] = []
        for one in nodes:
            found = self.pieces(one, depth + 1)
            if found is None:
                return None
            if out and found:
                out[-1] += found.pop(0)
            out += found
        return out


def known(reader: Values, path: Any) -> str | None:
    """Return the text of a file of the session, where all of it is known."""
    if not isinstance(path, str):
        return None
    held = reader.run.reading(reader.path(path))
    return None if marks.marked(held) else held
