"""Reads Python code that is given in a line, with Python's own parser."""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import Any

import msgspec

from . import _growth as growth
from . import _marks as marks
from . import _python_tables as py
from ._call import Call
from ._carriers import _ALL_MARKS, SECRETS
from ._decode import decoded, legible
from ._inline import told
from ._marks import DECODED, ENVIRON, REMOTE, SECRET, UNKNOWN
from ._nodes import python_module
from ._paths import everything
from ._python_files import Files, known
from ._run import Interpreter

MAX_NODES = 7_000  # of one module: 600 lines of code have about that


def python(run: Interpreter, call: Call, code: str) -> str:
    """Follow Python code; return what it prints, as far as is known."""
    if REMOTE in code:
        run.note("remote-code", "Python runs what comes from the network")
        return UNKNOWN
    if DECODED in code:
        run.note("decoded-code", "Python runs what was decoded from an unreadable text")
        code = legible(code)
    if not code.strip(_ALL_MARKS):
        run.note("unknown-code", "Python runs code that is not known")
        return UNKNOWN
    text = marks.plain(code)
    if len(text) > 50_000:
        run.note("code-unreadable", "Python code that is too long to be read")
        return UNKNOWN
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(re.sub(f"[{marks.UNKNOWN}-\U0010ff0f]", "_unknown_", text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        run.note("code-unreadable", "Python code that cannot be read")
        return UNKNOWN
    return Reader(run, call).read(tree)


class Reader:
    """Walks one module."""

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

    def read(self, tree: ast.Module) -> str:
        nodes = list(ast.walk(tree))
        if len(nodes) > MAX_NODES:
            self.run.note("code-unreadable", "Python code that is too long to be read")
            return UNKNOWN
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
                    self.imported(alias.name)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    self.imported(f"{node.module}.{alias.name}")
                    if alias.name == "*":
                        self.names.update(_starred(node.module))
        for node in nodes:
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
            ):
                name = node.targets[0].id
                dotted = self.dotted(node.value)
                if dotted:
                    self.names[name] = dotted
                value = self.value(node.value)
                self.values[name] = None if name in self.values and self.values[name] != value else value
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                total = self.sum(self.values.get(name), self.value(node.value), node.op)
                short = isinstance(total, str | list) and len(total) <= py.LONGEST
                self.values[name] = total if short else None
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if isinstance(node.func.value, ast.Name) and node.func.attr in py.GROWS:
                    self.grown(node.func.value.id, node.func.attr, node.args)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                items, name = self.value(node.iter), node.target.id
                value = items[0] if isinstance(items, list) and len(items) == 1 else None
                self.values[name] = None if name in self.values and self.values[name] != value else value
        self.forgotten(nodes)
        self.files.prepare(nodes)
        self.handed_on(nodes)
        turns = self.turns(nodes)
        looks = {id(one.value) for one in nodes if isinstance(one, ast.Attribute) and one.attr in py.LOOKS}
        for node in nodes:
            if isinstance(node, ast.Name) and self.names.get(node.id) in ("hermes", "hermes_cli"):
                if id(node) not in looks:
                    self.imported("hermes.")
            elif isinstance(node, ast.Call) and self.dotted(node.func) in py.LOADS:
                first = self.value(node.args[0]) if node.args else None
                if isinstance(first, str) and py.AGENT.match(first):
                    self.imported("hermes.")
            if isinstance(node, ast.Call):
                if (
                    isinstance(node.func, ast.Attribute)
                    and node.func.attr == "close"
                    and isinstance(node.func.value, ast.Call)
                ):
                    self.bare.add(id(node.func.value))
                self.in_turn(node, turns)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self.bare.add(id(node.value))
            elif (isinstance(node, ast.ListComp | ast.GeneratorExp | ast.For) and growth.forks(node)) or (
                isinstance(node, ast.While) and growth.forks(node)
            ):
                self.run.note("fork-bomb", "starts itself over and over", "block")
            elif (isinstance(node, ast.While) and growth.endless(node)) or (
                isinstance(node, ast.BinOp) and growth.huge(node)
            ):
                self.run.note("endless-output", "Python code that fills the memory or a disk")
        if self.lists_secrets and self.reads_files:
            self.reads_secret = True
            self.run.note("read-secret", "Python code that reads what lies in a directory of credentials")
        if self.sends and self.reads_secret:
            self.run.note("send-secret", "Python code that sends a credential over the network")
        return "".join(self.printed) or UNKNOWN

    def turns(self, nodes: list[ast.AST]) -> dict[int, tuple[str, list[Any]]]:
        """Return what a name stands for in each turn of a loop, by the calls in it about that name."""
        found: dict[int, tuple[str, list[Any]]] = {}
        total = 0
        for node in nodes:
            loops = [node] if isinstance(node, ast.For) else getattr(node, "generators", ())
            for loop in loops:
                items = self.value(loop.iter)
                if not isinstance(items, list) or not isinstance(loop.target, ast.Name):
                    continue
                name = loop.target.id
                for call in ast.walk(node):
                    if isinstance(call, ast.Call) and _is_about(call, name):
                        found[id(call)] = name, items
                        total += len(items)
        if total > py.TURNS:
            self.run.note("code-runs", "Python code with a loop over more than can be looked at")
            return {}
        return found

    def in_turn(self, node: ast.Call, turns: dict[int, tuple[str, list[Any]]]) -> None:
        """Judge a call, in a loop with each value of its name."""
        if id(node) not in turns:
            self.called(node)
            return
        name, items = turns[id(node)]
        before = self.values.get(name)
        for item in items:
            self.values[name] = item
            self.called(node)
        self.values[name] = before

    def forgotten(self, nodes: list[ast.AST]) -> None:
        """Forget the values of names that are also given others: by a call, a loop, a pattern."""
        followed = {
            id(node.target)
            if isinstance(node, ast.AugAssign | ast.For)
            else id(node.targets[0] if len(node.targets) == 1 else None)
            for node in nodes
            if isinstance(node, ast.Assign | ast.AugAssign | ast.For)
        }
        for node in nodes:
            if isinstance(node, ast.arg):
                self.values[node.arg] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in followed:
                self.values[node.id] = None

    def handed_on(self, nodes: list[ast.AST]) -> None:
        """Ask where a function that acts is not called, nor given a name, but handed on."""
        known: set[int] = set()
        for node in nodes:
            if isinstance(node, ast.Call):
                known.add(id(node.func))
                if self.dotted(node.func) in py.ASKS:
                    known.update(map(id, node.args))
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                if isinstance(node.targets[0], ast.Name):
                    known.add(id(node.value))
            elif isinstance(node, ast.Attribute) and node.attr in py.LOOKS:
                known.add(id(node.value))
        for node in nodes:
            if (
                isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and id(node) not in known
                and self.dotted(node) in py.HANDED
            ):
                self.run.note("code-runs", "Python code that hands on what runs commands or deletes")
                return

    def grown(self, name: str, method: str, args: list[ast.expr]) -> None:
        """Follow a list that is changed in place."""
        held = self.values.get(name)
        if not isinstance(held, list) or method not in ("append", "extend") or not args:
            self.values[name] = None
            return
        value = self.value(args[0])
        more = [value] if method == "append" else value if isinstance(value, list) else [None]
        self.values[name] = [*held, *more] if len(held) + len(more) <= py.LONGEST else None

    def imported(self, name: str) -> None:
        run, module = self.run, name
        while module and run.state.files:
            held, following = python_module(run, self.call, module), (f"import {module}", 0)
            if held is not None and following not in run.active:
                run.active.append(following)
                try:
                    python(run, self.call, held)
                finally:
                    run.active.pop()
            module = module.rpartition(".")[0]
        if py.SECRET_IMPORTS.match(name):
            self.run.note("agent-control", "Python code that reaches into the agent's approval")

    # Names and values

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

    # Calls

    def path(self, value: Any) -> str:
        return self.run.path(value if isinstance(value, str) and value else UNKNOWN, self.call.cwd)

    def writes(self, value: Any, content: str = UNKNOWN) -> None:
        path = self.path(value)
        self.run.sink.redirect(">", path, content, self.call)
        if isinstance(value, str) and path not in self.files.texts:
            self.run.state.write(path, UNKNOWN)

    def runs(self, words: list[Any]) -> None:
        argv = [UNKNOWN if not isinstance(one, str) else one for one in words]
        if argv and argv[0] not in ("sys.executable",):
            self.run.subshell(
                partial(self.run.call, msgspec.structs.replace(self.call, argv=argv, stdin=None)),
                captured=True,
            )

    def shell(self, value: Any) -> None:
        if not isinstance(value, str) or not value.strip(_ALL_MARKS):
            self.run.note("code-runs", "Python code that runs commands which are not known")
            return
        if DECODED in value or REMOTE in value:
            self.run.note("decoded-code" if DECODED in value else "remote-code", "")
            if REMOTE in value:
                return
            value = legible(value)
        told(self.run, self.call, value)

    def takes(self, tree: Any) -> None:
        """Report a directory that is copied with all that is in it."""
        if isinstance(tree, str) and tree:
            argv = ["cp", "-r", tree, UNKNOWN]
            self.run.sink.command(msgspec.structs.replace(self.call, argv=argv, name="cp", stdin=None))

    def called(self, node: ast.Call) -> None:
        name = self.dotted(node.func)
        if isinstance(node.func, ast.Attribute) and self.names.get(node.func.attr) in py.ACTS:
            name = self.names[node.func.attr]  # of a class that was given it
        args = [self.value(one) for one in node.args]
        keywords = {one.arg: one.value for one in node.keywords if one.arg}
        first = (
            args[0]
            if args
            else self.value(keywords.get("args") or keywords.get("path") or keywords.get("file"))
        )
        self.looked(node, name, first)
        if name in py.PRINTS:
            self.printed.append(
                " ".join(UNKNOWN if one is None else str(one) for one in args) + py.PRINTS[name]
            )
            if any(isinstance(one, str) and SECRET in one for one in args):
                self.run.note("show-secret", "prints a credential")
            if any(self.dotted(one) == "os.environ" for one in node.args) and not self.call.captured:
                self.run.note("show-secret", "prints the whole environment")
        elif name in py.SHELL:
            if name == "pty.spawn":
                self.run.note("code-network", "Python code that hands out a shell")
            said = " ".join(map(str, first)) if isinstance(first, list) else first
            if name.startswith("pexpect.") and isinstance(said, str):
                self.run.typed, held = True, self.run.typed
                try:
                    self.shell(said)
                finally:
                    self.run.typed = held
            else:
                self.shell(said)
        elif name in py.RUN or name.startswith(("os.exec", "os.spawn", "os.posix_spawn")):
            self.process(name, node, args, keywords, first)
        elif name in py.TREES:
            self.run.sink.command(_rm(self.call, first, "-rf"))
            self.run.note("code-deletes", "Python code that deletes a directory")
        elif name in py.REMOVES:
            if isinstance(first, str) and first.strip(_ALL_MARKS + "/"):
                self.run.sink.command(_rm(self.call, first, "-f"))
            else:
                self.run.note("code-deletes", "Python code that deletes files which are not known")
        elif name in py.TIMED and isinstance(first, str):
            self.executes("exec", node, first)
        elif name.startswith("operator.") and any(one in py.SHORT for one in args if isinstance(one, str)):
            self.run.note("code-runs", "Python code that calls a function by its name")
        elif name in ("bytearray", "bytes") and node.args and growth.number(node.args[0]) >= growth.HUGE:
            self.run.note("endless-output", "Python code that fills the memory")
        elif name in ("map", "filter") and node.args and self.dotted(node.args[0]) in py.REMOVES | py.TREES:
            self.run.note("code-deletes", "Python code that deletes files which are not known")
        elif name.startswith(("sh.", "plumbum.cmd.")):
            self.runs([name.rpartition(".")[2], *args])
        elif name == "shutil.unpack_archive" or getattr(node.func, "attr", "") == "extractall":
            for one in [*args, *map(self.value, keywords.values())]:
                if isinstance(one, str) and "/" in one:
                    argv = ["tar", "-xf", UNKNOWN, "-C", one]
                    self.run.sink.command(
                        msgspec.structs.replace(self.call, argv=argv, name="tar", stdin=None)
                    )
        elif name == "os.truncate":
            self.run.note("empty-file", "Python code that empties a file")
        elif name in py.MOVES:
            if len(args) > 1 and args[1] == "/dev/null":
                self.run.note("mass-delete", "moves files to nowhere")
            if len(args) > 1:
                self.writes(args[1])
            if isinstance(first, str) and self.run.sink.secret(self.path(first)):
                self.run.sink.redirect("<", self.path(first), "", self.call)
            if name == "shutil.copytree":
                self.takes(first)
        elif name == "shutil.make_archive":
            roots = [keywords[one] for one in ("root_dir", "base_dir") if one in keywords]
            for one in [*args[2:4], *map(self.value, roots)]:
                self.takes(one)
        elif name == "getattr" and len(args) > 1 and args[1] is None:
            if self.dotted(node.args[0]) in py.DANGEROUS:
                self.run.note("code-runs", "Python code that looks up a function by a name that is not known")
        elif name == "webbrowser.get" and isinstance(first, str) and not first.isidentifier():
            self.shell(first.replace("%s", UNKNOWN))
        elif name in ("yaml.load", "yaml.load_all"):
            loader = keywords.get("Loader") or (node.args[1] if len(node.args) > 1 else None)
            if loader is not None and self.dotted(loader) in py.LOADERS:
                self.executes("yaml.unsafe_load", node, None)
        elif name in py.EXECS or name.endswith(".exec_module"):
            self.executes(name, node, first)
        elif name in ("os.kill", "os.killpg", "signal.pthread_kill"):
            if first == -1 or (name == "os.killpg" and first == 0):
                self.run.note("kill-everything", "kills every process", "block")
            elif first is None or first == 1:
                self.run.note("kill-looked-up", "kills processes that are looked up")
        elif name in ("os.chmod", "os.chown", "os.setuid", "os.putenv", "os.mkfifo"):
            if isinstance(first, str):
                self.run.sink.redirect(">>", self.path(first), UNKNOWN, self.call)
        elif name in ("open", "io.open", "os.open", "codecs.open", "gzip.open") or (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "open"
            and isinstance(self.value(node.func.value), str)
        ):
            self.opens(node, args, keywords, name)
        elif name.startswith("socket.") or ".socket" in name or name.endswith("dup2"):
            self.sends = True
            if name.endswith("dup2") or name == "socket.create_server-x":
                self.run.note("code-network", "Python code that hands its streams to a connection")
        elif name.startswith(py.FETCHES):
            self.fetches(name, node, args, keywords)
        elif name == "?":
            self.run.note("code-runs", "Python code that calls what is not known")
        elif name in ("keyring.get_password", "keyring.get_credential"):
            self.run.note("read-secret", "Python code that reads a password of a keyring")
        elif name == "fcntl.ioctl" and "TIOCSTI" in ast.dump(node) + str(0x5412 in args and "TIOCSTI"):
            self.run.note("code-runs", "Python code that types at the terminal")
        elif getattr(node.func, "attr", "") == "reboot" and args and isinstance(args[0], int):
            self.run.note("machine-off", "Python code that stops or restarts the machine", "block")
        elif name in ("ctypes.CDLL", "ctypes.cdll.LoadLibrary"):
            self.run.note("code-runs", "Python code that calls the system's library")
        elif isinstance(node.func, ast.Attribute):
            self.method(node, node.func.attr, args)

    def looked(self, node: ast.Call, name: str, first: Any) -> None:
        """Note that the files of a directory are listed, and that files are read."""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        self.reads_files = self.reads_files or (method or name) in py.READS
        where = first if name in py.LISTS else None
        if isinstance(node.func, ast.Attribute) and method in py.LISTED and name not in py.LISTS:
            where = self.value(node.func.value)
            if isinstance(where, str) and isinstance(first, str):
                if SECRETS.fullmatch(first) and everything(self.path(where)):
                    self.lists_secrets = True
                where = f"{where}/{first}"
        if isinstance(where, str):
            path = self.path(marks.active(where))
            directory = path.rpartition("/")[0] if marks.globbed(path) else path
            if self.run.sink.secret(path) or self.run.sink.secret(directory):
                self.lists_secrets = True

    def method(self, node: ast.Call, attribute: str, args: list[Any]) -> None:
        func = node.func
        assert isinstance(func, ast.Attribute)
        if attribute == "delete" and not args and "objects" in ast.dump(func.value)[:2000]:
            self.run.note("sql", "Python code that deletes rows of a database")
        elif attribute in py.METHODS:
            head = self.value(func.value)
            if isinstance(head, str) and attribute in ("unlink", "rmdir"):
                self.run.sink.command(_rm(self.call, head, "-f"))
            else:
                self.run.note("code-deletes", "Python code that deletes files")
        elif attribute in (
            "write_text",
            "write_bytes",
            "touch",
            "symlink_to",
            "rename",
            "replace",
            "chmod",
            "mkdir",
        ):
            head = self.value(func.value)
            if isinstance(head, str) and (attribute not in ("replace", "rename") or len(args) == 1):
                self.writes(head)
            if attribute == "rename" and args == ["/dev/null"]:
                self.run.note("mass-delete", "moves files to nowhere")
            if attribute in ("rename",) and args and isinstance(args[0], str):
                self.writes(args[0])
        elif attribute in ("read_text", "read_bytes"):
            head = self.value(func.value)
            if isinstance(head, str):
                path = self.path(head)
                self.run.sink.redirect("<", path, "", self.call)
                self.reads_secret = self.reads_secret or self.run.sink.secret(path)
        elif attribute in (
            "sendall",
            "send",
            "sendto",
            "sendmail",
            "send_message",
            "connect",
            "post",
            "put",
            "storbinary",
        ):
            self.sends = True
            self.sent(node)
        elif attribute in ("runsource", "runcode") and args:
            self.executes("exec", node, args[0])
        elif py.CLEARS.fullmatch(attribute) or (attribute == "prune" and "docker" in self.names.values()):
            self.run.note("sql", f"Python code that deletes what a service holds: {attribute}")
        elif attribute in ("system", "popen", "exec_command") or (
            attribute in ("run", "local", "sudo") and py.REMOTES.intersection(self.modules())
        ):
            self.shell(args[0] if args else None)
        elif attribute == "execute" and args and isinstance(args[0], str):
            self.run.sink.command(
                msgspec.structs.replace(self.call, argv=["psql", "-c", args[0]], name="psql", stdin=None)
            )
        elif attribute in ("__subclasses__", "load_module"):
            self.run.note("code-runs", "Python code that calls what is not known")

    def modules(self) -> set[str]:
        return {one.partition(".")[0] for one in self.names.values()}

    def sent(self, node: ast.Call) -> None:
        """Judge what a call sends: the environment as a whole, in whatever it is wrapped."""
        given = [*node.args, *(one.value for one in node.keywords if one.arg != "env")]
        inner = [one for value in given for one in ast.walk(value)]
        looked = {id(one.value) for one in inner if isinstance(one, ast.Subscript)}
        looked |= {id(one.value) for one in inner if isinstance(one, ast.Attribute) and one.attr == "get"}
        if any(
            isinstance(one, ast.Attribute) and id(one) not in looked and self.dotted(one) == "os.environ"
            for one in inner
        ):
            self.run.note("send-secret", "Python code that sends the environment over the network")

    def process(
        self, name: str, node: ast.Call, args: list[Any], keywords: dict[str, ast.expr], first: Any
    ) -> None:
        shell = keywords.get("shell")
        if keywords.keys() & {"stdin", "stdout"} and "socket" in self.modules():
            streams = [self.dotted(keywords[one]) for one in ("stdin", "stdout") if one in keywords]
            if not all(one.startswith(("subprocess.", "sys.")) for one in streams):
                self.run.note("code-network", "Python code that hands its streams to a connection")
        if name.startswith("os."):
            skip = 1 if name.startswith("os.spawn") else 0
            rest = args[skip:]
            if len(rest) > 1 and isinstance(rest[1], list):
                rest = rest[1]
            elif len(rest) > 1:
                rest = rest[1:]
            self.runs(rest)
            return
        if (shell is not None and self.value(shell) not in (0, None)) or (
            isinstance(shell, ast.Constant) and shell.value is True
        ):
            self.shell(first[0] if isinstance(first, list) and first else first)
        elif isinstance(first, list) and first:
            if (
                first[0] is None
                and node.args
                and self.dotted(getattr(node.args[0], "elts", [node.args[0]])[0]) == "sys.executable"
            ):
                first = ["python3", *first[1:]]
            self.runs(first)
        elif isinstance(first, str):
            self.shell(first)
        else:
            self.run.note("code-runs", "Python code that runs a command which is not known")

    def executes(self, name: str, node: ast.Call, first: Any) -> None:
        if name == "compile" and not isinstance(first, str):
            return
        if isinstance(first, str) and not marks.marked(first) and self.run.depth < 20:
            self.run.depth += 1
            try:
                python(self.run, self.call, first)
            finally:
                self.run.depth -= 1
            return
        if isinstance(first, str) and REMOTE in first:
            self.run.note("remote-code", "Python code that runs what comes from the network")
        elif isinstance(first, str) and DECODED in first:
            self.run.note("decoded-code", "Python code that runs what it decoded")
            if self.run.depth < 20 and legible(first).strip(_ALL_MARKS):
                self.run.depth += 1
                try:
                    python(self.run, self.call, legible(first))
                finally:
                    self.run.depth -= 1
        else:
            self.run.note("code-runs", "Python code that runs code which is not known")

    def opens(self, node: ast.Call, args: list[Any], keywords: dict[str, ast.expr], name: str) -> None:
        method = isinstance(node.func, ast.Attribute) and name not in (
            "io.open",
            "os.open",
            "codecs.open",
            "gzip.open",
        )
        target = (
            self.value(node.func.value)
            if method and isinstance(node.func, ast.Attribute)
            else (args[0] if args else self.value(keywords.get("file")))
        )
        place = 0 if method else 1
        mode = args[place] if len(args) > place else self.value(keywords.get("mode"))
        path = self.path(target)
        if name == "os.open":
            mode = (
                "a"
                if (len(node.args) > 1 and "O_WRONLY" in ast.dump(node.args[1])) or "O_RDWR" in ast.dump(node)
                else "r"
            )
        if isinstance(mode, str) and any(sign in mode for sign in "wax+"):
            self.writes(target)
            if "w" in mode and id(node) in self.bare:
                self.run.sink.redirect(">", path, "", msgspec.structs.replace(self.call, argv=[]))
        else:
            self.run.sink.redirect("<", path, "", self.call)
            held = self.run.reading(path)
            if SECRET in held or marks.PRIVATE in held:
                self.reads_secret = True

    def fetches(self, name: str, node: ast.Call, args: list[Any], keywords: dict[str, ast.expr]) -> None:
        self.sends = True
        values = [*args, *(self.value(one) for one in keywords.values())]
        if name.endswith("urlretrieve") and len(args) > 1 and isinstance(args[1], str):
            self.run.sink.redirect(">", self.path(args[1]), UNKNOWN, self.call)
            self.run.state.write(self.path(args[1]), UNKNOWN + REMOTE)
        if any(isinstance(one, str) and (SECRET in one or ENVIRON in one) for one in values):
            self.run.note("send-secret", "Python code that sends a credential over the network")
        self.sent(node)
        if name.endswith(".delete"):
            self.run.note("http-delete", "sends a request that deletes something")


def _starred(module: str) -> dict[str, str]:
    """Return what ``from module import *`` brings of what is known."""
    known = py.ACTS | py.MOVES
    return {one.rpartition(".")[2]: one for one in known if one.rpartition(".")[0] == module}


def _is_about(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


def _shown(value: Any, match: re.Match[str]) -> str:
    return UNKNOWN if value is None else str(value)


def _rm(call: Call, target: Any, flags: str) -> Call:
    return msgspec.structs.replace(
        call,
        argv=["rm", flags, target if isinstance(target, str) and target else UNKNOWN],
        name="rm",
        stdin=None,
    )


__all__ = ["python"]
