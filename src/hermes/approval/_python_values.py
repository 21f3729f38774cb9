"""What the names and expressions of Python code stand for, as far as that is known."""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import Any

from . import _marks as marks
from . import _python_tables as py
from ._call import Call
from ._decode import decoded
from ._marks import DECODED, ENVIRON, REMOTE, SECRET, UNKNOWN
from ._python_files import Files, known
from ._run import Interpreter


class Values:
    """The names of one module, and what they hold."""

    def __init__(self, run: Interpreter, call: Call) -> None:
        self.run = run
        self.call = call
        self.names: dict[str, str] = {}  # what an imported name stands for
        self.values: dict[str, Any] = {}
        self.printed: list[str] = []
        self.sends = False
        self.reads_secret = False
        self.lists_secrets = self.reads_files = False
        self.files = Files(self)
        self.bare: set[int] = set()  # calls whose value is dropped or closed at once

    def dotted(self, node: ast.AST) -> str:
        """Return the full name that an expression stands for; empty for none."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            head = self.dotted(node.value)
            if head in py.BUILTINS and node.attr != "__dict__":
                return node.attr
            return f"{head}.{node.attr}" if head else ""
        if isinstance(node, ast.Call):
            name = self.dotted(node.func)
            if name in ("__import__", "importlib.import_module") and node.args:
                value = self.value(node.args[0])
                return value if isinstance(value, str) else "?"
            if name in ("globals", "locals", "vars") and not node.args:
                return "__builtins__.__dict__"
            if name == "vars" and node.args:
                return self.dotted(node.args[0]) + ".__dict__"
            if name.endswith((".__getattribute__", ".__getattr__", ".__dict__.get")) and node.args:
                value = self.value(node.args[0])
                head = name.rpartition(".")[0].removesuffix(".__dict__")
                return f"{head}.{value}" if isinstance(value, str) else "?"
            if name == "getattr" and len(node.args) >= 2:
                value = self.value(node.args[1])
                head = self.dotted(node.args[0])
                if head in py.BUILTINS and isinstance(value, str):
                    return value
                return f"{head}.{value}" if head and isinstance(value, str) else "?"
        if isinstance(node, ast.Subscript):
            head = self.dotted(node.value)
            key = self.value(node.slice)
            if head in ("sys.modules", "__builtins__.__dict__", "__builtins__") and isinstance(key, str):
                return self.names.get(key, key)
            if head == "plumbum.local":
                return f"plumbum.cmd.{key}" if isinstance(key, str) else "?"
            if head.endswith("__dict__"):
                if not isinstance(key, str):
                    return "?"
                head = head.removesuffix(".__dict__")
                return key if head in py.BUILTINS else f"{head}.{key}"
        return ""

    def value(self, node: ast.AST | None, depth: int = 0) -> Any:
        """Return the value of an expression: a text, a number, a list, or None for what is not known."""
        found = self._value(node, depth)
        if isinstance(found, str | list) and len(found) > py.LONGEST and not isinstance(node, ast.Constant):
            return marks.kinds(found) if isinstance(found, str) else None
        return found

    def _value(self, node: ast.AST | None, depth: int) -> Any:
        if depth > 30 or node is None:
            return None
        if isinstance(node, ast.Constant):
            return (
                node.value
                if isinstance(node.value, str | int | float)
                else node.value.decode("latin-1")
                if isinstance(node.value, bytes)
                else None
            )
        if isinstance(node, ast.Name):
            return self.values.get(node.id)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(one, depth + 1) for one in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand, depth + 1)
            return -inner if isinstance(inner, int | float) else None
        if isinstance(node, ast.JoinedStr):
            pieces = [
                self.value(one.value if isinstance(one, ast.FormattedValue) else one, depth + 1)
                for one in node.values
            ]
            return "".join(UNKNOWN if one is None else str(one) for one in pieces)
        if isinstance(node, ast.BinOp):
            return self.binary(node, depth)
        if isinstance(node, ast.Subscript):
            head = self.dotted(node.value)
            key = self.value(node.slice, depth + 1)
            if head == "os.environ" and isinstance(key, str):
                return self.environ(key)
            inner = self.value(node.value, depth + 1)
            if isinstance(node.slice, ast.Slice) and isinstance(inner, str):
                step = self.value(node.slice.step, depth + 1)
                return inner[::-1] if step == -1 else None
            if isinstance(inner, list | str) and isinstance(key, int) and -len(inner) <= key < len(inner):
                return inner[key]
            return None
        if isinstance(node, ast.Call):
            return self.result(node, depth)
        return None

    def sum(self, left: Any, right: Any, operator: ast.operator) -> Any:
        if not isinstance(operator, ast.Add):
            return None
        if isinstance(left, list) and isinstance(right, list):
            return left + right
        if not isinstance(left, str) and not isinstance(right, str):
            return None
        return (left if isinstance(left, str) else UNKNOWN) + (right if isinstance(right, str) else UNKNOWN)

    def binary(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        if isinstance(node.op, ast.Add):
            return self.sum(left, right, node.op)
        if isinstance(node.op, ast.Div) and isinstance(left, str):
            return f"{left.rstrip('/')}/{right if isinstance(right, str) else UNKNOWN}"
        if (
            isinstance(node.op, ast.Mult)
            and isinstance(left, str)
            and isinstance(right, int)
            and 0 <= right < 200
        ):
            return marks.cut(left * right, 10_000)
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            values = right if isinstance(right, list) else [right]
            for one in values:
                left = re.sub(r"%[sdr]", partial(_shown, one), left, count=1)
            return left
        return None

    def environ(self, name: str) -> str:
        from ._expand import secret_name

        if secret_name(name):
            self.reads_secret = True
            return UNKNOWN + SECRET
        value = self.run.expand.get(name)
        return value if isinstance(value, str) else UNKNOWN

    def result(self, node: ast.Call, depth: int) -> Any:
        name = self.dotted(node.func)
        args = [self.value(one, depth + 1) for one in node.args]
        if name in (
            "str",
            "Path",
            "pathlib.Path",
            "PurePath",
            "pathlib.PurePath",
            "os.fspath",
            "os.path.abspath",
            "os.path.realpath",
            "os.path.expandvars",
            "shlex.quote",
            "os.path.normpath",
        ):
            return args[0] if args else "."
        if name == "os.path.expanduser" and args and isinstance(args[0], str):
            return args[0]
        if name in ("Path.home", "pathlib.Path.home"):
            return "~"
        if name in ("os.getcwd", "Path.cwd", "pathlib.Path.cwd"):
            return self.call.cwd
        if name == "os.path.join" and args:
            return "/".join(UNKNOWN if not isinstance(one, str) else one for one in args)
        if name in ("os.getenv", "os.environ.get") and args and isinstance(args[0], str):
            return self.environ(args[0])
        if name == "chr" and args and isinstance(args[0], int) and 0 <= args[0] < 0x110000:
            return chr(args[0])
        if name.startswith("base64.b") or name.endswith(
            (".b64decode", "codecs.decode", "bytes.fromhex", "zlib.decompress", "binascii.unhexlify")
        ):
            way, given = py.DECODES.get(name.rpartition(".")[2], ""), args[0] if args else None
            text = decoded(given, way) if way and isinstance(given, str) else None
            return text or UNKNOWN + DECODED
        if name.startswith(py.FETCHES):
            return UNKNOWN + REMOTE
        if isinstance(node.func, ast.Attribute):
            head = self.value(node.func.value, depth + 1)
            attribute = node.func.attr
            if attribute in (
                "expanduser",
                "resolve",
                "absolute",
                "strip",
                "decode",
                "encode",
                "rstrip",
                "lstrip",
                "as_posix",
                "text",
                "json",
                "read",
                "get",
            ) and isinstance(head, str):
                return head
            if attribute == "read_text" and (text := known(self, head)) is not None:
                return text
            if attribute == "joinpath" and isinstance(head, str):
                return "/".join([head, *(UNKNOWN if not isinstance(one, str) else one for one in args)])
            if attribute == "join" and isinstance(head, str) and args and isinstance(args[0], list):
                return head.join(UNKNOWN if not isinstance(one, str) else one for one in args[0])
            if attribute == "split" and isinstance(head, str):
                return head.split(args[0]) if args and isinstance(args[0], str) and args[0] else head.split()
            if (
                attribute == "replace"
                and isinstance(head, str)
                and len(args) >= 2
                and isinstance(args[0], str)
                and isinstance(args[1], str)
            ):
                return marks.cut(head.replace(args[0], args[1]), 10_000)
            if attribute == "format" and isinstance(head, str):
                for one in args:
                    head = re.sub(r"\{\w*\}", partial(_shown, one), head, count=1)
                return head
            if attribute in ("lower", "upper") and isinstance(head, str):
                return head.lower() if attribute == "lower" else head.upper()
        if name == "open":
            path = args[0] if args else None
            if isinstance(path, str) and self.run.sink.secret(self.run.path(path, self.call.cwd)):
                return UNKNOWN + SECRET
            return known(self, path)
        if name in ("dict", "os.environ.copy"):
            return UNKNOWN + ENVIRON
        return None

    def path(self, value: Any) -> str:
        return self.run.path(value if isinstance(value, str) and value else UNKNOWN, self.call.cwd)


def _shown(value: Any, match: re.Match[str]) -> str:
    return UNKNOWN if value is None else str(value)


__all__ = ["Values"]
