"""Small questions about scripts and texts that the interpreter asks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from . import _marks as marks
from ._call import Call
from ._environment import BUILD_TOOL, BUILDS
from ._globs import among, fitting
from ._marks import UNKNOWN
from ._paths import of_system
from ._state import State, Value
from ._syntax import Case, Group, Lit, Node, Simple, Sub, Test, Var, Word

if TYPE_CHECKING:
    from ._run import Interpreter

MAX_OUTPUT = 128 * 1024
# What a text that is no whole command meets because it is none.
VAGUE = marks.names(
    "computed-command unparsable code-unreadable unknown-code written-code code-runs environment"
)
# These ask for a password at their terminal.
PASSWORDS = marks.names("sudo su doas sudo-rs runuser pkexec sudoedit")


def written(state: State, path: str) -> str | None:
    """Return the text of a file that was written in the session; None for any other."""
    text = state.files.get(path)
    if not state.files:
        return UNKNOWN if state.crowded else None
    if text is None and marks.globbed(path):
        found = [state.files[name] for name in among(state.files, path)]
        return "\n".join(found) if found else UNKNOWN if state.crowded else None
    if text is None:
        for name in state.starred:
            if path.startswith(name[:-1]) and name in state.files:
                return state.files[name]
        place = path
        while "/" in place:
            place = place.rpartition("/")[0]
            text = state.files.get(place + "/*")
            if text is not None:
                return text
        if state.crowded:
            return UNKNOWN
    return text


def python_module(run: Interpreter, call: Call, name: str) -> str | None:
    """Return the code of a module that was written in the session; None for any other."""
    base = name.replace(".", "/")
    for one in (f"{base}.py", f"{base}/__init__.py", f"{base}/__main__.py"):
        path = run.path(one, call.cwd)
        held = run.state.files.get(path)
        if held is not None and marks.BEFORE in held:
            from ._before import later

            held = later(run, path, held)
        if held is not None:
            return held
    return None


def quoted(text: str) -> str:
    """Return a word that the shell reads as this text."""
    if text and re.fullmatch(r"[\w@%+=:,./-]+", text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def joined(texts: list[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return marks.cut("".join(texts), MAX_OUTPUT)


def leaves(node: Node) -> bool:
    """Say whether a command certainly leaves the script: `cd x || exit`."""
    if isinstance(node, Simple) and node.words:
        return node.words[0].simple in ("exit", "return", "break", "continue")
    if isinstance(node, Group) and not node.subshell and node.body.items:
        return leaves(node.body.items[-1].node)
    return False


def constant(node: Node, *, loop: bool = False) -> bool:
    """Say whether a condition always holds; of a loop also where it never does, for ``until``."""
    if not isinstance(node, Simple) or node.redirects or node.assigns:
        return False
    words = [word.simple for word in node.words]
    return words in (["true"], [":"], ["[", "1", "]"]) or (loop and words == ["false"])


def itself(node: Node) -> bool:
    """Say whether a command is the script that it stands in: ``$0``, ``bash "$0"``."""
    if not isinstance(node, Simple) or not node.words:
        return False
    last = node.words[-1].parts
    return len(last) == 1 and isinstance(last[0], Var) and last[0].name == "0"


_LEAVES = frozenset(
    ("break", "exit", "return", "sleep", "read", "wait", "kill", "curl", "wget", "inotifywait")
)


def local(run: Interpreter, call: Call, base: str) -> str:
    """Take a pattern for programs of the project, or elsewhere, for one that is not known by its name."""
    path = run.path(call.argv[0], call.cwd)
    for target in [run.state.links[link] for link in among(run.state.links, path)]:
        run.call(msgspec.structs.replace(call, argv=[target, *call.argv[1:]]))
    if len(call.argv) > 1 and fitting(run.acting, base):
        # With words that may mean something to what it stands for.
        run.note("computed-command", "the name of the command is a pattern")
    return call.argv[0]


def searched(run: Interpreter, call: Call) -> str:
    """Return the file of the session that a bare name stands for by PATH; empty for none."""
    name, found = call.argv[0], run.state.variables.get("PATH")
    other = name not in run.acting  # what is no program of the system may be any that was brought along
    for piece in run.first(found.split(":"), 200) if isinstance(found, str) else ():
        path = run.path(f"{piece}/{name}", call.cwd) if piece else ""
        if path in run.state.files or (other and path.rpartition("/")[0] + "/*" in run.state.files):
            return path
    return ""


def computed(run: Interpreter, call: Call) -> str | None:
    """Judge a command whose name is not known; return the name where it is known well enough."""
    run.count(7)  # what it may be is looked for
    name = call.argv[0]
    base = name.rpartition("/")[2]
    if marks.globbed(name):
        if "/" in name and not of_system(run.path(name, call.cwd)):
            return local(run, call, base)
        run.note("computed-command", "the name of the command is a pattern")
        for one in fitting(run.sink.programs(), base)[:40]:
            run.call(msgspec.structs.replace(call, argv=[one, *call.argv[1:]]))
        return None
    if (
        base
        and not marks.marked(base)
        and not any(mark in name for mark in (marks.SECRET, marks.REMOTE, marks.DECODED, marks.OUTPUT))
    ):
        # `$VENV/bin/python`: the directory is not known, the program is.
        return base
    if marks.FOUND in name:
        run.note("unknown-code", "runs each file that is found")
        run.report(call, "")
        return None
    run.note("computed-command", "which command this runs is not known")
    rest = call.argv[1:]
    if (
        rest
        and marks.SPLIT in name
        and not name.strip(marks.SPLIT + marks.OUTPUT)
        and not marks.unknown(rest[0])
    ):
        # The expansion may be empty, and the next word the command.
        run.call(msgspec.structs.replace(call, argv=rest))
    run.report(call, "")
    return None


def comes_to_an_end(run: Interpreter, call: Call, body: Node) -> bool:
    """Say whether a function that calls itself counts down to a condition: it ends, if not always soon."""
    return _counts_down(call.argv, run.state.parameters) and _decides(body)


def _counts_down(argv: Sequence[str], before: Sequence[str] | None) -> bool:
    """Say whether a function hands itself a number that is smaller than the one it was given."""
    pairs = zip(argv[1:], (before or ())[1:], strict=False)
    return any(one.isdecimal() and held.isdecimal() and int(one) < int(held) for one, held in pairs)


def _decides(node: object) -> bool:
    """Say whether a script looks at a condition of numbers or texts."""
    left: list[object] = [node]
    while left:
        one = left.pop()
        if isinstance(one, Test | Case):
            return True
        if isinstance(one, Simple) and one.words:
            first = one.words[0]
            if first.simple == "test" or first.parts == (Lit("[", False),):
                return True
        if isinstance(one, tuple | list):
            left.extend(one)
        elif isinstance(one, msgspec.Struct):
            left.extend(getattr(one, name) for name in one.__struct_fields__)
    return False


def stays(node: object) -> bool:
    """Say whether nothing in a loop ends it, or waits."""
    left: list[object] = [node]
    while left:
        one = left.pop()
        if isinstance(one, Simple) and one.words and one.words[0].simple in _LEAVES:
            return False
        if isinstance(one, tuple | list):
            left.extend(one)
        elif isinstance(one, msgspec.Struct):
            left.extend(getattr(one, name) for name in one.__struct_fields__)
    return True


def many(words: tuple[Word, ...]) -> bool:
    """Say whether a list of a loop is a count that is made up, not a list of things that exist."""
    for word in words:
        for part in word.parts:
            if isinstance(part, Sub) and part.body.items:
                first = part.body.items[0].node
                if isinstance(first, Simple) and first.words and first.words[0].simple == "seq":
                    return True
            if isinstance(part, Lit) and ".." in part.text and "{" in part.text:
                return True
    return False


def by_nul(node: Node) -> bool:
    """Say whether a command of a pipeline may take what it reads apart at NULs."""
    return isinstance(node, Simple) and any(word.simple in ("xargs", "gxargs") for word in node.words[:9])


def keyed(word: Word) -> Word | None:
    """Return the value of ``[key]=value`` in an array; None for an ordinary word."""
    if word.parts and isinstance(word.parts[0], Lit):
        match = re.match(r"\[[^\]]*\]=", word.parts[0].text)
        if match and not word.parts[0].quoted:
            rest = word.parts[0].text[match.end() :]
            return Word((Lit(rest, False), *word.parts[1:]), word.span)
    return None


def fed(run: Interpreter, program: str) -> None:
    """Report a password that is typed for a program that asks its terminal for one."""
    if run.place != "container":
        run.note("sudo-password", f"types a password for {program}, and none is configured", "block")


def variables(run: Interpreter, call: Call, base: str) -> None:
    """Follow what variables tell a build to run: ``CC='x #' make``."""
    given: Mapping[str, Value] = run.state.variables if base in BUILDS else call.env
    for name, value in list(given.items()):
        if isinstance(value, str) and " " in value and BUILD_TOOL.fullmatch(name):
            value = value.replace("$$", "$") if base.endswith("make") else value
            run.subshell(partial(run.quietly, marks.plain(value)), captured=True)
