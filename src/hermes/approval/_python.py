"""Reads Python code that is given in a line, with Python's own parser."""

from __future__ import annotations

import ast
import re
from typing import Any

from . import _growth as growth
from . import _marks as marks
from . import _python_tables as py
from ._call import Call
from ._carriers import _ALL_MARKS
from ._decode import legible
from ._marks import DECODED, REMOTE, UNKNOWN
from ._nodes import python_module
from ._python_calls import Calls
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


class Reader(Calls):
    """Walks one module."""

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


def _starred(module: str) -> dict[str, str]:
    """Return what ``from module import *`` brings of what is known."""
    known = py.ACTS | py.MOVES
    return {one.rpartition(".")[2]: one for one in known if one.rpartition(".")[0] == module}


def _is_about(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


__all__ = ["python"]
