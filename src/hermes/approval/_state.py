"""What a shell session is known to hold."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from . import _marks as marks
from ._marks import BEFORE, DECODED, ENVIRON, EVERY, KEY, OUTPUT, PIDS, PRIVATE, REMOTE, SECRET, UNKNOWN
from ._syntax import Node

# How much of the files that a session writes is kept, and how many of them.
MAX_TEXT = 64 * 1024
MAX_KEPT = 256 * 1024
MAX_ENTRIES = 2000

Value = str | list[str] | None

# What is on in a shell of hermes from its start, by `set -o` and `shopt`.
STARTING = marks.names(
    "expand_aliases braceexpand hashall interactive-comments interactive_comments checkwinsize cmdhist "
    "complete_fullquote extquote force_fignore globasciiranges globskipdots hostcomplete patsub_replacement "
    "progcomp promptvars sourcepath"
)
# What a look at the shell does not tell of a value.
_LASTING = SECRET + KEY + PRIVATE + ENVIRON + REMOTE + DECODED


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a session between two commands. None in its place means a fresh session.

    ``variables`` has texts, lists for arrays, and None for a name that was unset; ``options`` those that are
    on, and ``export NAME`` for what programs are given; ``files`` what was written in the session, ``links``
    where links and copies lead. Marks stand in texts for what is not known.
    """

    cwd: str | None = None
    previous: str | None = None
    variables: Mapping[str, Value] = {}
    functions: Mapping[str, tuple[Node, ...]] = {}
    aliases: Mapping[str, str] = {}
    options: frozenset[str] = STARTING
    parameters: tuple[str, ...] | None = ()
    files: Mapping[str, str] = {}
    links: Mapping[str, str] = {}
    descriptors: Mapping[str, str] = {}
    crowded: bool = False

    def going_on(self, before: SessionState) -> SessionState:
        """Return this state, which the shell told, with what only the one that was followed knows: what was
        written, and where values came from.
        """
        variables = dict(self.variables)
        for name, held in before.variables.items():
            value = variables.get(name)
            lasting = "".join(mark for mark in _LASTING if mark in _flat(held))
            if lasting and value is not None:
                variables[name] = (
                    value + lasting if isinstance(value, str) else [one + lasting for one in value]
                )
        previous = self.variables.get("OLDPWD")
        return msgspec.structs.replace(
            self,
            previous=previous if isinstance(previous, str) else None,
            variables=variables,
            files=before.files,
            links=before.links,
            descriptors=before.descriptors,
            crowded=self.crowded or before.crowded,
        )


class State:
    """The state while a command is followed. ``fork`` is what a subshell starts from."""

    __slots__ = (
        "aliases",
        "crowded",
        "cwd",
        "descriptors",
        "files",
        "functions",
        "last",
        "links",
        "options",
        "parameters",
        "previous",
        "starred",
        "variables",
    )

    def __init__(self, session: SessionState | None, cwd: str) -> None:
        session = session or _FRESH
        self.cwd = session.cwd or cwd
        self.last = UNKNOWN  # `$_`
        self.previous = session.previous or UNKNOWN
        self.variables: dict[str, Value] = dict(session.variables)
        self.functions: dict[str, tuple[Node, ...]] = dict(session.functions)
        self.aliases: dict[str, str] = dict(session.aliases)
        self.options: set[str] = set(session.options)
        self.parameters: tuple[str, ...] | None = session.parameters
        self.files: dict[str, str] = dict(session.files)
        # Those of which only the beginning of the name is known.
        self.starred = [path for path in self.files if _starred(path)]
        self.links: dict[str, str] = dict(session.links)
        self.descriptors: dict[str, str] = dict(session.descriptors)
        self.crowded = session.crowded

    def fork(self) -> State:
        """Return what a subshell sees. Files are shared: what it writes stays."""
        other = State.__new__(State)
        other.cwd, other.previous, other.last = self.cwd, self.previous, self.last
        other.variables = dict(self.variables)
        other.functions, other.aliases = dict(self.functions), dict(self.aliases)
        other.options, other.parameters = set(self.options), self.parameters
        other.files, other.links, other.starred = self.files, self.links, self.starred
        other.descriptors, other.crowded = dict(self.descriptors), self.crowded
        return other

    def join(self, other: State) -> None:
        """Take over what a branch that may have run did: what differs is unknown from now on."""
        if other.last != self.last:
            self.last = UNKNOWN
        if other.cwd != self.cwd:
            self.cwd = UNKNOWN
        if other.variables != self.variables:
            for name, value in other.variables.items():
                if name not in self.variables or self.variables[name] != value:
                    self.variables[name] = _either(self.variables.get(name, ""), value)
        for name, bodies in other.functions.items():
            mine = self.functions.get(name, ())
            self.functions[name] = mine + tuple(one for one in bodies if one not in mine)
        self.aliases.update(other.aliases)
        self.options |= other.options
        self.descriptors.update(other.descriptors)
        if other.parameters != self.parameters:
            self.parameters = None
        self.crowded = self.crowded or other.crowded

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        """Remember the text of a file."""
        if append:
            held = self.files.get(path, BEFORE + "\n")
            text = held + (BEFORE + "\n" if 2 * BEFORE in held else "") + text
        text = marks.cut(text, MAX_TEXT)
        if path not in self.files and len(self.files) >= MAX_ENTRIES:
            self.crowded = True
            return
        if path not in self.files and _starred(path):
            self.starred.append(path)
        self.files[path] = text
        self.links.pop(path, None)

    def kept(self, before: SessionState | None) -> SessionState:
        """Return what the next command of the session begins with: *before* itself where nothing changed."""
        files, total = self.files, sum(map(len, self.files.values()))
        if total > MAX_KEPT:
            files = {path: UNKNOWN if len(text) > 200 else text for path, text in files.items()}
        crowded = self.crowded or max(len(self.variables), len(self.functions), len(self.links)) > MAX_ENTRIES
        now = SessionState(
            cwd=self.cwd,
            previous=self.previous,
            variables={name: _short(value) for name, value in self.variables.items()},
            functions=self.functions,
            aliases=self.aliases,
            options=frozenset(self.options),
            parameters=self.parameters,
            files=files,
            links=self.links,
            descriptors=self.descriptors,
            crowded=crowded,
        )
        return before if before == now else now


_FRESH = SessionState()
_MARKS = SECRET + REMOTE + ENVIRON + DECODED + PIDS + EVERY + OUTPUT + PRIVATE + KEY


def _starred(path: str) -> bool:
    return path[-1:] == "*" and path[-2:] != "/*"


def _either(one: Value, two: Value) -> Value:
    if one == two:
        return one
    marks = "".join(sorted(set("".join(map(_flat, (one, two)))) & set(_MARKS)))
    return UNKNOWN + marks


def _flat(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value or ())


def _short(value: Value) -> Value:
    if isinstance(value, str):
        return marks.cut(value, MAX_TEXT)
    return value
