"""What the shell's own commands do to a session, and what they print."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from ._assign import MAX_ITEMS, attributes, settled
from ._call import Call
from ._carriers import written
from ._marks import ENVIRON, SECRET, SPLIT, UNKNOWN
from ._run import Interpreter
from ._words import ansi_unescape

Handler = Callable[[Interpreter, Call], str]
_NAME = Lazy(r"[A-Za-z_]\w*")
_FORMAT = Lazy(
    r"%(?:%|[-+ #0]*\d*(?:\.\d+)?([a-zA-Z])|\(([^)]*)\)T)|\\(?:x[0-9A-Fa-f]{1,2}|"
    r"0?[0-7]{1,3}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|.)|[^%\\]+|[%\\]",
    re.DOTALL,
)
_KEYWORDS = marks.names(
    "if then else elif fi for while until do done case esac in function select time { } ! [[ ]]"
)


def echo(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    newline, escapes = True, "xpg_echo" in run.state.options
    while words and re.fullmatch(r"-[neE]+", words[0]):
        newline = newline and "n" not in words[0]
        escapes = "e" in words[0] or (escapes and "E" not in words[0])
        words = words[1:]
    text = marks.plain(" ".join(words)).replace(SPLIT, UNKNOWN)
    if escapes and "\\" in text:
        text = ansi_unescape(re.sub(r"\\0([0-7]{1,3})", r"\\\1", text.partition("\\c")[0]))
    return text + "\n" if newline else text


def printf(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    variable = ""
    if words and words[0] == "--":
        words = words[1:]
    elif len(words) > 1 and words[0].startswith("-v"):
        variable, words = (words[0][2:], words[1:]) if len(words[0]) > 2 else (words[1], words[2:])
    text = format_text(words[0], words[1:], nul=run.nul and not variable) if words else ""
    if variable:
        name = re.match(r"[A-Za-z_]\w*", variable)
        run.expand.check_subscript(variable)
        if name:
            if name.group() == variable:
                run.set(variable, text)
            else:
                run.state.variables[name.group()] = [text, UNKNOWN]
        return ""
    return text


_NUL = Lazy(r"\\(?:0{1,4}|x0{1,2})")


def format_text(template: str, arguments: list[str], *, nul: bool = False) -> str:
    """Return what ``printf`` prints, bounded. ``nul``: with NULs, which no word or script has."""
    template = marks.plain(template)
    if marks.unknown(template) or any(SPLIT in one for one in arguments):
        return marks.kinds(template, *arguments)
    arguments = [marks.plain(one) for one in arguments]
    out: list[str] = []
    size = at = 0
    while True:
        used = at
        for match in _FORMAT.finditer(template):
            piece = match.group()
            if piece == "%%":
                out.append("%")
            elif piece[0] == "%" and match.group(1):
                value = arguments[used] if used < len(arguments) else ""
                used += 1
                kind = match.group(1)
                if kind in "sq":
                    out.append(_cut(piece, value))
                elif kind == "b":
                    out.append(ansi_unescape(value) if "\\" in value else value)
                elif kind == "c":
                    out.append(value[:1])
                elif kind in "di" and re.fullmatch(r"-?\d+", value or "0"):
                    out.append(value or "0")
                elif kind in "xXo" and (value or "0").isdigit():
                    out.append(format(int(value or "0"), kind))
                else:
                    out.append(marks.kinds(value))
            elif piece[0] == "%" and len(piece) > 1:
                out.append(UNKNOWN)
            elif nul and _NUL.fullmatch(piece):
                out.append("\0")
            elif piece[0] == "\\" and len(piece) > 1:
                out.append(ansi_unescape(re.sub(r"\\0([0-7]{1,3})", r"\\\1", piece)))
            else:
                out.append(piece)
            size += len(out[-1])
        if used >= len(arguments) or used == at:
            break
        at = used
        if size > 64 * 1024:
            out.append("\n" + marks.kinds(*arguments[at:]))
            break
    return "".join(out)


def _cut(piece: str, value: str) -> str:
    found = re.search(r"\.(\d+)", piece)
    return value[: int(found.group(1))] if found and not marks.marked(value) else value


def pwd(run: Interpreter, call: Call) -> str:
    return run.expand.whole(run.state.cwd) + "\n"


def cd(run: Interpreter, call: Call) -> str:
    run.count(2)  # the longer the way, the longer takes what follows
    state = run.state
    words = [one for one in call.argv[1:] if not re.fullmatch(r"-[LPe@]+|--", one)]
    if not words:
        home = state.variables.get("HOME", run.home)
        target = home if isinstance(home, str) else UNKNOWN
    elif words[0] == "-":
        target = state.previous
    else:
        target = words[0]
    search = state.variables.get("CDPATH")
    if words and isinstance(search, str) and search and not target.startswith(("/", ".", "~")):
        target = f"{search.split(':')[0]}/{target}"
    state.previous = state.cwd
    if marks.globbed(target):
        target = (
            target.replace(marks.STAR, UNKNOWN)
            .replace(marks.QUESTION, UNKNOWN)
            .replace(marks.BRACKET, UNKNOWN)
        )
    state.cwd = run.path(target) if target != UNKNOWN else UNKNOWN
    return state.cwd + "\n" if words and words[0] == "-" else ""


def pushd(run: Interpreter, call: Call) -> str:
    words = [one for one in call.argv[1:] if one != "-n"]
    if words and not re.fullmatch(r"[+-]\d+", words[0]):
        cd(run, call)
    else:
        run.state.cwd, run.state.previous = run.state.previous, run.state.cwd
    return UNKNOWN


def popd(run: Interpreter, call: Call) -> str:
    run.state.cwd, run.state.previous = run.state.previous, run.state.cwd
    return UNKNOWN


def declare(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    flags = "".join(one[1:] for one in words if one[:1] in "-+" and one != "--")
    names = [one for one in words if one[:1] not in "-+"]
    exported = [] if "f" in flags else ["+x"] if "n" in flags else ["-x"]
    options = exported if call.argv[0] == "export" else [one for one in words if one[:1] in "-+"]
    changed: dict[str, str] = {}
    for word in names:
        name, equals, value = word.partition("=")
        if name.endswith("+"):
            held = run.state.variables.get(name[:-1])
            name, value = name[:-1], (held if isinstance(held, str) else UNKNOWN) + value
        plain = re.match(r"[A-Za-z_]\w*", name)
        run.expand.check_subscript(name)
        if plain is None:
            continue
        attributes(run, options, plain.group())
        if "n" in flags and call.argv[0] != "export":
            run.expand.check_subscript(value)
            run.state.variables.pop(plain.group(), None)
            run.state.variables["&" + plain.group()] = (
                value if value.isidentifier() or not equals else "RANDOM"
            )
            continue
        arrays = "a" in flags or "A" in flags
        if not equals:
            if arrays and plain.group() == name:
                run.state.variables.setdefault(name, [])
            continue
        if value.startswith("(") and (arrays or isinstance(run.state.variables.get(plain.group()), list)):
            # Also one that was quoted is read, and what stands in it expanded, once more.
            run.script(f"{plain.group()}={marks.plain(value)}")
            if marks.unknown(value):
                run.state.variables[plain.group()] = [SPLIT]
            continue
        run.state.variables[plain.group()] = value
        value = settled(run, plain.group(), value)
        run.state.variables[plain.group()] = value if plain.group() == name else [value, UNKNOWN]
        changed[name] = value
    if changed:
        run.sink.command(msgspec.structs.replace(call, argv=[], env=changed, name=""))
    if call.argv[0] == "export" and ("p" in flags or not words):
        return UNKNOWN + ENVIRON
    if "p" in flags or "x" in flags or not words:
        return UNKNOWN + (SECRET if any(map(_secret, names)) else ENVIRON)
    return ""


def _secret(name: str) -> bool:
    from ._expand import secret_name

    return secret_name(name)


def unset(run: Interpreter, call: Call) -> str:
    functions = "-f" in call.argv
    for word in call.argv[1:]:
        if word.startswith("-"):
            continue
        run.expand.check_subscript(word)
        if functions:
            run.state.functions.pop(word, None)
        else:
            run.state.variables[word] = None
            run.state.options.discard("export " + word)
            run.state.functions.pop(word, None)
    return ""


def read(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    names: list[str] = []
    array = ""
    descriptor = ""
    index = 0
    while index < len(words):
        word = words[index]
        if re.fullmatch(r"-[ers]*[adinNptu]", word):
            if word[-1] == "a" and index + 1 < len(words):
                array = words[index + 1]
            if word[-1] == "u" and index + 1 < len(words):
                descriptor = words[index + 1]
            index += 2
            continue
        if not word.startswith("-"):
            names.append(word)
        index += 1
    text = call.stdin
    if descriptor:
        text = run.state.descriptors.get(descriptor) or run.state.files.get(f"/dev/fd/{descriptor}")
    if text is None:
        text = UNKNOWN
    lines = text.split("\n")
    # In a loop each line comes once: with more than one they are not told apart.
    line = lines[0] if len([one for one in lines if one]) <= 1 or not run.forever else marks.kinds(text)
    several = [one for one in lines if one]
    pieces_of = several if len(set(several)) > 1 else [line]
    line = pieces_of[0]
    if marks.unknown(line):
        line = marks.output(line)
    _, split = None, run.expand._separators()
    if array:
        pieces, _, _ = split(line)
        run.state.variables[array] = pieces
        return ""
    for number, name in enumerate(names or ["REPLY"]):
        run.expand.check_subscript(name)
        if not names or len(names) == 1:
            run.set(name, line.strip(" \t"))
            continue
        pieces, _, _ = split(line)
        if len(pieces_of) > 1:
            run.state.variables[name] = marks.output(marks.kinds(text))
        elif any(marks.unknown(one) for one in pieces):
            run.state.variables[name] = marks.output(marks.kinds(line))
        elif number == len(names) - 1:
            run.state.variables[name] = " ".join(pieces[number:])
        else:
            run.state.variables[name] = pieces[number] if number < len(pieces) else ""
    if names and len(names) == 1 and len(pieces_of) > 1:
        run.state.variables[names[0]] = marks.output(marks.kinds(text))
    if run.looped and marks.unknown(text):
        for name in names or ["REPLY"]:
            held = run.state.variables.get(name)
            if isinstance(held, str) and marks.unknown(held):
                run.state.variables[name] = held + marks.FOUND  # each of a list, one after the other
    return ""


def mapfile(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    names = [
        one
        for index, one in enumerate(words)
        if not one.startswith("-")
        and (index == 0 or words[index - 1] not in ("-d", "-n", "-O", "-s", "-u", "-C", "-c"))
    ]
    for index, word in enumerate(words):
        if word == "-C" and index + 1 < len(words):
            run.script(words[index + 1])
    lines = (call.stdin if call.stdin is not None else UNKNOWN).split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    run.state.variables[names[0] if names else "MAPFILE"] = [
        marks.output(one) for one in run.first(lines, MAX_ITEMS)
    ]
    return ""


_LETTERS = {
    "a": "allexport",
    "b": "notify",
    "e": "errexit",
    "f": "noglob",
    "h": "hashall",
    "k": "keyword",
    "m": "monitor",
    "n": "noexec",
    "p": "privileged",
    "t": "onecmd",
    "u": "nounset",
    "v": "verbose",
    "x": "xtrace",
    "B": "braceexpand",
    "C": "noclobber",
    "E": "errtrace",
    "H": "histexpand",
    "P": "physical",
    "T": "functrace",
}


def set_(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    if not words:
        return UNKNOWN + ENVIRON
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            run.state.parameters = ("bash", *words[index + 1 :])
            return ""
        if word[:1] in "-+" and word[1:2] != "-":
            for letter in word[1:]:
                if letter in _LETTERS:
                    (run.state.options.add if word[0] == "-" else run.state.options.discard)(_LETTERS[letter])
        if word in ("-o", "+o"):
            if index + 1 < len(words):
                (run.state.options.add if word == "-o" else run.state.options.discard)(words[index + 1])
            index += 2
            continue
        if word[:1] in "-+" and len(word) > 1:
            index += 1
            continue
        run.state.parameters = ("bash", *words[index:])
        return ""
    return ""


def shift(run: Interpreter, call: Call) -> str:
    count = int(call.argv[1]) if len(call.argv) > 1 and call.argv[1].isdigit() else 1
    if run.state.parameters is not None:
        run.state.parameters = (*run.state.parameters[:1], *run.state.parameters[1 + count :])
    return ""


def alias(run: Interpreter, call: Call) -> str:
    for word in call.argv[1:]:
        name, equals, value = word.partition("=")
        if equals:
            run.state.aliases[name] = value
            if value.strip():
                # With a word after it, as it will be used.
                run.subshell(partial(run.script, f"{value} {UNKNOWN}"), captured=True)
    return ""


def unalias(run: Interpreter, call: Call) -> str:
    if "-a" in call.argv:
        run.state.aliases.clear()
    for word in call.argv[1:]:
        run.state.aliases.pop(word, None)
    return ""


def shopt(run: Interpreter, call: Call) -> str:
    for word in call.argv[1:]:
        if not word.startswith("-"):
            (run.state.options.add if "-s" in call.argv else run.state.options.discard)(word)
    return ""


def eval_(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    if words and words[0] == "--":
        words = words[1:]
    return run.script(marks.plain(" ".join(words)), call.stdin) if words else ""


def source(run: Interpreter, call: Call) -> str:
    words = [one for one in call.argv[1:] if one != "--"]
    if not words or words == ["-"]:
        if call.stdin is not None and marks.REMOTE in call.stdin:
            run.note("remote-code", "runs what comes from the network")
        return ""
    path = run.path(words[0])
    if path in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        text: str | None = call.stdin if call.stdin is not None else UNKNOWN
    else:
        text = written(run, path) if path in run.state.files or marks.globbed(path) else None
    if text is None:
        if run.sink.secret(path):
            return ""
        return UNKNOWN
    saved = run.state.parameters
    if len(words) > 1:
        run.state.parameters = ("bash", *words[1:])
    if text == UNKNOWN and not path.startswith("/dev/"):
        run.note("written-code", "runs a file whose text, written in this session, is not known")
        return UNKNOWN
    out = run.script(text, call.stdin)
    if len(words) > 1:
        run.state.parameters = saved
    return out


def exec_(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] == "-a" else words[1:]
    if words:
        return run.call(msgspec.structs.replace(call, argv=words))
    return ""


def command(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    look = False
    while words and words[0].startswith("-"):
        look = look or "v" in words[0].lower()
        words = words[1:]
    if look or not words:
        return "".join(f"/usr/bin/{one}\n" for one in words)
    if words[0] in run.state.functions and call.argv[0] == "command":
        held = run.state.functions.pop(words[0])
        try:
            return run.call(msgspec.structs.replace(call, argv=words))
        finally:
            run.state.functions[words[0]] = held
    return run.call(msgspec.structs.replace(call, argv=words))


def which(run: Interpreter, call: Call) -> str:
    return "".join(f"/usr/bin/{one}\n" for one in call.argv[1:] if not one.startswith("-"))


def trap(run: Interpreter, call: Call) -> str:
    words = [one for one in call.argv[1:] if one not in ("--", "-p", "-l", "-P")]
    if len(words) > 1 and words[0] not in ("-", ""):
        run.subshell(partial(run.script, marks.plain(words[0])))
    return ""


def test(run: Interpreter, call: Call) -> str:
    for index, word in enumerate(call.argv):
        if word in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
            for near in call.argv[index - 1 : index + 2 : 2]:
                run.expand.check_arithmetic(near)
        if word == "-v" and index + 1 < len(call.argv):
            run.expand.check_arithmetic(call.argv[index + 1])
    return ""


def let(run: Interpreter, call: Call) -> str:
    for word in call.argv[1:]:
        name, equals, value = word.partition("=")
        run.expand.check_arithmetic(word)
        if equals and _NAME.fullmatch(name):
            run.state.variables[name] = value if value.isdigit() else UNKNOWN
    return ""


def hash_(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    if words and words[0] == "-t":
        return "".join(f"/usr/bin/{one}\n" for one in words[1:])
    if len(words) >= 3 and words[0] == "-p":
        run.state.links["hash:" + words[2]] = run.path(words[1])
    return ""


def complete(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word == "-W" and index + 1 < len(words):
            run.expand.check_arithmetic(words[index + 1])
        if word == "-C" and index + 1 < len(words):
            run.subshell(partial(run.script, words[index + 1]))
    return UNKNOWN


def bind(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word == "-x" and index + 1 < len(words):
            text = words[index + 1].partition(":")[2]
            run.subshell(partial(run.script, text), captured=True)
    return ""


def wait(run: Interpreter, call: Call) -> str:
    for index, word in enumerate(call.argv[1:-1], 1):
        if word[:1] == "-" and word[-1:] == "p":
            run.expand.check_subscript(call.argv[index + 1])
    return ""


def jobs(run: Interpreter, call: Call) -> str:
    if call.argv[1:2] == ["-x"] and len(call.argv) > 2:
        return run.call(msgspec.structs.replace(call, argv=call.argv[2:]))
    return UNKNOWN


def fix(run: Interpreter, call: Call) -> str:
    """What ``fc`` edits or repeats is in the history, which is not known."""
    flags = "".join(one[1:] for one in call.argv[1:] if re.fullmatch(r"-[a-z]+", one))
    if "l" not in flags or "s" in flags:
        run.note("unknown-code", "runs commands of the history again")
    return UNKNOWN


def nothing(run: Interpreter, call: Call) -> str:
    return ""


BUILTINS: dict[str, Handler] = {
    "echo": echo,
    "printf": printf,
    "pwd": pwd,
    "cd": cd,
    "chdir": cd,
    "pushd": pushd,
    "popd": popd,
    "declare": declare,
    "typeset": declare,
    "local": declare,
    "export": declare,
    "readonly": declare,
    "unset": unset,
    "read": read,
    "mapfile": mapfile,
    "readarray": mapfile,
    "set": set_,
    "shift": shift,
    "alias": alias,
    "unalias": unalias,
    "shopt": shopt,
    "eval": eval_,
    "source": source,
    ".": source,
    "exec": exec_,
    "command": command,
    "builtin": command,
    "which": which,
    "type": which,
    "bind": bind,
    "trap": trap,
    "test": test,
    "[": test,
    "let": let,
    "hash": hash_,
    "complete": complete,
    "compgen": complete,
    "wait": wait,
    "jobs": jobs,
    "fc": fix,
    **dict.fromkeys(
        marks.names("true false : exit return break continue sleep kill umask"),
        nothing,
    ),
}
