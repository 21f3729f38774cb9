"""Commands that run other commands: wrappers, shells, xargs, find, ssh, containers and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from . import _paths as paths
from ._call import Call
from ._marks import FOUND, OUTPUT, REMOTE, SPLIT, UNKNOWN
from ._nodes import quoted
from ._nodes import written as _written
from ._options import items_of, options_of
from ._run import BINARY, Interpreter
from ._state import State
from ._syntax import Unparsable

Handler = Callable[[Interpreter, Call], str]
_ASSIGN = Lazy(r"([^=\s-][^=\s]*)=(.*)", re.DOTALL)


class Wrapper:
    """A program that runs the rest of its line as a command, as the table in the rules file says.

    The table's text: options that take a value; ``@N`` for N operands before the command; ``=`` where
    assignments may
    stand before it; ``text:-c`` an option whose value is shell text; ``join`` where the rest is shell text,
    ``each`` where each of its words is; ``root``
    and ``in:remote`` or ``in:container`` for where it runs.
    """

    def __init__(self, spec: str) -> None:
        words = spec.split()
        self.valued = frozenset(one.removeprefix("text:") for one in words if one.startswith(("-", "text:")))
        self.texts = frozenset(one.removeprefix("text:") for one in words if one.startswith("text:"))
        self.skip = next((int(one[1:]) for one in words if one[0] == "@"), 0)
        self.assigns = "=" in words
        self.join = "join" in words
        self.each = "each" in words
        self.root = "root" in words
        self.sub = next((one.removeprefix("sub:").split("|") for one in words if one.startswith("sub:")), [])
        self.place = next((one.removeprefix("in:") for one in words if one.startswith("in:")), "")
        self.dash = "dash" in words
        self.fallback = next((one.removeprefix("else:") for one in words if one.startswith("else:")), "")

    def __call__(self, run: Interpreter, call: Call) -> str:
        if (
            call.stdin
            and call.stdin.strip()
            and (call.name == "script" or call.argv[:2] == ["unbuffer", "-p"])
        ):
            run.typed, held = True, run.typed
            try:
                if self.texts.isdisjoint(one.partition("=")[0][:2] for one in call.argv):
                    # What it reads is typed to a shell.
                    run.subshell(partial(run.script, marks.plain(call.stdin)))
                return self._carried(run, call)
            finally:
                run.typed = held
        return self._carried(run, call)

    def _carried(self, run: Interpreter, call: Call) -> str:
        words = call.argv[1:]
        if self.sub:
            # `npm exec -- x`: the sub-command comes before the command, with options before and after it
            _, rest = options_of(words, self.valued)
            if not rest or rest[0] not in self.sub:
                return marks.kinds(call.stdin or "")
            words = rest[1:]
        if self.dash:
            # Only what follows `--` is the command.
            if "--" not in words:
                return marks.kinds(call.stdin or "")
            words = words[words.index("--") :]
        found, rest = options_of(words, self.valued)
        out = ""
        for name, value in found:
            if name in self.texts and value:
                out = run.subshell(partial(run.script, marks.plain(value), call.stdin))
        env = dict(call.env)
        if self.assigns:
            at = 0
            while at < len(rest) and (match := _ASSIGN.fullmatch(rest[at])):
                env[match.group(1)] = match.group(2)
                at += 1
            rest = rest[at:]
        rest = rest[self.skip :]
        if self.skip and rest and rest[0] == "--":
            rest = rest[1:]
        if self.skip and self.texts and len(rest) >= 2 and rest[0] in self.texts:
            return run.subshell(partial(run.script, marks.plain(rest[1]), call.stdin))
        cwd = next((value for name, value in found if name in ("-C", "--chdir", "-D") and value), "")
        if (
            call.name in _KEEPERS
            and rest
            and rest[0].rpartition("/")[2] in ("env", "printenv", "set", "export")
        ):
            run.note("show-secret", "prints credentials of a store")
        inner = msgspec.structs.replace(
            call,
            env=env,
            cwd=run.path(cwd, call.cwd) if cwd else call.cwd,
            root=call.root or self.root,
            place=self.place or call.place,
        )
        if not rest:
            if self.fallback and not out:
                inner.argv = self.fallback.split(",")
                return run.call(inner)
            return out or UNKNOWN
        if self.each:
            for one in run.first(rest):
                if one[:1] != "-":
                    out = carried(run, inner, [one], joined=True)
            return out
        # No program has a name with spaces: that is a line for a shell.
        return carried(run, inner, rest, joined=self.join or (len(rest) == 1 and " " in rest[0].strip()))


_KEEPERS = marks.names("op aws-vault doppler chamber infisical sops teller envchain summon berglas vault-env")


def carried(
    run: Interpreter,
    call: Call,
    words: list[str],
    *,
    joined: bool = False,
    given: Mapping[str, str] | None = None,
) -> str:
    """Follow words that another command runs, or text that it gives to a shell, with variables set there."""

    def action() -> str:
        held = run.place, run.root
        run.place, run.root = call.place, call.root
        run.state.cwd = call.cwd
        run.state.variables.update(call.env)
        run.state.variables.update(given or {})
        try:
            if joined:
                return run.script(marks.plain(" ".join(words)), call.stdin)
            if not words:
                return ""
            return run.call(msgspec.structs.replace(call, argv=words))
        finally:
            run.place, run.root = held

    if call.place == "":
        return run.subshell(action)
    elsewhere = State(None, "~" if call.place == "remote" else "/work")
    elsewhere.aliases = {}
    return run.within(elsewhere, action)


def env(run: Interpreter, call: Call) -> str:
    """``env``, whose ``-S`` splits a text into words, and which prints the environment when it runs
    nothing.
    """
    words = call.argv[1:]
    for index, word in enumerate(words):
        match = re.fullmatch(r"-[iv0]*S(.*)|--split-string=(.*)|--split-string", word, re.DOTALL)
        if match:
            text = match.group(1) or match.group(2) or ""
            rest = words[index + 1 :]
            if not text and rest:
                text, rest = rest[0], rest[1:]
            text = text.replace("\\_", " ")
            pieces = _split(text)
            return env(run, msgspec.structs.replace(call, argv=["env", *words[:index], *pieces, *rest]))
        if not word.startswith("-"):
            break
    inner = _ENV(run, call)
    _, rest = options_of(words, _ENV.valued)
    return inner if any(_ASSIGN.fullmatch(one) is None for one in rest) else UNKNOWN + marks.ENVIRON


def _split(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError as error:
        raise Unparsable("a text that is split into words has an open quote") from error


_ENV = Wrapper("-u --unset -C --chdir --argv0 -a = ")


# Shells

_SHELL_VALUED = frozenset(("-O", "+O", "-o", "+o", "--rcfile", "--init-file"))


def shell(run: Interpreter, call: Call) -> str:
    """A shell: its text, its file, or its input."""
    words = call.argv[1:]
    index = 0
    text_wanted = stdin_wanted = False
    while index < len(words):
        word = words[index]
        if word in ("--", "-"):
            index += 1
            break
        if word[:1] not in "-+" or len(word) < 2:
            break
        if word in ("--rcfile", "--init-file") and index + 1 < len(words):
            _file(run, call, run.path(words[index + 1], call.cwd))
        if word in _SHELL_VALUED or (not word.startswith("--") and word[-1] in "oO"):
            index += 1
        if not word.startswith("--") and word[0] == "-":
            text_wanted = text_wanted or "c" in word
            stdin_wanted = stdin_wanted or "s" in word
        elif word in ("--command", "--commands"):
            text_wanted = True
        elif word.startswith(("--command=", "--init-command=")):
            return _text(run, call, word.partition("=")[2], [])
        index += 1
    rest = words[index:]
    flags = "".join(one[1:] for one in words[:index] if re.fullmatch(r"-[a-zA-Z]+", one))
    if "n" in flags and "i" not in flags and call.name not in ("nu", "xonsh"):
        return UNKNOWN  # only looks for mistakes
    if text_wanted:
        if not rest:
            return UNKNOWN
        if rest[0] == "--" and len(rest) > 1:
            rest = rest[1:]
        return _text(run, call, rest[0], rest[1:])
    if rest and not stdin_wanted:
        path = run.path(rest[0], call.cwd)
        if path not in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            if (SPLIT in rest[0] and OUTPUT in rest[0]) or FOUND in rest[0]:
                run.note("unknown-code", "which file the shell runs is not known")
            return _file(run, call, path, rest)
        rest = rest[1:]
    if call.stdin is None:
        return UNKNOWN
    text = call.stdin
    if not text.strip():
        return ""
    if marks.marked(text) and not text.strip(_ALL_MARKS):
        if REMOTE in text:
            run.note("remote-code", "a shell runs what comes from the network")
        elif marks.DECODED in text:
            run.note("decoded-code", "a shell runs what was decoded from an unreadable text")
        else:
            run.note("unknown-code", "a shell runs commands that are not known")
        return UNKNOWN
    return _text(run, call, text, rest, name="bash")


_ALL_MARKS = marks.ALL + " \n"


def _text(run: Interpreter, call: Call, text: str, parameters: list[str], name: str = "") -> str:
    this = (text, tuple(parameters))
    if this in run.scripts and run.parallel:
        run.note("fork-bomb", "a script starts itself over and over", "block")
        return UNKNOWN
    if this in run.scripts or sum(one == text for one, _ in run.scripts) > 3:
        run.note("computed-command", "a script calls itself over and over")
        return UNKNOWN

    def action() -> str:
        run.state.aliases = {}
        run.state.cwd = call.cwd
        first = [name] if name else []
        run.state.parameters = tuple(first + parameters) or ("bash",)
        if SPLIT in "".join(parameters):
            run.state.parameters = (*run.state.parameters, SPLIT)
        return run.script(marks.plain(text), None if name else call.stdin)

    run.scripts.append(this)
    parallel, run.parallel = run.parallel, 0
    try:
        return run.subshell(action)
    finally:
        run.parallel = parallel
        run.scripts.pop()


def _file(run: Interpreter, call: Call, path: str, words: list[str] | None = None) -> str:
    """A script of the session, or one that cannot be seen."""
    text = written(run, path)
    if text is None:
        return UNKNOWN
    if not text.strip(_ALL_MARKS):
        unseen(run, text)
        return UNKNOWN
    return _text(run, call, text, words or [], "" if words else "bash")


def written(run: Interpreter, path: str) -> str | None:
    """Return the text of a file that was written in the session; None for any other."""
    text = _written(run.state, path)
    if text is None or marks.BEFORE not in text:
        return text
    from ._before import later

    return later(run, path, text)


def unseen(run: Interpreter, text: str) -> None:
    """Ask about running a file whose text is not known."""
    if REMOTE in text:
        run.note("remote-code", "runs a file that came from the network")
    elif marks.DECODED in text:
        run.note("decoded-code", "runs a file that was decoded from an unreadable text")
    else:
        run.note("written-code", "runs a file whose text, written in this session, is not known")


def file(run: Interpreter, call: Call) -> str:
    """A program that is a file of the session: follow it by its first line."""
    text = written(run, run.path(call.argv[0], call.cwd))
    if text is None:
        return UNKNOWN
    if not text.strip(_ALL_MARKS):
        if text:
            unseen(run, text)
        return UNKNOWN
    first = text.partition("\n")[0]
    if first.startswith(BINARY):
        return run.call(msgspec.structs.replace(call, argv=[first.removeprefix(BINARY), *call.argv[1:]]))
    match = re.match(r"#!\s*(\S+)(?:\s+(?:-S\s+)?(\S+))?", first)
    program = "sh"
    if match:
        program = match.group(1).rpartition("/")[2]
        if program == "env" and match.group(2):
            program = match.group(2)
    if program in SHELLS:
        return _text(
            run,
            call,
            text,
            call.argv[1:] and [call.argv[0], *call.argv[1:]],
            "" if call.argv[1:] else call.argv[0],
        )
    handler = run.handlers.get(program)
    if handler is None:
        return UNKNOWN
    return handler(
        run, msgspec.structs.replace(call, argv=[program, call.argv[0], *call.argv[1:]], name=program)
    )


# xargs, find, parallel


def xargs(run: Interpreter, call: Call) -> str:
    found, rest = options_of(call.argv[1:], _XARGS)
    stdin = call.stdin
    replace = ""
    separator = ""
    for name, value in found:
        if name in ("-a", "--arg-file"):
            stdin = run.reading(run.path(value, call.cwd))
        elif name in ("-I", "--replace", "-i", "-J"):
            replace = value or "{}"
        elif name in ("-0", "--null") or re.fullmatch(r"-[a-zA-Z]*0[a-zA-Z]*", name):
            separator = "\0"
        elif name in ("-d", "--delimiter"):
            separator = value.replace("\\n", "\n").replace("\\0", "\0").replace("\\t", "\t")
    text = stdin if stdin is not None else UNKNOWN
    if separator:
        items = [one for one in text.split(separator) if one]
    elif replace:
        items = [one.strip() for one in text.split("\n") if one.strip()]
    else:
        items = items_of(text)
    words = rest or ["echo"]
    alone = replace and words[0].rpartition("/")[2] not in ("rm", "unlink", "shred")
    if replace and _names_only(text, words):
        items = [one if marks.unknown(one) else marks.output(one) for one in items]
    else:
        items = [marks.output(one) for one in items]
    items = [one.replace(OUTPUT, OUTPUT + ("" if alone else SPLIT)) for one in items]
    out: list[str] = []
    inner = msgspec.structs.replace(call, stdin=None)
    if replace:
        # What is a text for a shell, or the command itself, is judged by itself.
        own = words[0].rpartition("/")[2] in SHELLS or replace in words[0]
        more = [] if own else items[20:]
        for item in run.first(items if own else items[:20]) if items else [UNKNOWN]:
            out.append(carried(run, inner, [one.replace(replace, item) for one in words]))
        if more:  # all of them at once
            each = [
                [one.replace(replace, item) for item in more] if replace in one else [one] for one in words
            ]
            out.append(carried(run, inner, [word for several in each for word in several]))
    else:
        out.append(carried(run, inner, [*words, *items]))
        first = next(
            (value for name, value in found if name in ("-n", "--max-args", "-L", "--max-lines", "-l")), ""
        )
        if first and len(items) > 1:
            for item in run.first(items):
                out.append(carried(run, inner, [*words, item]))
    return "".join(out)


_HARMS = Lazy(r"\b(?:rm|unlink|shred|kill|mv|chmod|chown|dd|truncate|eval|sh|bash|source|curl|git)\b")


def _names_only(text: str, words: list[str]) -> bool:
    """Say whether names of files are put into a text for a shell where they do no harm."""
    if words[0].rpartition("/")[2] in SHELLS:
        words = words[1:]
        if words[:1] != ["-c"]:
            return False
    return not text.strip(UNKNOWN + FOUND + " \n\0") and not _HARMS.search(" ".join(words))


def _same(value: str, match: re.Match[str]) -> str:
    return value


_XARGS = marks.names(
    "-a --arg-file -d --delimiter -E -I -J -L --max-lines -n --max-args -P --max-procs -s --max-chars -R -S "
    "--process-slot-var"
)


def find(run: Interpreter, call: Call) -> str:
    """``find``: what ``-exec`` runs, on paths below where it starts."""
    words = call.argv[1:]
    starts: list[str] = []
    index = 0
    while index < len(words) and words[index] in ("-H", "-L", "-P"):
        index += 1
    while index < len(words) and words[index][:1] not in ("-", "(", "!"):
        starts.append(words[index])
        index += 1
    secret = ending = ""
    for place, word in enumerate(words[:-1]):
        if word == "-name":
            ending = "" if words[place - 1] in ("!", "-not") else marks.plain(words[place + 1])
            ending = re.split(r"[*?\]]", ending)[-1]
        if word in ("-name", "-iname") and SECRETS.fullmatch(marks.plain(words[place + 1])):
            if any(paths.everything(run.path(one, call.cwd)) for one in starts):
                secret = "~/.ssh/id_rsa"
        elif word in ("-name", "-iname") and "*" not in words[place + 1]:
            named = f"{(starts or ['.'])[0].rstrip('/')}/{UNKNOWN}/{words[place + 1]}"
            if run.sink.secret(run.path(named, call.cwd)):
                secret = named
    while index < len(words):
        if words[index] in ("-exec", "-execdir", "-ok", "-okdir"):
            stop = index + 1
            while (
                stop < len(words)
                and words[stop] != ";"
                and not (words[stop] == "+" and words[stop - 1] == "{}")
            ):
                stop += 1
            command = words[index + 1 : stop]
            cwd = call.cwd
            found = secret or f"{(starts or ['.'])[0]}/{UNKNOWN}"
            if words[index] in ("-execdir", "-okdir"):
                cwd = run.path(found, cwd)
                found = f"./{UNKNOWN}"
            if not secret:
                found += FOUND + ending
            inner = msgspec.structs.replace(call, stdin=None, cwd=cwd)
            carried(run, inner, [one.replace("{}", found) for one in command])
            index = stop
        index += 1
    if secret:
        return f"{secret}\n"
    for one in starts:
        if run.sink.secret(run.path(one, call.cwd)):
            return f"{one}/{UNKNOWN}{FOUND}{ending}\n"
    return UNKNOWN + FOUND + (marks.EVERY if _every(run, call, starts, words) else "")


SECRETS = Lazy(
    r"(?:id_(?:\*|rsa|ed25519|ecdsa|dsa)\*?|credentials?(?:\*|\.json)?|\*credentials?\*|\*\.(?:pem|key|p12|pfx|kdbx|ppk)|"
    r"\.env\*?|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|wallet\*|\*wallet\*|\*passw\w*\*|\*secrets?\*)"
)


def _every(run: Interpreter, call: Call, starts: list[str], words: list[str]) -> bool:
    """Say whether all files of the system, or of a home, are listed."""
    narrows = words[len(starts) :]
    plain = all(
        one
        in (
            "-type",
            "f",
            "d",
            "l",
            "-print",
            "-print0",
            "-depth",
            "-mindepth",
            "-xdev",
            "-L",
            "-mount",
            "-o",
            "-name",
            "*",
        )
        or one.isdigit()
        for one in narrows
    )
    return plain and any(paths.everything(run.path(one, call.cwd)) for one in starts)


def fd(run: Interpreter, call: Call) -> str:
    """``fd -x command`` and ``-X``."""
    words = call.argv[1:]
    operands = [one for one in words if one[:1] != "-"]
    base = operands[1] if len(operands) > 1 else "."
    named = f"{base}/{UNKNOWN}/{operands[0]}" if operands else ""
    secret = named if named and run.sink.secret(run.path(named, call.cwd)) else ""
    if len(operands) > 1 and run.sink.secret(run.path(base, call.cwd)):
        secret = f"{base}/{UNKNOWN}"
    for index, word in enumerate(words):
        if word in ("-x", "--exec", "-X", "--exec-batch"):
            rest = [one for one in words[index + 1 :] if one != ";"]
            deletes = rest[:1] and rest[0].rpartition("/")[2] in ("rm", "unlink", "shred")
            given = [one for one in words[:index] if one[:1] != "-" and one not in ("f", "d", "l")]
            if deletes and given[:1] in ([], ["."]):  # whatever its name is
                for one in given[1:] or ["."]:
                    if paths.everything(run.path(one, call.cwd)) and call.place != "container":
                        run.note("delete-everything", "deletes every file of the system or a home", "block")
            filled = [
                one.replace("{}", secret or (UNKNOWN + OUTPUT + SPLIT if deletes else UNKNOWN + FOUND))
                for one in rest
            ]
            carried(
                run,
                msgspec.structs.replace(call, stdin=None),
                filled if filled != rest else [*rest, secret or UNKNOWN + OUTPUT + SPLIT],
            )
            break
    return f"{secret}\n" if secret else UNKNOWN


def parallel(run: Interpreter, call: Call) -> str:
    """GNU parallel: a template and arguments, or whole command lines as arguments or input."""
    words = call.argv[1:]
    values: list[str] = []
    for index, word in enumerate(words):
        if word in (":::", ":::+", "::::"):
            values = (
                [UNKNOWN]
                if word == "::::"
                else [one for one in words[index + 1 :] if one not in (":::", ":::+")]
            )
            words = words[:index]
            break
    _, template = options_of(words, _PARALLEL)
    if call.name == "sem" and not template:
        return UNKNOWN
    if not values:
        text = call.stdin if call.stdin is not None else UNKNOWN
        values = [one for one in text.split("\n") if one]
    inner = msgspec.structs.replace(call, stdin=None)
    for value in run.first(values):
        if not (template and _names_only(value, template)):
            value = marks.output(value)
        line = " ".join(template)
        if not line:
            carried(run, inner, [value], joined=True)
        elif "{" in line:
            carried(run, inner, [re.sub(r"\{[.#/%0-9]*\}", partial(_same, value), line)], joined=True)
        else:
            carried(run, inner, [f"{line} {value}"], joined=True)
    return UNKNOWN


_PARALLEL = marks.names(
    "-j --jobs -S --sshlogin -a --arg-file -n --max-args -N -L -d "
    "--delimiter --colsep -C --delay --timeout --retries --results "
    "--joblog --workdir --wd --env --tagstring --tmpdir -I --halt --load --memfree -P"
)


# Other machines and containers


def ssh(run: Interpreter, call: Call) -> str:
    found, rest = options_of(call.argv[1:], _SSH)
    for name, value in found:
        if name == "-o":
            key, _, text = value.partition("=") if "=" in value else value.partition(" ")
            if key.strip().lower() in ("proxycommand", "localcommand", "knownhostscommand"):
                run.note("ssh-command", f"ssh option {key.strip()} runs a command on this machine")
                run.subshell(partial(run.script, marks.plain(text)))
    inner = msgspec.structs.replace(call, place="remote")
    if len(rest) > 1:
        second, words = options_of(rest[1:], _SSH)
        del second
        carried(run, inner, words, joined=True)
    elif rest and call.stdin is not None and call.stdin.strip():
        shell(run, msgspec.structs.replace(inner, argv=["sh"]))
    return UNKNOWN + REMOTE


_SSH = frozenset(f"-{letter}" for letter in "bcDEeFIiJLlmOopQRSWwB")


def su(run: Interpreter, call: Call) -> str:
    """``su`` and ``runuser``: the text of ``-c``, or what comes in."""
    words = call.argv[1:]
    inner = msgspec.structs.replace(call, root=True)
    for index, word in enumerate(words):
        if word.startswith("--command="):
            return carried(run, inner, [word.partition("=")[2]], joined=True)
        takes = word in ("--command", "--session-command") or re.fullmatch(r"-[a-z]*c", word)
        if takes and index + 1 < len(words):
            return carried(run, inner, [words[index + 1]], joined=True)
        if word == "--" and call.name == "runuser":
            return carried(run, inner, words[index + 1 :])
    if call.stdin and call.stdin.strip(_ALL_MARKS):
        return shell(run, msgspec.structs.replace(inner, argv=["sh"]))
    return UNKNOWN


_SEARCHES = marks.names(
    "run scan test new lsp completions help -p --pattern -r --rule --inline-rules --help --version"
)


def sg(run: Interpreter, call: Call) -> str:
    """``sg``: a command as another group; ast-grep has the same name."""
    words = call.argv[1:]
    if len(words) < 2 or not _SEARCHES.isdisjoint(words[:2]):
        return UNKNOWN
    rest = [one for one in words[1:] if one not in ("-c", "--")]
    return carried(run, call, rest, joined=True)


def starts(run: Interpreter, call: Call) -> str:
    """``start-stop-daemon``: the program of ``--exec``, with the words behind ``--``."""
    words = call.argv[1:]
    own = words[: words.index("--")] if "--" in words else words
    given = words[len(own) + 1 :]
    for index, word in enumerate(own):
        name, equals, value = word.partition("=")
        if name in ("--exec", "--startas", "-x", "-a"):
            program = value if equals else own[index + 1] if index + 1 < len(own) else ""
            if program:
                carried(run, msgspec.structs.replace(call, stdin=None, root=True), [program, *given])
    return UNKNOWN


def nix(run: Interpreter, call: Call) -> str:
    """``nix shell``, ``nix develop``: the command behind ``-c``."""
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word in ("-c", "--command", "--") and words[:1] not in (["build"], ["eval"]):
            return carried(run, call, words[index + 1 :], joined=len(words) == index + 2)
    return UNKNOWN


# When: five columns, or a word for them.
_WHEN = Lazy(r"\s*(?:@\w+|(?:[\d*][\w*,/-]*\s+){4}[\d*][\w*,/-]*)\s+")


def timetable(run: Interpreter, text: str, *, users: bool = False) -> None:
    """Follow the commands of a crontab; that of the system says as whom each runs."""
    held, run.lenient = run.lenient, True
    try:
        for line in run.first(marks.plain(text).split("\n")):
            when = _WHEN.search(line)
            script = line[when.end() :] if when else ""
            if users:
                script = script.partition(" ")[2]
            if script.strip():
                run.subshell(partial(run.quietly, script), captured=True)
    finally:
        run.lenient = held


def crontab(run: Interpreter, call: Call) -> str:
    """``crontab``: the commands of a file that was written in the session, or of what it reads."""
    _, rest = options_of(call.argv[1:], frozenset(("-u", "-c")))
    text = call.stdin if rest[:1] in ([], ["-"]) else written(run, run.path(rest[0], call.cwd))
    if text and "-l" not in call.argv:
        timetable(run, text)
    return UNKNOWN


def stdin_lines(run: Interpreter, call: Call) -> str:
    """``at`` and ``batch``: a script as input."""
    if call.stdin is not None:
        return shell(run, msgspec.structs.replace(call, argv=["sh"]))
    return UNKNOWN


def busybox(run: Interpreter, call: Call) -> str:
    words = call.argv[1:]
    while words and words[0].startswith("--coreutils-prog="):
        words = [words[0].partition("=")[2], *words[1:]]
    if words and not words[0].startswith("-"):
        return run.call(msgspec.structs.replace(call, argv=words))
    return UNKNOWN


_COMMANDS = marks.names(
    "rm unlink shred dd sudo su doas sh bash zsh dash ksh reboot shutdown poweroff halt chmod chown "
    "mkfs killall "
    "pkill truncate rimraf git kubectl docker podman helm terraform tofu find crontab systemctl mv "
    "tee aws gcloud "
    "psql mysql redis-cli mongosh dropdb env xargs nohup timeout nice curl wget python3 python perl "
    "node ruby eval"
)
_TELLS = Lazy(
    r"--?(?:[\w.-]{0,40}[-_.])?(?:exec|run|command|cmd|shell|eval|hook|execute|script|before|after|pre|post|prepare|setup|"
    r"cleanup|conclude|teardown|on-?[a-zA-Z]\w*|pager|editor|rsh|ssh|program|wrapper|runner|launcher|handler|action|trigger|"
    r"filter|opener|viewer|browser|askpass|wrap|callback|preview|reload|notify)"
    r"(?:[-_]\w+)?|-[cxesCoP]"
)
_ASSIGNED = Lazy(r"[\w.-]{1,60}=")


def told(run: Interpreter, call: Call) -> None:
    """Follow the text of an option that is named as if it were run."""
    words = call.argv[1:]
    for index, word in enumerate(words):
        if word[:1] != "-":
            continue
        name, equals, value = word.partition("=")
        if not equals:
            value = words[index + 1] if index + 1 < len(words) else ""
        if " " not in value or _TELLS.fullmatch(name) is None:
            continue
        assigned = _ASSIGNED.match(value)
        if assigned:
            value = value[assigned.end() :]
        value = value.strip().lstrip("!$:").removeprefix("shell ").lstrip()
        if " " in value and value.split(maxsplit=1)[0].rpartition("/")[2] in _COMMANDS:
            carried(run, msgspec.structs.replace(call, stdin=None), [value], joined=True)


def other(run: Interpreter, call: Call) -> str:
    """A program that nothing is known of: it may run the rest of its line, or a text that an option has."""
    words = call.argv[1:]
    told(run, call)
    if call.name in _RUNNERS or call.name not in run.sink.programs():
        for index, word in enumerate(words[:8]):
            if word.rpartition("/")[2] in _COMMANDS and index + 1 < len(words):
                carried(run, msgspec.structs.replace(call, stdin=None), words[index:])
                break
            if call.name in _RUNNERS and " " in word.strip() and word[0] != "-":
                carried(run, msgspec.structs.replace(call, stdin=None), [word], joined=True)
    return marks.kinds(call.stdin or "")


# Known for other things, these run what they are given, too.
_RUNNERS = marks.names(
    "just tsc-watch air consul etcdctl pm2 nx forever supervisorctl fab cap invoke bpftrace lf ranger vifm"
)

SHELLS = marks.names(
    "sh bash dash ash zsh ksh mksh ksh93 rbash fish yash csh tcsh posh oksh loksh hush xonsh nu elvish"
)


def carriers(wrappers: Mapping[str, str]) -> dict[str, Handler]:
    """Return the handlers of every command that carries another one."""
    table: dict[str, Handler] = {
        name: Wrapper(spec) for names, spec in wrappers.items() for name in names.split()
    }
    table.update(dict.fromkeys(SHELLS, shell))
    table.update(
        {
            "<other>": other,
            "env": env,
            "xargs": xargs,
            "gxargs": xargs,
            "find": find,
            "gfind": find,
            "bfs": find,
            "fd": fd,
            "fdfind": fd,
            "parallel": parallel,
            "sem": parallel,
            "sg": sg,
            "ssh": ssh,
            "su": su,
            "start-stop-daemon": starts,
            "nix": nix,
            "runuser": su,
            "at": stdin_lines,
            "crontab": crontab,
            "batch": stdin_lines,
            **dict.fromkeys(marks.names("busybox toybox coreutils uutils"), busybox),
        }
    )
    return table


__all__ = ["SHELLS", "Handler", "Wrapper", "carriers", "file", "options_of", "quoted", "written"]
