"""Test runners and package managers: what they run of what a session wrote."""

from __future__ import annotations

import re
from functools import partial

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from ._call import Call
from ._carriers import Handler, Wrapper, carried, written
from ._inline import shell, text, unescape
from ._marks import REMOTE, UNKNOWN
from ._options import options_of
from ._run import Interpreter

_MARKS = marks.ALL + " \n"


def conventional(language: str, *names: str) -> Handler:
    """A program that runs files of certain names, of those that were written in the session."""
    wanted = Lazy("|".join(names))

    def handler(run: Interpreter, call: Call) -> str:
        if call.name in ("tox", "nox") and "--" in call.argv:
            # Sessions run what follows as they like, and often as a command.
            rest = call.argv[call.argv.index("--") + 1 :]
            if rest and rest[0][:1] != "-":
                carried(run, call, rest)
        given = {run.path(one, call.cwd) for one in call.argv[1:] if one[:1] != "-"}
        for path in list(run.state.files):
            inside = path.startswith(call.cwd + "/") and wanted.fullmatch(path.rpartition("/")[2])
            held = written(run, path) if inside or path in given else None
            if not held or not held.strip(_MARKS):
                continue
            if language == "Python":
                run.handlers["python3"](
                    run, msgspec.structs.replace(call, argv=["python3", "-c", held.strip(_MARKS)], stdin=None)
                )
            else:
                text(run, call, held, language)
        return UNKNOWN

    return handler


def pip(run: Interpreter, call: Call) -> str:
    """pip and its like: what is installed may have come from the network, or have been written."""
    words = [one for one in call.argv[1:] if one[:1] != "-"]
    if call.name == "pipx" and words[:1] == ["run"]:
        return run.call(
            msgspec.structs.replace(call, argv=call.argv[call.argv.index(words[0]) + 1 :] or ["true"])
        )
    if words[:1] == ["install"] or words[:2] == ["pip", "install"]:
        for word in words[1:]:
            if REMOTE in (written(run, run.path(word, call.cwd)) or "") and re.search(r"[./]", word):
                run.note("remote-code", "installs a file that came from the network")
            elif word.startswith((".", "/", "~")):
                held = written(run, run.path(word, call.cwd) + "/setup.py")
                if held and held.strip(_MARKS):
                    run.handlers["python3"](
                        run, msgspec.structs.replace(call, argv=["python3", "-c", held], stdin=None)
                    )
    return UNKNOWN


_LIFE = ("preinstall", "install", "postinstall", "prepare")
_SHORT = {"t": "test", "tst": "test", "i": "install", "ci": "install", "add": "install"}


def npm(run: Interpreter, call: Call) -> str:
    """npm and its like: the scripts of a package.json that was written in the session."""
    words = [one for one in call.argv[1:] if one[:1] != "-"]
    name = _SHORT.get(words[0], words[0]) if words else "install" if call.name != "npm" else ""
    path = run.path("package.json", call.cwd)
    held = written(run, path) if path in run.state.files else None
    if held and name:
        if name in ("run", "run-script") and len(words) > 1:
            name = words[1]
        wanted = _LIFE if name == "install" else (name, "pre" + name, "post" + name)
        if marks.OUTPUT in held:
            run.note("written-code", "runs scripts that were written in this session and are not known")
        for key, value in re.findall(r'"([\w:.-]+)"\s*:\s*"((?:[^"\\]|\\.)*)"', held):
            if key in wanted:
                shell(run, call, unescape(value))
    if words[:2] == ["pkg", "set"]:
        for word in words[2:]:
            if word.startswith("scripts."):
                shell(run, call, word.partition("=")[2])
    if words[:1] and name == "install":
        for word in words[1:]:
            if REMOTE in (written(run, run.path(word, call.cwd)) or ""):
                run.note("remote-code", "installs a file that came from the network")
    inner = _NPM.get(call.name)
    return inner(run, call) if inner else UNKNOWN


_NPM_SPEC = "sub:exec|dlx|x|run-script-x -c -p --package -w --workspace text:-c text:--call"
_NPM = dict.fromkeys(("npm", "pnpm", "yarn"), Wrapper(_NPM_SPEC))


def runner(run: Interpreter, call: Call) -> str:
    """rails runner and console: Ruby code."""
    words = [one for one in call.argv[1:] if one[:1] != "-"]
    if words[:1] in (["console"], ["c"]) and call.stdin:
        words = ["runner", call.stdin]
    if words[:1] in (["runner"], ["r"]) and len(words) > 1:
        if re.search(
            r"\b(?:delete|destroy|update|truncate|drop)(?:_\w+)?[!(\s;]|\.(?:delete|destroy|update)_\w+|connection\.exec|"
            r"\.(?:delete|destroy)\b|credentials|secrets",
            words[1] + ";",
        ):
            run.note("sql", "code that changes or deletes records")
        return text(run, call, words[1], "Ruby")
    return UNKNOWN


def cargo(run: Interpreter, call: Call) -> str:
    """cargo watch: what it runs again and again."""
    words = call.argv[1:]
    if words[:1] == ["watch"]:
        for index, word in enumerate(words[:-1]):
            if word in ("-s", "--shell"):
                shell(run, call, words[index + 1])
            elif word == "--":
                inner = msgspec.structs.replace(call, argv=words[index + 1 :], stdin=None)
                run.subshell(partial(run.call, inner), captured=True)
                break
    return UNKNOWN


def profiled(run: Interpreter, call: Call) -> str:
    """coverage, kernprof and their like run a Python file."""
    words = call.argv[1:]
    if words[:1] == ["run"]:
        words = words[1:]
    _, rest = options_of(words, marks.names("--rcfile --source --include --omit --data-file --context -o"))
    if "-m" in words:
        rest = words[words.index("-m") :]
    if rest and (call.name != "coverage" or call.argv[1:2] == ["run"]):
        return run.call(msgspec.structs.replace(call, argv=["python3", *rest]))
    return UNKNOWN
