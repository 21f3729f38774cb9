"""Assignments: what variables and arrays hold after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._call import Call
from ._marks import SPLIT, UNKNOWN
from ._nodes import MAX_OUTPUT, keyed
from ._syntax import Assign

if TYPE_CHECKING:
    from ._run import Interpreter

# The shell keeps its aliases, and where it found programs, in these.
_MEANINGS = frozenset(("BASH_ALIASES", "BASH_CMDS"))


def assign(run: Interpreter, assign: Assign, env: dict[str, str] | None) -> None:
    """Do an assignment, in ``env`` when it is for one command only."""
    variables = run.state.variables
    if run.growing and _grown(run, assign):
        run.note("endless-output", f"{assign.name} grows without end")
    if assign.index is not None:
        index = run.expand.text(assign.index)
        run.expand.check_arithmetic(index)
        if not index.isdigit() and len(index) < 200:
            variables[f"{assign.name}[{index}]"] = run.expand.text(assign.value)
        held = variables.get(assign.name)
        values = list(held) if isinstance(held, list) else [held or ""] if isinstance(held, str) else []
        text = run.expand.text(assign.value)
        if assign.name in _MEANINGS:
            _meaning(run, assign.name, index, text)
        if index.isdigit() and int(index) <= min(len(values), 500):
            number = int(index)
            values[number:] = [text, *values[number + 1 :]]
            variables[assign.name] = values
        else:
            variables[assign.name] = [*values, text] if len(values) < 500 else [UNKNOWN]
        return
    if assign.values is not None:
        fields: list[str] = []
        for word in assign.values:
            value = keyed(word)
            if value is not None:
                name = word.parts[0].text.partition("]")[0]  # type: ignore[union-attr]
                variables[f"{assign.name}{name}]"] = run.expand.text(value)
                if assign.name in _MEANINGS:
                    _meaning(run, assign.name, name[1:], run.expand.text(value))
            fields += run.expand.word(value) if value is not None else run.expand.word(word)
        if assign.append:
            held = variables.get(assign.name)
            fields = [
                *(held if isinstance(held, list) else [held] if isinstance(held, str) else []),
                *fields,
            ]
        variables[assign.name] = fields[:500] if len(fields) <= 500 else [SPLIT]
        return
    text = run.expand.text(assign.value, assignment=True)
    if assign.append:
        held = variables.get(assign.name, "" if env is None else None)
        if isinstance(held, list):
            held = " ".join(held)
        text = (held if held is not None else UNKNOWN if assign.name not in variables else "") + text
        text = text[:MAX_OUTPUT]
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
