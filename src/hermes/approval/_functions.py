"""Functions of the session: followed with the words that they are given, also where they call themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from . import _marks as marks
from ._call import Call
from ._marks import UNKNOWN
from ._state import Value
from ._syntax import Node, Unparsable

if TYPE_CHECKING:
    from ._run import Interpreter

# How often a function that calls itself is followed as it is; then with what changes unknown, twice.
_EXACT = 3
_WIDENED = 2


class Frame(NamedTuple):
    """A call that is being followed: with which words (None: any), variables and directory it began."""

    body: Node
    words: tuple[str, ...] | None
    variables: Mapping[str, Value]
    cwd: str
    wide: bool = False
    ends: bool = False  # it counts down to a condition


def follow(run: Interpreter, name: str, bodies: tuple[Node, ...], call: Call) -> str:
    """Follow what a function does; return what it prints."""
    from ._nodes import joined
    from ._run import MAX_DEPTH

    frames = [frame for body in bodies if (frame := _entered(run, name, body, call)) is not None]
    if not frames:
        return UNKNOWN
    if run.depth >= MAX_DEPTH:
        raise Unparsable("functions are nested too deeply")
    run.called.add(name)
    saved = run.state.parameters
    run.depth += 1
    parallel, run.parallel = run.parallel, 0
    out: list[str] = []
    try:
        for frame in frames:
            run.state.parameters = None if frame.words is None else (name, *frame.words)
            if frame.wide:
                run.state.variables.update(frame.variables)
                run.state.cwd = frame.cwd
            run.frames.append(frame)
            try:
                out.append(run.run(frame.body, call.stdin))
            finally:
                run.frames.pop()
    finally:
        run.depth -= 1
        run.parallel = parallel
        run.state.parameters = saved
    return joined(out)


def _entered(run: Interpreter, name: str, body: Node, call: Call) -> Frame | None:
    """Return with what a function is followed; None where that was done, or is not to be done."""
    from ._nodes import comes_to_an_end

    state = run.state
    mine = [frame for frame in run.frames if frame.body is body]
    ends = bool(mine) and ((mine[-1].wide and mine[-1].ends) or comes_to_an_end(run, call, body))
    now = Frame(body, tuple(call.argv[1:]), dict(state.variables), state.cwd, ends=ends)
    if not mine:
        return now
    if any(_covers(frame, now) for frame in mine):
        if run.parallel:
            said = f"the function {name} starts itself over and over"
            run.note("fork-bomb", said, "ask" if ends else "block")
        return None
    # A function that hands on fewer words than it was given comes to an end.
    if len(mine) < _EXACT or len(call.argv) < len(state.parameters or ()):
        return now
    if len(mine) >= _EXACT + _WIDENED:
        run.note("computed-command", f"the function {name} calls itself with what cannot be followed")
        return None
    wide = _widened([*mine, now], every=len(mine) > _EXACT)
    changed = frozenset(one for one, value in wide.variables.items() if value != now.variables.get(one))
    key = (id(body), wide.words, changed, wide.cwd)
    if key in run.widened:
        return None
    run.widened.add(key)
    return wide


def _covers(frame: Frame, now: Frame) -> bool:
    """Say whether what a call does was all seen with this one."""
    if frame.cwd not in (now.cwd, UNKNOWN):
        return False
    if frame.words is not None and frame.words != now.words:
        mine, other = frame.words, now.words or ()
        if len(mine) != len(other) or not all(map(_holds, mine, other)):
            return False
    if frame.variables == now.variables:
        return True
    names = frame.variables.keys() | now.variables.keys()
    return all(_holds(frame.variables.get(one, ""), now.variables.get(one, "")) for one in names)


def _holds(wide: Value, narrow: Value) -> bool:
    if wide == narrow:
        return True
    if not isinstance(wide, str) or not wide.startswith(UNKNOWN) or wide.strip(_WHOLE):
        return False
    return set(marks.kinds(_text(narrow))) <= set(wide)


_WHOLE = marks.kinds("".join(map(chr, range(0x10FF00, 0x10FF10))))


def _widened(frames: list[Frame], *, every: bool) -> Frame:
    """Return a call that stands for all of these: what differs between them is not known."""
    last = frames[-1]
    words: tuple[str, ...] | None = None
    given = [frame.words for frame in frames if frame.words is not None]
    if not every and len({len(one) for one in given}) == 1:
        words = tuple(one[0] if len(set(one)) == 1 else marks.kinds(*one) for one in zip(*given, strict=True))
    variables = dict(last.variables)
    for name in set().union(*(frame.variables for frame in frames)):
        values = [frame.variables.get(name, "") for frame in frames]
        if any(one != values[0] for one in values):
            variables[name] = marks.kinds(*map(_text, values))
    cwd = last.cwd if len({frame.cwd for frame in frames}) == 1 else UNKNOWN
    return Frame(last.body, words, variables, cwd, wide=True, ends=last.ends)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value or ())
