"""Assignments: what variables and arrays hold after them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from ._call import Call
from ._marks import UNKNOWN
from ._nodes import MAX_OUTPUT, keyed
from ._syntax import Assign, Lit, Simple, Word

if TYPE_CHECKING:
    from ._run import Interpreter

_ASSIGNED = Lazy(r"([A-Za-z_]\w*)\s*(?:=(?!=)\s*(?:(-?\d+)\s*(?=[,)]|\Z))?|\+\+|--|[-+*/%&|^]=)")
MAX_ITEMS = 2000  # of an array
# The shell keeps its aliases, and where it found programs, in these.
_MEANINGS = frozenset(("BASH_ALIASES", "BASH_CMDS"))


# The shell takes what is assigned to these for arithmetic.
_NUMBERS = (
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "OPTIND",
    "HISTCMD",
    "LINENO",
    "EPOCHSECONDS",
    "BASHPID",
    "GROUPS",
)
# Programs are given these, whether or not they are exported here once more.
_GIVEN = marks.names("PATH HOME USER LOGNAME LANG LC_ALL TERM SHELL PWD OLDPWD SHLVL _")
_ATTRIBUTES = {"i": "integer:", "l": "lower:", "u": "upper:", "c": "capital:"}


def attributes(run: Interpreter, words: Sequence[str], name: str) -> None:
    """Follow what the options of ``declare``, or ``export``, make of a variable."""
    for word in words:
        if word[:1] not in "-+" or word == "--":
            continue
        for sign in word[1:]:
            if sign == "x" and name not in _GIVEN:
                (run.state.options.add if word[0] == "-" else run.state.options.discard)("export " + name)
            kind = _ATTRIBUTES.get(sign)
            if kind:
                run.attributed = True
                (run.state.options.add if word[0] == "-" else run.state.options.discard)(kind + name)


def settled(run: Interpreter, name: str, text: str) -> str:
    """Return what a variable holds when it is given a text, by its attributes."""
    options = run.state.options
    if name in _NUMBERS or (options and "integer:" + name in options):
        run.expand.check_arithmetic(text)
        return UNKNOWN if "$(" in text or "`" in text else text
    if not options:
        return text
    if "lower:" + name in options:
        return text.lower()
    if "upper:" + name in options:
        return text.upper()
    return text.capitalize() if "capital:" + name in options else text


def settle(run: Interpreter) -> None:
    """Look at what the last command gave to variables with attributes, in whichever way."""
    variables, options = run.state.variables, run.state.options
    names = [name for name in _NUMBERS if name in variables]
    if run.attributed:
        names += [name for one in options if (name := one.partition(":")[2]) and name not in names]
    for name in names:
        value = variables.get(name)
        if isinstance(value, str):
            variables[name] = settled(run, name, value)
        elif value:
            variables[name] = [settled(run, name, one) for one in value]


def assign(run: Interpreter, assign: Assign, env: dict[str, str] | None) -> None:
    """Do an assignment, in ``env`` when it is for one command only."""
    variables = run.state.variables
    named = variables.get("&" + assign.name)
    if isinstance(named, str):
        if named and named != assign.name:
            assign = msgspec.structs.replace(assign, name=named)
        elif assign.value is not None:
            target = run.expand.text(assign.value)
            run.expand.check_subscript(target)
            variables["&" + assign.name] = target if target.isidentifier() else "RANDOM"
            return
    if run.growing and _grown(run, assign):
        run.note("endless-output", f"{assign.name} grows without end")
    if assign.index is not None:
        index = run.expand.text(assign.index)
        run.expand.check_arithmetic(index)
        if not index.isdigit() and len(index) < 200:
            variables[f"{assign.name}[{index}]"] = run.expand.text(assign.value)
        held = variables.get(assign.name)
        values = list(held) if isinstance(held, list) else [held or ""] if isinstance(held, str) else []
        text = settled(run, assign.name, run.expand.text(assign.value))
        if assign.name in _MEANINGS:
            _meaning(run, assign.name, index, text)
        if index.isdigit() and int(index) <= min(len(values), MAX_ITEMS):
            number = int(index)
            values[number:] = [text, *values[number + 1 :]]
            variables[assign.name] = values
        else:
            variables[assign.name] = list(run.first([*values, text], MAX_ITEMS))
        return
    if assign.values is not None:
        fields: list[str] = []
        for word in assign.values:
            value = keyed(word)
            if value is not None:
                name = word.parts[0].text.partition("]")[0]  # type: ignore[union-attr]
                run.expand.check_arithmetic(name)
                variables[f"{assign.name}{name}]"] = run.expand.text(value)
                if assign.name in _MEANINGS:
                    _meaning(run, assign.name, name[1:], run.expand.text(value))
            found = run.expand.word(word if value is None else value)
            first = word.parts[0] if value is None and len(word.parts) > 1 else None
            if isinstance(first, Lit) and not first.quoted and first.text.startswith("["):
                run.expand.check_arithmetic(" ".join(found))  # the subscript is what something expands to
            fields += [settled(run, assign.name, one) for one in found]
        if assign.append:
            held = variables.get(assign.name)
            fields = [
                *(held if isinstance(held, list) else [held] if isinstance(held, str) else []),
                *fields,
            ]
        variables[assign.name] = list(run.first(fields, MAX_ITEMS))
        return
    text = run.expand.text(assign.value, assignment=True)
    if assign.append:
        held = variables.get(assign.name, "" if env is None else None)
        if isinstance(held, list):
            held = " ".join(held)
        text = (held if held is not None else UNKNOWN if assign.name not in variables else "") + text
        text = marks.cut(text, MAX_OUTPUT)
    text = settled(run, assign.name, text)
    if env is not None:
        env[assign.name] = text
    else:
        variables[assign.name] = text


def _meaning(run: Interpreter, array: str, name: str, value: str) -> None:
    """Follow an entry of an array that says what a name means, as the command that does so."""
    words = ["alias", f"{name}={value}"] if array == "BASH_ALIASES" else ["hash", "-p", value, name]
    run.call(Call(words, run.state.cwd, run.span, None, {}, run.place, run.root, True))


def _grown(run: Interpreter, assign: Assign) -> bool:
    if assign.append:
        return True
    held = run.state.variables.get(assign.name)
    if not isinstance(held, str) or not held or assign.values is not None or assign.index is not None:
        return False
    text = run.expand.text(assign.value, assignment=True)
    return len(text) > len(held) and text.startswith(held)


def declared(run: Interpreter, words: tuple[Word, ...]) -> list[str]:
    """Return the words of ``export`` and its like, where a value is not split."""
    out: list[str] = []
    for word in words:
        first = word.parts[0] if word.simple is None and word.parts else None
        if isinstance(first, Lit) and not first.quoted and re.match(r"[A-Za-z_]\w*\+?=", first.text):
            out.append(run.expand.text(word, assignment=True))
        else:
            out += run.expand.word(word)
    return out


def prefixes(run: Interpreter, node: Simple, call: Call) -> None:
    """Report assignments that stand alone, as the rules on variables want to see them."""
    names = {assign.name: _shown(run, assign.name) for assign in node.assigns}
    if names:
        run.sink.command(Call([], call.cwd, call.span, None, names, call.place, call.root, True))


def _shown(run: Interpreter, name: str) -> str:
    value = run.state.variables.get(name)
    return value if isinstance(value, str) else UNKNOWN


def counted(run: Interpreter, text: str) -> None:
    """Do the assignments of ``(( ))``."""
    for match in _ASSIGNED.finditer(text):
        name, value = match.groups()
        run.state.variables[name] = value if value is not None else UNKNOWN
