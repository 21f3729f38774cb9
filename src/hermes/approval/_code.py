"""Programs that take code: interpreters, awk, sed, make, git, package managers, editors and others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import msgspec

from hermes._lazy import Lazy

from . import _growth as growth
from . import _marks as marks
from ._before import changed
from ._call import Call
from ._carriers import Handler, Wrapper, carried, told, written
from ._inline import (
    MAX_CODE,
    NATIVE,
    PATHS,
    STRING,
    Inline,
    Python,
    literals,
    rpm,
    shell,
    shown,
    text,
    unescape,
)
from ._inline import told as told_code
from ._loads import included
from ._marks import REMOTE, UNKNOWN
from ._options import options_of
from ._packages import cargo, conventional, npm, pip, profiled, runner
from ._run import Interpreter
from ._written import awk as awk_written

MAX_LINES = 5000  # of what a program reads its commands from
_AWK_PRINTED = Lazy(r"\bprintf?\s*\(?\s*\"(?:[^\"\\]|\\.)*\"\s*\)?\s*(?=;|$|\}|\n)")


def awk(run: Interpreter, call: Call) -> str:
    found, rest = options_of(
        call.argv[1:], marks.names("-F -v -f -i -l -e --field-separator --assign --file --source")
    )
    codes = [value for name, value in found if name in ("-e", "--source")]
    files = [value for name, value in found if name in ("-f", "--file")]
    if not codes and not files and rest:
        codes, rest = [rest[0]], rest[1:]
    for name in files:
        if name in ("-", "/dev/stdin"):
            codes.append(call.stdin or "")
            if call.stdin is not None and marks.unknown(call.stdin) and not marks.plain(call.stdin).isascii():
                run.note("unknown-code", "awk runs code that is not known")
        else:
            held = written(run, run.path(name, call.cwd))
            if held:
                codes.append(held)
    for code in codes:
        if REMOTE in code:
            run.note("remote-code", "awk runs what comes from the network")
        if len(code) > MAX_CODE:
            run.note("code-unreadable", "code for awk that is too long to be read")
            continue
        shown(run, call, marks.plain(code), "awk")
        code = _AWK_PRINTED.sub('print ""', marks.plain(code))
        if growth.grows(code):
            run.note("endless-output", "awk code that fills the memory or a disk")
        if growth.spawns(code):
            run.note("endless", "awk code that starts processes without end")
        for match in run.first(re.finditer(r"\bsystem\s*\(\s*" + STRING, code)):
            given = "".join(literals(match.group(1) or match.group(2) or "", code, match.end()))
            more = code[match.end() : match.end() + 1] and not re.match(r"\s*\)", code[match.end() :])
            told_code(run, call, given, more=bool(more))
        if re.search(r"\bsystem\s*\(\s*[^\"'\s]", code):
            run.note("code-runs", "awk runs commands that are not known")
        for match in run.first(re.finditer(r"\"((?:[^\"\\]|\\.)*)\"\s*\)*\s*\|&?\s*getline", code)):
            shell(run, call, unescape(match.group(1)))
        for match in run.first(re.finditer(r"\|&?\s*\"((?:[^\"\\]|\\.)*)\"", code)):
            given = unescape(match.group(1))
            if re.fullmatch(r"\s*(?:/\S*/)?(?:ba|z|da|k)?sh\b.*", given):
                run.note("unknown-code", "awk gives commands that are not known to a shell")
            else:
                shell(run, call, given)
        if re.search(
            r"(?<!\|)\|(?!\|)&?\s*(?!\s*getline)[a-zA-Z$]\w*\b(?!\s*getline)",
            re.sub(r"\"(?:[^\"\\]|\\.)*\"|/(?:[^/\\\n]|\\.)*/", '""', code),
        ):
            run.note("code-runs", "awk runs commands that are not known")
        if re.search(r"[\w)$]\s*\|\s*getline", re.sub(r"\"(?:[^\"\\]|\\.)*\"", '""', code)):
            run.note("code-runs", "awk runs commands that are not known")
        if "/inet/" in code:
            run.note("code-network", "awk opens a connection")
        for match in run.first(re.finditer(r">\s*\"([^\"]+)\"", code)):
            run.sink.redirect(">", run.path(match.group(1), call.cwd), UNKNOWN, call)
        values = (value.partition("=") for name, value in found if name in ("-v", "--assign"))
        awk_written(run, call, code, {name: value for name, _, value in values})
        for match in run.first(PATHS.finditer(code)):
            if run.sink.secret(run.path(match.group(1), call.cwd)):
                run.sink.redirect("<", run.path(match.group(1), call.cwd), "", call)
    from ._programs import filtered

    return filtered(run, call)


_SED_E = Lazy(r"(?:^|[;{}\n]|\d|\$|/)\s*e(?:\s+([^\n]+)|\s*$|\s*[;}])")
_SED_SUB_E = Lazy(
    r"s(.)(?:\\.|(?!\1)[^\\])*\1((?:\\.|(?!\1)[^\\])*)\1[gpiImM0-9]*e[gpiImM0-9]*(?=$|[;\s}w])", re.DOTALL
)
_SED_W = Lazy(r"(?:^|[;{}\n]|\d|\$|/|/[gpiIm]*)\s*[wW]\s+(\S+)")


_SED_R = Lazy(r"(?:^|[;{}\n]|\d|\$|/)\s*[rR]\s+(\S+)")


_INDENTED = Lazy(r"\n\s+")  # and blank lines: each would be looked through from each of its ends
_IN_PLACE = Lazy(r"-[a-zA-Z0-9]*i|--in-place")


def sed(run: Interpreter, call: Call) -> str:
    from ._programs import edited, filtered

    found, rest = options_of(call.argv[1:], marks.names("-e -f -l -E-x --expression --file --line-length"))
    codes: list[str] = []
    for name, value in found:
        if name in ("-e", "--expression"):
            codes.append(value)
        elif re.fullmatch(r"-[a-zA-Z]*e", name) and value == "":
            continue
        elif name in ("-f", "--file"):
            held = call.stdin if value in ("-", "/dev/stdin") else written(run, run.path(value, call.cwd))
            codes.append(held or "")
    if not codes and rest:
        codes, rest = [rest[0]], rest[1:]
    for code in codes:
        if not code:
            continue
        if len(code) > MAX_CODE:
            run.note("code-unreadable", "code for sed that is too long to be read")
            continue
        code = _INDENTED.sub("\n", code)
        for match in run.first(_SED_E.finditer(code)):
            if match.group(1):
                shell(run, call, match.group(1).rstrip("}"))
            else:
                run.note("code-runs", "sed runs its input as commands")
        if _SED_SUB_E.search(code):
            run.note("code-runs", "sed runs what it makes as commands")
            for match in run.first(_SED_SUB_E.finditer(code)):
                shell(run, call, match.group(2))
        for match in run.first(_SED_R.finditer(code)):
            if run.sink.secret(run.path(match.group(1), call.cwd)):
                run.sink.redirect("<", run.path(match.group(1), call.cwd), "", call)
        for match in run.first(_SED_W.finditer(code)):
            path = run.path(match.group(1), call.cwd)
            run.sink.redirect(">", path, UNKNOWN, call)
            whole = re.fullmatch(r"\s*[wW]\s+\S+\s*", code) and call.stdin
            run.state.write(path, whole or marks.kinds(call.stdin or ""))
    if any(_IN_PLACE.match(word) for word in call.argv[1:]):
        edited(run, call, codes, [one for one in rest if one[:1] != "-"])
        return ""
    return filtered(run, call)


def bang(run: Interpreter, call: Call) -> str:
    """Programs that run lines of their input which begin with an exclamation mark: dc, ed, ftp, mail, gdb."""
    given = [
        value
        for name, value in options_of(call.argv[1:], frozenset(("-e", "--expression")))[0]
        if name in ("-e", "--expression") and call.name == "dc"
    ]
    for line in [*given, *run.first((call.stdin or "").split("\n"), MAX_LINES)]:
        match = re.match(r"\s*:?!+\s*(.+)", line)
        if match:
            shell(run, call, match.group(1))
    if call.name in ("ed", "ex", "red"):
        for match in run.first(re.finditer(r"(?m)^[\d,$%.+-]*\s*[wW]q?\s+([^\s!]\S*)", call.stdin or "")):
            run.sink.redirect(">", run.path(match.group(1), call.cwd), UNKNOWN, call)
        from ._programs import edited

        edited(run, call, [], [one for one in call.argv[1:] if one[:1] != "-"])
        for one in call.argv[1:]:
            path = run.path(one, call.cwd)
            if one[:1] != "-" and path in run.state.files:
                added = [line.strip() for line in (call.stdin or "").split("\n") if " " in line.strip()]
                run.state.write(path, run.state.files[path] + changed(added))
        return UNKNOWN
    return marks.kinds(call.stdin or "")


def sqlite(run: Interpreter, call: Call) -> str:
    for one in [*call.argv[1:], *run.first((call.stdin or "").split("\n"), MAX_LINES)]:
        match = re.match(r"\s*\.(?:shell|system)\s+(.+)", one)
        if match:
            shell(run, call, match.group(1))
            run.note("run-by-option", "a command of sqlite that runs a command")
        if re.match(r"\s*\.(?:import|read|output|once)\s+['\"]?\|", one):
            run.note("run-by-option", "a command of sqlite that runs a command")
        match = re.match(
            r"\s*\.(?:output|once|backup|save|clone|log|dump|excel)\s+['\"]?([/~][^\s'\"]+)", one
        )
        if match:
            run.sink.redirect(">", run.path(match.group(1), call.cwd), UNKNOWN, call)
        _sql_files(run, call, one)
        included(run, call, one)
    operands = [one for one in call.argv[1:] if not one.startswith("-")]
    kinds = UNKNOWN
    if operands:
        kinds = marks.kinds(run.reading(run.path(operands[0], call.cwd)))
        path = run.path(operands[0], call.cwd)
        if any(
            re.search(r"(?i)\b(?:delete|update|insert|drop|alter|replace)\b", one)
            for one in [*operands[1:], call.stdin or ""]
        ):
            run.sink.redirect(">>", path, UNKNOWN, call)
    return kinds


def client(run: Interpreter, call: Call) -> str:
    """psql, mysql and the like: a line that begins with ``\\!`` runs a command."""
    if call.stdin is not None and marks.OUTPUT in call.stdin:
        run.note("sql", "feeds a database what another command printed")
    for one in [*call.argv[1:], *run.first((call.stdin or "").split("\n"), MAX_LINES)]:
        match = re.match(r"\s*(?:\\!|system\s)\s*(.+)", one)
        if match:
            shell(run, call, match.group(1))
        _sql_files(run, call, one)
        included(run, call, one)
    told(run, call)
    return UNKNOWN


_SQL_FILES = Lazy(
    r"(?i)(?:\bcopy\b[^;]{0,400}\bto|\bvacuum\s+into|\bexport\s+database|\battach(?:\s+database)?|\binto\s+(?:out|dump)file|\\o|\\w|\btee|\bspool)"
    r"\s+['\"]?([/~][^\s'\";]+)"
)


def _sql_files(run: Interpreter, call: Call, line: str) -> None:
    """Follow what a statement writes to a file of the client or the server."""
    if "/" in line or "~" in line:
        for match in run.first(_SQL_FILES.finditer(line)):
            run.sink.redirect(">", run.path(match.group(1), call.cwd), UNKNOWN, call)


_MAKE = marks.names("-f -C -I -j -l -o -W --file --makefile --directory")
_COMMAND_NAMES = Lazy(
    r"(?:HOST|TARGET|BUILD)?(?:CC|CXX|CPP|LD|AR|AS|FC|NM|RANLIB|STRIP|OBJCOPY|RM|MV|CP|LN|INSTALL|SHELL|PYTHON\d?|"
    r"NODE|GO|CARGO|RUSTC|SUDO|GIT|CURL|LEX|YACC|MAKE|ECHO|SED|AWK)|\w*(?:CMD|COMMAND|HOOK|RUNNER|WRAPPER|LAUNCHER)"
)


_ASSIGNS = Lazy(
    r"\s*(?:#|$|\.?[\w.-]+\s*[:?+!]*=|-?include\b|ifn?eq|ifn?def|else|endif|define|endef|export\b|\W*$)"
)
_MAKEFILE = Lazy(r"-[a-zA-Z]*f|--file|--makefile")


_ASSIGNED = Lazy(r"(?m)^(\w+)[ ]*(?:::?|\?)?=[ ]*(.*?)[ ]*$")
_REFERENCE = Lazy(r"\$(?:\$|\((\w+)\)|\{(\w+)\})")


def _recipe(line: str, given: Mapping[str, str]) -> str:
    """Return what make hands to the shell for a line: what is no variable of its own is the environment's."""

    def value(match: re.Match[str], depth: int = 0) -> str:
        name = match.group(1) or match.group(2)
        if name is None:
            return "$"
        if name not in given or depth == 3:
            return f"${{{name}}}"
        return marks.cut(_REFERENCE.sub(lambda inner: value(inner, depth + 1), given[name]), MAX_CODE)

    return _REFERENCE.sub(value, line.strip().lstrip("@-+"))


def make(run: Interpreter, call: Call) -> str:
    """make: a makefile that is given or written in the session, and assignments that run commands."""
    words = call.argv[1:]
    code = ""
    added = False
    for index, word in enumerate(words):
        match = re.fullmatch(r"-f(.+)|--(?:file|makefile)=(.+)", word)
        if match or (_MAKEFILE.fullmatch(word) and index + 1 < len(words)):
            name = (match.group(1) or match.group(2)) if match else words[index + 1]
            if name in ("-", "/dev/stdin"):
                code += call.stdin or ""
            else:
                path = run.path(name, call.cwd)
                added = added or marks.BEFORE in run.state.files.get(path, "")
                code += written(run, path) or ""
        elif re.match(r"[A-Z_]+=.*\$\(shell", word):
            found = re.search(r"\$\(shell\s+(.+)\)", word)
            if found:
                shell(run, call, found.group(1))
        elif word.startswith("--eval"):
            code += word.partition("=")[2]
        elif (match := re.fullmatch(r"([A-Z_]+)=(.*)", word, re.DOTALL)) and (
            _COMMAND_NAMES.fullmatch(match.group(1)) or re.search(r"[;&|`]|\bsh -c\b", match.group(2))
        ):
            shell(run, call, match.group(2).replace("$$", "$"))
    if not any(
        word.startswith(("-f", "--file", "--makefile")) or _MAKEFILE.fullmatch(word) for word in words
    ):
        for name in ("Makefile", "makefile", "GNUmakefile"):
            path = run.path(name, call.cwd)
            if path in run.state.files and "-n" not in words:
                added = added or marks.BEFORE in run.state.files[path]
                code += written(run, path) or ""
    _, plain = options_of([one for one in words if "=" not in one], _MAKE)
    goals = [one for one in plain if re.fullmatch(r"[\w.-]+", one) and not one.startswith("-")]
    wanted = not code or "\n" not in code
    given = {"MAKE": "make", "RM": "rm -f", "SHELL": "/bin/sh"}
    given.update(_ASSIGNED.findall(code))
    given.update(one.partition("=")[::2] for one in words if re.match(r"\w+=", one))
    for line in run.first(code.split("\n"), MAX_LINES):
        head = re.match(r"([\w.-]+)\s*:(?!=)", line)
        if head:
            wanted = not goals or head.group(1) in goals or head.group(1).startswith(".")
            _, semicolon, recipe = line.partition(";")
            if semicolon and wanted:
                shell(run, call, _recipe(recipe, given))
        elif (line.startswith("\t") and wanted) or (added and not _ASSIGNS.match(line)):
            # In what was changed it is not known under which goal a line stands.
            shell(run, call, _recipe(line, given))
        for found in re.findall(r"\$\(shell\s+([^)]*)\)|!=\s*(.+)", line):
            shell(run, call, found[0] or found[1])
    return UNKNOWN


_CLONE = marks.names(
    "-C -c -b --branch --depth -o --origin --config --reference --separate-git-dir -j --jobs --filter "
    "--template -u --upload-pack --shallow-since --shallow-exclude --git-dir --work-tree"
)


def brought(run: Interpreter, call: Call, words: list[str]) -> None:
    """Remember what git brings from elsewhere: the files of a clone, and where a new remote leads."""
    _, rest = options_of(words, _CLONE)
    if rest[:1] == ["clone"]:
        _, operands = options_of(rest[1:], _CLONE)
        if len(operands) > 1:
            # Options may also come after the address.
            operands = [operands[0], *options_of(operands[1:], _CLONE)[1]]
        if operands and re.match(r"(?:https?|git|ssh|ftps?)://|[\w.-]+@?[\w.-]+:", operands[0]):
            base = operands[0].rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
            target = run.path(operands[1] if len(operands) > 1 else base, call.cwd)
            run.state.write(target + "/*", UNKNOWN + REMOTE)
    elif rest[:2] == ["remote", "add"]:
        _, operands = options_of(rest[2:], frozenset(("-t", "-m", "--mirror")))
        if len(operands) > 1:
            run.state.write(run.path(".git/remotes/" + operands[0], call.cwd), operands[1])


_HOOKS = (
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-push",
    "post-checkout",
    "post-merge",
)


def git(run: Interpreter, call: Call) -> str:
    """git: what it runs for the user."""
    words = call.argv[1:]
    brought(run, call, words)
    for hook in _HOOKS if run.state.files else ():
        path = run.path(f".git/hooks/{hook}", call.cwd)
        if path in run.state.files:  # which command runs which is not asked: it was written to be run
            run.subshell(partial(run.handlers["<file>"], run, msgspec.structs.replace(call, argv=[path])))
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if word == "-c" and "=" in following:
            key, _, value = following.partition("=")
            if (
                re.search(
                    r"(?i)alias\.|command|pager|editor|\.cmd$|external|"
                    r"textconv|hookspath|program|helper|fsmonitor|proxy",
                    key,
                )
                and value
            ):
                shell(run, call, value.lstrip("!"))
        if word in ("-x", "--exec") and "rebase" in words[:index] and following:
            shell(run, call, following)
        elif word.startswith("--exec=") and "rebase" in words[:index]:
            shell(run, call, word.partition("=")[2])
        elif word == "run" and index and words[index - 1] == "bisect" and following:
            run.subshell(
                partial(run.call, msgspec.structs.replace(call, argv=words[index + 1 :], stdin=None)),
                captured=True,
            )
            break
        elif (
            word in ("--upload-pack", "--receive-pack", "-u")
            and following
            and any(one in words for one in ("clone", "fetch", "pull", "push", "ls-remote"))
            and word != "-u"
        ):
            shell(run, call, following)
        elif word.startswith(
            ("--upload-pack=", "--receive-pack=", "--tree-filter=", "--index-filter=", "--msg-filter=")
        ):
            shell(run, call, word.partition("=")[2])
        elif (
            word in ("--tree-filter", "--index-filter", "--msg-filter", "--env-filter", "--commit-filter")
            and following
        ):
            shell(run, call, following)
        elif word == "foreach" and following and index and words[index - 1] == "submodule":
            shell(
                run,
                call,
                " ".join(one for one in words[index + 1 :] if one not in ("--recursive", "-q", "--quiet")),
            )
            break
        elif word == "--":
            break
    if "archive" in words and any(word.startswith("--remote") for word in words):
        return UNKNOWN + REMOTE
    if "show" in words or "cat-file" in words:
        return UNKNOWN
    return UNKNOWN


def cmake(run: Interpreter, call: Call) -> str:
    """``cmake -E``: small tools of its own, and commands that it runs."""
    words = call.argv[1:]
    if words[:1] == ["-E"] and len(words) > 1:
        tool, rest = words[1], words[2:]
        if tool in ("env", "time"):
            while tool == "env" and rest and (rest[0][:1] == "-" or "=" in rest[0]):
                rest = rest[1:]
            return carried(run, call, rest)
        if tool == "chdir" and len(rest) > 1:
            return carried(run, msgspec.structs.replace(call, cwd=run.path(rest[0], call.cwd)), rest[1:])
        if tool in ("rm", "remove", "remove_directory"):
            flags = ["-r"] if tool == "remove_directory" else []
            return run.call(msgspec.structs.replace(call, argv=["rm", *flags, *rest]))
        tools = {
            "copy": "cp",
            "copy_if_different": "cp",
            "copy_directory": "cp",
            "touch": "touch",
            "make_directory": "mkdir",
        }
        if tool in tools:
            return run.call(msgspec.structs.replace(call, argv=[tools[tool], *rest]))
    return UNKNOWN


def options(*names: str) -> Handler:
    """A program that runs what one of its options says."""

    def handler(run: Interpreter, call: Call) -> str:
        words = call.argv[1:]
        for index, word in enumerate(words):
            name, equals, value = word.partition("=")
            if word in names and index + 1 < len(words):
                value = words[index + 1]
            elif not (equals and name in names):
                joined = next(
                    (
                        one
                        for one in names
                        if len(one) == 2 and word.startswith(one) and len(word) > 2 and one[1] != "-"
                    ),
                    None,
                )
                if joined is None:
                    continue
                value = word[2:]
            shell(run, call, re.sub(r"^exec=", "", value))
        from ._programs import PROGRAMS

        inner = PROGRAMS.get(call.name)
        return inner(run, call) if inner else UNKNOWN

    return handler


def fzf(run: Interpreter, call: Call) -> str:
    """fzf: what it shows with, and what keys are bound to."""
    words = call.argv[1:]
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        value = value if equals else words[index + 1] if index + 1 < len(words) else ""
        if name == "--preview":
            shell(run, call, value)
        elif name == "--bind":
            for found in run.first(_BOUND.finditer(value)):
                shell(run, call, found.group(1))
    return marks.kinds(call.stdin or "")


_BOUND = Lazy(r"(?:execute|execute-silent|become|reload|preview|transform)[(:{\[]([^)}\]]+)")


def deno(run: Interpreter, call: Call) -> str:
    words = [one for one in call.argv[1:] if not one.startswith("-")]
    if words and words[0] in ("eval", "run", "test", "serve", "install", "cache"):
        if words[0] == "eval" and len(words) > 1:
            return text(run, call, words[1], "Node")
        if len(words) > 1 and re.match(r"https?://", words[1]) and words[0] in ("run", "serve", "install"):
            run.note("remote-code", "runs what comes from the network")
    elif words:
        return _NODE(run, call)
    elif call.stdin:
        return text(run, call, call.stdin, "Node")
    return UNKNOWN


def bun(run: Interpreter, call: Call) -> str:
    if any(word in ("-e", "--eval", "-p", "--print") for word in call.argv[1:3]):
        return _BUN_CODE(run, call)
    if call.argv[1:] in ([], ["-"], ["run", "-"]) and call.stdin:
        return text(run, call, call.stdin, "Bun")
    return _BUN(run, call)


def debugger(run: Interpreter, call: Call) -> str:
    """gdb and lldb: what they are given to debug is run."""
    words = call.argv[1:]
    mark = "--args" if "--args" in words else "--"
    if mark in words[:-1]:
        inner = msgspec.structs.replace(call, argv=words[words.index(mark) + 1 :], stdin=None)
        run.subshell(partial(run.call, inner), captured=True)
    return editor(run, call)


def compiled(run: Interpreter, call: Call) -> str:
    """Compilers: a source that was written in the session, or comes in, is about to be run."""
    words = call.argv[1:]
    for word in words:
        if word[:1] == "-" and word != "-":
            continue
        held = call.stdin if word in ("-", "/dev/stdin") else written(run, run.path(word, call.cwd))
        if held and held.strip(_MARKS):
            text(run, call, held, "C")
        elif held and REMOTE in held and re.search(r"\.\w+$|^-$|stdin$", word):
            run.note("remote-code", "compiles what came from the network")
    if call.name == "go" and words[:1] in (["run"], ["test"], ["build"], ["install"], ["generate"]):
        for path in list(run.state.files):
            if path.endswith(".go") and path.startswith(call.cwd + "/"):
                held = written(run, path)
                if held and held.strip(_MARKS):
                    text(run, call, held, "C")
    if call.name == "go":
        return _GO(run, call)
    from ._programs import PROGRAMS

    inner = PROGRAMS.get(call.name)
    return inner(run, call) if inner else UNKNOWN


_MARKS = marks.ALL + " \n"


def piped(run: Interpreter, call: Call) -> str:
    """ImageMagick and its like: a name that begins with a bar is a command."""
    for word in call.argv[1:]:
        if word.rpartition(":")[2][:1] == "|":
            shell(run, call, word.partition("|")[2])
    return UNKNOWN


def tmux(run: Interpreter, call: Call) -> str:
    """tmux: the command that a new window runs."""
    _, rest = options_of(call.argv[1:], marks.names("-L -S -f -c"))
    if rest and rest[0] in (
        "new",
        "new-session",
        "neww",
        "new-window",
        "split-window",
        "splitw",
        "respawn-pane",
        "respawn-window",
        "popup",
        "display-popup",
    ):
        _, words = options_of(rest[1:], marks.names("-s -n -c -t -x -y -e -F -l -p -w -h -d-"))
        if words:
            shell(run, call, " ".join(words))
    elif rest and rest[0] in ("send-keys", "send", "run-shell", "run", "if-shell"):
        _, words = options_of(rest[1:], frozenset(("-t", "-d", "-N")))
        if words:
            shell(run, call, words[0])
    return UNKNOWN


_OPENED = Lazy(
    r":?\s*(?:silent!?\s+)?(e|ed|edit|r|read|tabe|tabedit|tabnew|sp|split|vs|vsplit|view|sview|badd|argadd|find|"
    r"new|vnew|w|write|wq|sav|saveas|so|source|pedit)!?\s+([/~.]\S+)"
)
_SPLITS = frozenset(("sp", "split", "sview", "so", "source"))


_VIM_DELETES = Lazy(
    r"\bcall\s+delete\s*\(|\(delete-(?:file|directory)\b|Delete!|vim\.fn\.delete\b|os\.remove"
)


def given(run: Interpreter, call: Call) -> str:
    """Compilers that also run code of the line: `crystal eval`, `nim --eval:`."""
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word == "eval" and index + 1 < len(words):
            return text(run, call, words[index + 1], "Crystal")
        if match := re.match(r"--eval[:=]", word):
            return text(run, call, word[match.end() :], "other")
    return marks.kinds(call.stdin or "")


def m4(run: Interpreter, call: Call) -> str:
    """m4: what `syscmd` and `esyscmd` run."""
    codes = [call.stdin or "", *call.argv[1:]]
    codes += [written(run, run.path(one, call.cwd)) or "" for one in call.argv[1:] if one[:1] != "-"]
    for code in codes:
        for match in run.first(re.finditer(r"\be?syscmd\(\s*[`\"]*([^'\")]+)", code)):
            shell(run, call, match.group(1))
    return marks.kinds(call.stdin or "")


def powershell(run: Interpreter, call: Call) -> str:
    """PowerShell: the programs of this machine that its text names."""
    words = call.argv[1:]
    code = ""
    for index, word in enumerate(words):
        if re.fullmatch(r"(?i)-{1,2}c(?:o\w*)?", word):
            code = " ".join(words[index + 1 :])
            break
    code = code or call.stdin or ""
    for piece in re.split(r"[;\n]|&&|\|\|?", re.sub(r"^\s*&\s*\{?", "", code)):
        first = piece.strip().strip("&{} ").split(" ")[0].strip("'\"").rpartition("/")[2]
        if first in NATIVE:
            run.subshell(partial(run.quietly, piece.strip().strip("&{} ")), captured=True)
    return text(run, call, code, "PowerShell") if code else UNKNOWN


def editor(run: Interpreter, call: Call) -> str:
    """vim and its like: commands that begin with an exclamation mark."""
    for index, word in enumerate(call.argv[1:], 1):
        following = call.argv[index + 1] if index + 1 < len(call.argv) else ""
        for one in (
            following if word in ("-c", "--cmd", "-ex", "--eval", "-eval", "-o") else "",
            word[1:] if word.startswith("+") else "",
        ):
            opened = _OPENED.match(one)
            if opened:
                op = ">" if opened.group(1)[:1] in "ws" and opened.group(1) not in _SPLITS else "<"
                run.sink.redirect(op, run.path(opened.group(2), call.cwd), UNKNOWN, call)
            script = re.match(
                r":?\s*(?:silent!?\s+)?(lua|luado|py\w*|perl|perldo|ruby|rubydo|tcl)\b\s*(.+)", one
            )
            if script:
                text(run, call, script.group(2), script.group(1).capitalize())
            match = re.match(r":?\s*(?:silent!?\s+)?(?:!|r!|r\s+!|platform shell|shell)\s*(.*)", one)
            if match and match.group(1):
                shell(run, call, match.group(1))
            if _VIM_DELETES.search(one):
                run.note("code-deletes", "code of an editor that deletes files")
            for found in re.findall(
                r"(?:system|call-process|shell-command|start-process)\s*\(?\s*" + STRING, one
            ):
                shell(run, call, unescape(found[0] or found[1]))
    return bang(run, call)


_EMACS = Inline("Lisp", "--eval -eval --execute", "-l --load -L --directory -f --funcall")


def emacs(run: Interpreter, call: Call) -> str:
    """emacs: its code, and files of the session that it loads; others are as any script on the disk."""
    words = call.argv[1:]
    for code in _EMACS.codes(words)[0]:
        _EMACS.look(run, call, code)
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("-l", "-load", "--load", "-script", "--script", "-x"):
            path = run.path(value if equals else words[index + 1] if index + 1 < len(words) else "", call.cwd)
            _EMACS(run, msgspec.structs.replace(call, argv=[call.argv[0], path]))
    return editor(run, call)


_PYTHONS = (
    "python python2 python3 python3.8 python3.9 python3.10 python3.11 "
    "python3.12 python3.13 python3.14 pypy pypy3 ipython ipython3 bpython "
    "micropython python2.7 py"
)

_GO = options("-exec", "-toolexec")
_BUN = Wrapper("sub:x|exec --bun")
_BUN_CODE = Inline("Bun", "-e --eval -p --print", "-r --preload", r"-[ip]*[ep]")
_NODE = Inline("Node", "-e --eval -p --print -pe", "-r --require --import -C --loader", r"-[ip]*[ep]")

CODE: dict[str, Handler] = {
    **dict.fromkeys(
        _PYTHONS.split(), Python("Python", "-c --command", "-W -X --check-hash-based-pycs -Q", r"-[a-zA-Z]*c")
    ),
    "perl": Inline("Perl", "-e -E", "-I -M -m -0", r"-[aclnpstuvwSTUWX0-9]*[eE]"),
    **dict.fromkeys(
        ("ruby", "jruby", "truffleruby", "irb", "pry"), Inline("Ruby", "-e", "-I -r -C", r"-[alnpswyvd0-9]*e")
    ),
    **dict.fromkeys(("node", "nodejs", "bun-x"), _NODE),
    "deno": deno,
    "bun": bun,
    **dict.fromkeys(("gdb", "lldb"), debugger),
    "php": Inline("PHP", "-r --run -B -R -E --process-code", "-d -c -f -z"),
    **dict.fromkeys(marks.names("lua luajit lua5.1 lua5.3 lua5.4"), Inline("Lua", "-e", "-l")),
    "osascript": Inline("AppleScript", "-e", "-l"),
    **dict.fromkeys(("Rscript", "R"), Inline("R", "-e")),
    **dict.fromkeys(
        marks.names("mongosh mongo gjs qjs d8 js jrunscript rhino tjs electron phantomjs"),
        Inline("Node", "-e --eval -c", "--host --port -f --file -u -p --username --password"),
    ),
    **dict.fromkeys(("tclsh", "tcl", "wish", "expect"), Inline("Tcl", "-c -e")),
    "m4": m4,
    **dict.fromkeys(("pwsh", "powershell"), powershell),
    "julia": Inline("Julia", "-e -E --eval --print", "-p -t -J -L"),
    **dict.fromkeys(
        marks.names(
            "groovy scala kotlin elixir erl iex ghc ghci runghc ocaml swift "
            "jshell raku gs pwsh-x nu-x gawk-x dart csharp csi dotnet-script fsharpi fsi"
        ),
        Inline("other", "-e -E --eval -eval -c -q --expr"),
    ),
    **dict.fromkeys(
        marks.names("racket guile sbcl clj clojure scheme bb ecl ccl clisp chicken csi gosh janet fennel hy"),
        Inline("Lisp", "-e -E --eval -eval -c -q --expr -x"),
    ),
    **dict.fromkeys(
        marks.names("swipl gprolog yap sicstus"), Inline("other", "-g -t --query-goal --goal -z")
    ),
    "maxima": Inline("other", "--batch-string -r --run-string"),
    "exiftool": Inline("Perl", "-if -if0 -p -d"),
    "octave": Inline("Octave", "--eval"),
    "matlab": Inline("Octave", "-batch -r"),
    "sage": Python("Python", "-c"),
    **dict.fromkeys(("gp", "v"), Inline("other", "-e")),
    **dict.fromkeys(("tsx", "ts-node", "coffee"), _NODE),
    "psysh": Inline("PHP", "-x"),
    "zx": Inline("Bun", "-e --eval"),
    "gnuplot": Inline("gnuplot", "-e"),
    **dict.fromkeys(("crystal", "nim"), given),
    **dict.fromkeys(marks.names("awk gawk mawk nawk original-awk"), awk),
    **dict.fromkeys(("sed", "gsed"), sed),
    **dict.fromkeys(marks.names("dc ed red ftp mail mailx telnet-x sftp-x bc-x"), bang),
    **dict.fromkeys(marks.names("vim vi nvim ex view nano gvim vimdiff rvim"), editor),
    **dict.fromkeys(("emacs", "emacsclient"), emacs),
    **dict.fromkeys(("sqlite3", "sqlite", "duckdb"), sqlite),
    **dict.fromkeys(marks.names("psql mysql mariadb mycli pgcli usql"), client),
    **dict.fromkeys(("make", "gmake"), make),
    "git": git,
    "tar": options(
        "--checkpoint-action", "--to-command", "-I", "--use-compress-program", "--info-script", "-F"
    ),
    "rsync": options("-e", "--rsh", "--rsync-path"),
    "man": options("-P", "--pager"),
    "sort": options("--compress-program"),
    "split": options("--filter"),
    "rg": options("--pre"),
    "npm-x": options("-c"),
    **dict.fromkeys(("tmux", "byobu"), tmux),
    **dict.fromkeys(
        marks.names("convert magick composite identify mogrify montage stream animate display gm"), piped
    ),
    **dict.fromkeys(
        marks.names(
            "go gcc cc g++ c++ clang clang++ tcc rustc javac java kotlinc zig swiftc fpc gfortran dmd ldc2"
        ),
        compiled,
    ),
    **dict.fromkeys(
        ("pytest", "py.test", "tox", "nox"),
        conventional("Python", r"conftest\.py", r"test_\w+\.py", r"noxfile\.py"),
    ),
    "rake": conventional("Ruby", "Rakefile", "rakefile"),
    **dict.fromkeys(("pip", "pip3", "pipx", "gem"), pip),
    **dict.fromkeys(("npm", "pnpm", "yarn"), npm),
    "rails": runner,
    "cargo": cargo,
    **dict.fromkeys(("coverage", "kernprof", "scalene", "viztracer", "pyinstrument"), profiled),
    "nodemon": options("--exec", "-x"),
    "cmake": cmake,
    **dict.fromkeys(("rpm", "rpmbuild", "rpmspec"), rpm),
    "fzf": fzf,
}
CODE = {name: handler for name, handler in CODE.items() if not name.endswith("-x")}


__all__ = ["CODE", "Inline", "text"]
