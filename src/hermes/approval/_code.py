"""Programs given in the line: to Python, Perl, Ruby, Node, PHP, awk, sed and others.

Python is read by its own parser (`_python`). Of the other languages only what runs commands, deletes, or
writes is looked
for, by short patterns; a text that they run as a command is followed as a script.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec

from . import _marks as marks
from ._call import Call
from ._carriers import Handler, Wrapper, written
from ._carriers import unseen as _unseen
from ._marks import REMOTE, UNKNOWN
from ._options import options_of
from ._run import Interpreter

MAX_CODE = 10_000
_STRING = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')"""
# What hands a literal text to a shell, in any of these languages.
_RUNS = re.compile(
    r"\b(?:system|exec|popen|passthru|shell_exec|proc_open|pcntl_exec|"
    r"execSync|execFileSync|spawnSync|spawn|execFile|fork|shell|execute|"
    r"Popen|check_output|getoutput|capture2e?|capture3|os\.execute|io\.popen|"
    r"do shell script|do script|Deno\.run|run|sh|bash|command|(?:ba|z|da|k)?sh\s+-c|system[23*]|cmd|"
    r"execShellCmd|execCmd|execCmdEx|startProcess|execProcess|ProcessBuilder|Deno\.Command|Cmd|getRuntime\(\)\.exec|std::system|"
    r"run-program|run-shell-command|shell-command(?:-to-string)?|call-process|start-process|"
    r"launch-program|callCommand|callProcess|readProcess|Sys\.command|open_process_in|spawnProcess|"
    r"executeShell|spawn_command_line_\w+|spawn_async|escapeShellCmd|exec\.Command|Command::new|Process\.(?:run|start|runSync))"
    r"\s*\(?\s*(?:\{\s*cmd\s*:\s*)?(?:c\(|\[|~[cCsS]|@)?\s*" + _STRING,
)
_BACKTICK = re.compile(
    r"`((?:[^`\\\n]|\\.){1,500})`|%x[\[({]([^\])}]{1,500})[\])}]|\bqx\s*[\[({/]([^\])}/]{1,500})[\])}/]"
)
_RUNS_UNKNOWN = re.compile(
    r"(?<![\w.$>-])(?:system|exec|popen|passthru|shell_exec|proc_open|eval|instance_eval|class_eval|Function|syscall|call_user_func|assert|create_function)\s*(?:\(\s*)?(?![\"'`)\s;,(]|\$\w+\s*=[^=])[@$\w*]|\b(?:execSync|spawnSync|os\.execute|io\.popen|loadstring|dofile)\s*\(\s*(?![\"'`])\w|\.then\s*\(\s*eval\b|\beval\s*\(|\bnew\s+Function\s*\(|\brunIn(?:New|This)?Context\s*\("
)
_DELETES = re.compile(
    r"\b(?:unlink\b(?!\s*\()|unlink\s*\(|unlinkSync\s*\(|rmSync\s*\(|rmdirSync\s*\(|rmdir\s*\(|"
    r"rmtree\b|remove_tree\b|remove_dir_all|rm_rf\b|rm_r\b|FileUtils\.rm\w*|File\.delete|Dir\.rmdir|"
    r"Deno\.remove\w*\s*\(|fs\.rm\w*\s*\(|fs\.promises\.(?:rm|unlink)\w*|fs\.unlink\w*\s*\(|"
    r"os\.remove\s*\(|os\.RemoveAll|File\.rm(?:_rf)?!?\s*\(?|remove(?:Dir|File|DirectoryRecursive)\w*\s*\(?|"
    r"deleteDir\s*\(|\bFile\s*\([^)\n]{0,80}\)\s*\.\s*delete|(?:File|Directory)\.Delete\s*\(|deleteSync\s*\(|removeItem\b|remove_entry\w*|removeTree|rmdirRecurse|delete-(?:directory(?:-tree|/files)?|file)\b|File::Path|rimraf|del\s*\(\s*\[|emptyDir\w*\s*\(|removeSync\s*\(|"
    r"file\.remove|shutil\.rmtree|Files\.delete\w*|deleteRecursively|\bfile\s+delete\b|"
    r"delete_file|DeleteFile|remove-file|Sys\.remove|truncateSync\s*\(|truncate\s*\()"
)
_NETWORK_SHELL = re.compile(
    r"\bsocket\b[^\n]{0,400}\b(?:exec|spawn|dup2|/bin/(?:ba)?sh|STDIN|system|popen)|fsockopen|"
    r"TCPSocket[^\n]{0,200}\b(?:exec|sh|popen)|IO::Socket[^\n]{0,300}(?:exec|sh)|"
    r"net\.(?:connect|Socket|createConnection)[^\n]{0,300}(?:spawn|exec|pipe)|/inet/tcp/"
)
_REMOTE_CODE = re.compile(
    r"(?:fetch\s*\(|https?\.get\s*\(|open-uri|LWP::|file_get_contents\s*\(\s*[\"']https?:|"
    r"urlopen|Net::HTTP)[^\n]{0,400}\b(?:eval|exec|system|Function|instance_eval)\b|"
    r"\beval\b[^\n]{0,200}(?:https?://|LWP|file_get_contents|open-uri|fetch)"
)
# A method that is called by its name, and pipes that stand in the name of a file.
_BY_NAME = re.compile(
    r"\b(?:send|__send__|public_send|method|apply|call)\s*\(?\s*(?::|[\"':]+)(?:system|exec|spawn|popen|`)[\"']?\s*\)?"
    r"(?:\s*,\s*|\s*\.\s*call\s*\(\s*|\[\s*)" + _STRING
)
_PIPED = re.compile(
    r"\b(?:open|IO\.\w+|File\.\w+|read|foreach|readlines|binread)\s*\(?\s*[^\"'\n;]{0,40}"
    r"(?:[\"']-?\|-?[\"']\s*,\s*[\"']|[\"']\s*\|\s*)([^\"'\n]+)[\"']"
    r"|\bopen\s*\(?\s*[^\"'\n;]{0,40}[\"']([^\"'|\n]+)\|\s*[\"']"
    r"|\bopen\s*\(?\s*[^\"'\n;]{0,40}[\"']-\|[\"']\s*,\s*[\"']([^\"'\n]+)[\"']"
)
_TEMPLATE = re.compile(r"\$\s*`((?:[^`\\]|\\.){1,500})`")
_COLON = re.compile(r"(?:^|\n)\s*:!\s*([^\n]+)")
_TCL = re.compile(r"\bexec\s+(?:-\w+\s+)*((?:[\w./~*-]+[ \t]*)+)")
_NODE_SHELL = re.compile(r"\b(?:net|tls|dgram|http2?|ws)[\"']\s*\)")
_METHOD_DELETES = re.compile(r"[\w)\]]\s*\.\s*(?:rm|unlink|rmdir)\s*\(\s*[\"'`\w]")
# What is only printed.
_PRINTED = re.compile(
    r"\b(?:print|say|puts|pp?|warn|console\.(?:log|error|info|warn)|echo|printf|println!?|IO\.puts|"
    r"Console\.WriteLine|System\.out\.println|cat|disp)\s*\(?\s*"
    r"(?:\"(?:[^\"\\`#@$]|\\.)*\"|'(?:[^'\\]|\\.)*'|%q(?:\([^)]*\)|\{[^}]*\}|\[[^]]*\]))\s*\)?\s*(?=;|$|\}|\n)"
)
_WRITES = re.compile(
    r"\b(?:writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream|File\.write|"
    r"IO\.write|file_put_contents|Deno\.writeTextFile\w*|Bun\.write|copyFileSync|"
    r"renameSync|symlinkSync|chmodSync|rename|chmod|copy|move_uploaded_file)\s*\(?\s*" + _STRING
)
_OPENS = re.compile(
    r"\bopen\s*\(?\s*(?:my\s*)?[\w$]*\s*,?\s*[\"']\s*(>>?|\+[<>])\s*[\"']?\s*,?\s*[\"']?([^\"')]{1,300})"
)
_OPENS_RUBY = re.compile(r"\b(?:File\.)?open\s*\(?\s*" + _STRING + r"\s*,\s*[\"'][waA+r]*[wa+][^\"']*[\"']")
_KILLS = re.compile(
    r"\b(?:kill|Process\.kill|process\.kill|posix_kill)\s*\(?\s*(?:[\"']?\w+[\"']?\s*,\s*)?-1\b"
)
_PATHS = re.compile(r"[\"'`]((?:/|~|\.\.?/)[^\"'`\s]{2,200})[\"'`]")
_FORK = re.compile(r"\b(?:while|until|for|loop)\b[^\n]{0,60}\bfork\b|\bfork\b\s*while\b")


def text(run: Interpreter, call: Call, code: str, language: str) -> str:
    """Look through code of a language that is not parsed, and return what it prints."""
    if REMOTE in code:
        run.note("remote-code", f"{language} runs what comes from the network")
    elif marks.DECODED in code:
        run.note("decoded-code", f"{language} runs what was decoded from an unreadable text")
    elif marks.marked(code) and not code.strip("".join(chr(0x10FF00 + index) for index in range(16)) + " \n"):
        run.note("unknown-code", f"{language} runs code that is not known")
        return UNKNOWN
    if len(code) > 5 * MAX_CODE:
        run.note("code-unreadable", f"{language} code that is too long to be read")
        return UNKNOWN
    code = _expanded(marks.plain(code))
    if "eval" not in code:
        code = _PRINTED.sub('print ""', code)
    if _DELETES.search(code) or (language in _SCRIPTS and _METHOD_DELETES.search(code)):
        run.note("code-deletes", f"{language} code that deletes files")
    for match in list(_TREES.finditer(code))[:20]:
        path = next((one for one in match.groups() if one), "")
        if path.startswith(("/", "~")):
            run.call(msgspec.structs.replace(call, argv=["rm", "-rf", path], stdin=None))
    if _NETWORK_SHELL.search(code) or ("child_process" in code and _NODE_SHELL.search(code)):
        run.note("code-network", f"{language} code that opens a connection")
    if _REMOTE_CODE.search(code):
        run.note("remote-code", f"{language} code that runs what comes from the network")
    if _KILLS.search(code):
        run.note("kill-everything", "kills every process", "block")
    if _FORK.search(code):
        run.note("fork-bomb", "starts itself over and over", "block")
    for match in list(_RUNS.finditer(code))[:20]:
        words = _literals(match.group(1) or match.group(2) or "", code, match.end(), apart=language == "Lisp")
        if len(words) > 1 and " " not in words[0].strip():
            argv = list(words)
            run.subshell(
                partial(run.call, msgspec.structs.replace(call, argv=argv, stdin=None)),
                captured=True,
            )
        else:
            shell(run, call, words[0])
    if _SENDS.search(code):
        if _ENVIRONMENT.search(code):
            run.note("send-secret", f"{language} code that sends the environment")
        for match in list(_READ.finditer(code))[:20]:
            held = run.reading(run.path(match.group(1) or match.group(2) or "x", call.cwd))
            if marks.PRIVATE in held or marks.SECRET in held:
                run.note("send-secret", f"{language} code that sends a private file")
    for match in list(_EXECUTED.finditer(code))[:20]:
        shell(run, call, unescape(next((one for one in match.groups() if one), "")))
    for match in list(_RUN_AS.finditer(code))[:20]:
        words = _literals(match.group(1) or match.group(2) or "", code, match.end())
        run.subshell(partial(run.call, msgspec.structs.replace(call, argv=words, stdin=None)), captured=True)
    for expression in (_BY_NAME, _PIPED, _TEMPLATE):
        for match in list(expression.finditer(code))[:20]:
            shell(run, call, unescape(next((one for one in match.groups() if one), "").removeprefix("-|")))
    if "child_process" in code or "GLib" in code:
        # Whatever the function was called here.
        for match in list(_ANY_STRING.finditer(code))[:50]:
            said = unescape(match.group(1) or match.group(2) or "")
            if " " in said and said.split()[0].rpartition("/")[2] in _NATIVE:
                shell(run, call, said)
    for match in list(_COLON.finditer(code))[:20]:
        shell(run, call, match.group(1))
    if language == "gnuplot":
        for match in list(re.finditer(r"(?:^|[;\n])\s*!\s*([^\n]+)", code))[:20]:
            shell(run, call, match.group(1))
    if language == "Tcl":
        for match in list(_TCL.finditer(code))[:20]:
            shell(run, call, match.group(1))
    if language == "Julia" and re.search(r"\brm\s*\(", code):
        run.note("code-deletes", f"{language} code that deletes files")
    if language in ("Perl", "Ruby", "PHP", "Julia", "Bun", "Crystal", "gnuplot"):
        for match in list(_BACKTICK.finditer(code))[:20]:
            found = next((one for one in match.groups() if one), "")
            shell(run, call, unescape(found))
    if _RUNS_UNKNOWN.search(_ANY_STRING.sub('""', code)):
        run.note("code-runs", f"{language} code that runs what is not known")
    for expression in (_WRITES, _OPENS_RUBY):
        for match in list(expression.finditer(code))[:20]:
            run.sink.redirect(">", run.path(match.group(1) or match.group(2) or "x", call.cwd), UNKNOWN, call)
    for match in list(_OPENS.finditer(code))[:20]:
        run.sink.redirect(">", run.path(match.group(2).strip(), call.cwd), UNKNOWN, call)
    for match in list(_PATHS.finditer(code))[:50]:
        if run.sink.secret(run.path(match.group(1), call.cwd)):
            run.sink.redirect("<", run.path(match.group(1), call.cwd), "", call)
    return UNKNOWN


# A whole directory that is deleted: what it is may be in the line.
_TREES = re.compile(
    r"\b(?:rmtree|remove_tree|remove_dir_all|rm_rf|rm_r|remove_entry_secure|RemoveAll|deltree|removeSync|emptyDirSync|"
    r"rimraf(?:\.sync)?|deleteDir|deleteDirectory|rmdirRecurse|removeTree|removeDirectoryRecursive|removePathForcibly|"
    r"(?:rm|rmdir|remove)(?:Sync)?(?=\s*\([^()]*recursive))\s*\(?\s*\[?\s*" + _STRING
)
_HOME_VALUE = (
    r"(?:process\.env\.HOME|process\.env\[[\"']HOME[\"']\]|(?:os|require\([\"']os[\"']\))\.homedir\(\)|"
    r"ENV\[[\"']HOME[\"']\]|ENV\.fetch\([\"']HOME[\"']\)|Dir\.home|\$ENV\{[\"']?HOME[\"']?\}|getenv\([\"']HOME[\"']\)|"
    r"\$_SERVER\[[\"']HOME[\"']\]|homedir\(\)|Deno\.env\.get\([\"']HOME[\"']\)|Path\.home\(\))"
)
_HOME_JOINED = re.compile(_HOME_VALUE + r"\s*(?:\+|\.|,)\s*([\"'`])/?")
_HOME_WITHIN = re.compile(
    r"\$\{\s*" + _HOME_VALUE + r"\s*\}|#\{\s*" + _HOME_VALUE + r"\s*\}|\$ENV\{[\"']?HOME[\"']?\}|\$HOME\b"
)
_EXPANDS = re.compile(
    r"\b(?:File\.expand_path|path\.(?:join|resolve)|File\.join|path\.expanduser|glob)\s*\(\s*"
    + _STRING
    + r"\s*\)"
)


def _expanded(code: str) -> str:
    """Return code in which the home directory is written as in a shell."""
    code = _HOME_WITHIN.sub("~", _HOME_JOINED.sub(r"\1~/", code))
    return _EXPANDS.sub(lambda match: '"' + (match.group(1) or match.group(2) or "") + '"', code)


_ENVIRONMENT = re.compile(
    r"process\.env(?![.\[\w])|\bENV(?:\.to_\w+|\b(?!\s*[\[{.]))|%ENV|\$_ENV\b(?!\s*\[)|getenv\(\)"
)
_SENDS = re.compile(
    r"\bfetch\b|\bhttps?\b|axios|request|Net::HTTP|LWP|curl|socket|XMLHttpRequest", re.IGNORECASE
)
_READ = re.compile(
    r"\b(?:readFile\w*|File\.(?:read|open|binread)|IO\.read|file_get_contents|slurp|readTextFile\w*|Bun\.file|fopen|"
    r"createReadStream|read_file|readLines|open)\s*\(?\s*"
    r"(?:(?:my\s*)?[\w$]+\s*,\s*(?:[\"']<[\"']\s*,\s*)?)?" + _STRING
)
_EXECUTED = re.compile(_STRING + r"\s*\.\s*(?:execute\s*\(|!!?|lines_!)|" + _STRING + r"\s*!!?(?=\s|$)")
_ANY_STRING = re.compile(_STRING)
_NEXT = re.compile(
    r"\s*(,\s*(?:\{?\s*\w+\s*:\s*)?(?:c\(|&?\[|\(|~[cCsS]|@)?|\.\.?|\+|'?\(\s*(?:list\s+)?|\s)\s*" + _STRING
)
_SCRIPTS = frozenset(("Node", "Bun", "Deno"))


def _literals(first: str, code: str, at: int, *, apart: bool = False) -> list[str]:
    """Return the literal texts of a call: those that are joined as one, those that are separate as
    several.
    """
    words = [unescape(first)]
    for _ in range(20):
        match = _NEXT.match(code, at)
        if match is None:
            break
        at = match.end()
        text = unescape(match.group(2) or match.group(3) or "")
        if match.group(1).startswith((",", "(", "'(")) or (apart and match.group(1).isspace()):
            words.append(text)
        else:
            words[-1] += text
    return words


def unescape(raw: str) -> str:
    """Return what a text between quotes stands for, near enough."""
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match.group(1), match.group(1)), raw)


def shell(run: Interpreter, call: Call, script: str) -> None:
    """Follow a text that code gives to a shell."""
    if script.strip():
        run.subshell(partial(run.script, script), captured=True)


class Inline:
    """An interpreter that takes code from an option, a file or its input."""

    def __init__(self, language: str, flags: str, valued: str = "", cluster: str = "") -> None:
        self.language = language
        self.flags = flags.split()
        self.valued = frozenset(valued.split())
        self.cluster = re.compile(cluster) if cluster else None

    def __call__(self, run: Interpreter, call: Call) -> str:
        codes, rest = self.codes(call.argv[1:])
        out = UNKNOWN
        for code in codes:
            out = self.look(run, call, code)
        if codes:
            return out
        operands = [one for one in rest if not one.startswith("-") or one == "-"]
        if operands and operands[0] != "-":
            path = run.path(operands[0], call.cwd)
            if re.match(r"https?://|ftp://", operands[0]) or REMOTE in operands[0]:
                run.note("remote-code", f"{self.language} runs what comes from the network")
                return UNKNOWN
            if path in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
                return self.from_input(run, call)
            held = written(run, path)
            if held is not None:
                if held.strip("".join(chr(0x10FF00 + index) for index in range(16)) + " \n") == "":
                    _unseen(run, held)
                else:
                    return self.look(run, call, held)
            return marks.kinds(call.stdin or "")
        return self.from_input(run, call)

    def from_input(self, run: Interpreter, call: Call) -> str:
        if call.stdin is None or not call.stdin.strip():
            return UNKNOWN
        return self.look(run, call, call.stdin)

    def codes(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Return the codes that are given by options, and the other words from the first operand on."""
        codes: list[str] = []
        index = 0
        while index < len(words):
            word = words[index]
            if word == "--":
                index += 1
                break
            if word[:1] != "-" or word == "-":
                if codes:
                    index += 1
                    continue
                break
            name, equals, value = word.partition("=")
            if word.startswith("--eval:"):
                codes.append(word[7:])
            elif name in self.flags and equals:
                codes.append(value)
            elif word in self.flags or (self.cluster is not None and self.cluster.fullmatch(word)):
                index += 1
                if index < len(words):
                    codes.append(words[index])
            elif word in self.valued:
                index += 1
            elif len(word) > 2 and word[:2] in self.flags and word[1] != "-" and self.cluster is None:
                codes.append(word[2:])
            elif self.cluster is not None and (joined := re.match(r"-[a-zA-Z]*[ce](?=\W)", word)):
                codes.append(word[joined.end() :])
            index += 1
        return codes, words[index:]

    def look(self, run: Interpreter, call: Call, code: str) -> str:
        return text(run, call, code, self.language)


class Python(Inline):
    """Python: its code is parsed."""

    def __call__(self, run: Interpreter, call: Call) -> str:
        words = call.argv[1:]
        for index, word in enumerate(words):
            if word[:1] != "-":
                break
            if word == "-m" or re.fullmatch(r"-[a-zA-Z]*m", word):
                return self.module(run, call, words[index + 1 :])
            if re.fullmatch(r"-[a-zA-Z]*c", word) or word in ("-W", "-X"):
                if word in ("-W", "-X"):
                    continue
                break
        _, rest = options_of(words, self.valued)
        if rest and rest[0].endswith("manage.py") and rest[1:2] in (["shell"], ["shell_plus"]):
            for index, word in enumerate(rest[:-1]):
                if word in ("-c", "--command"):
                    return self.look(run, call, rest[index + 1])
        return super().__call__(run, call)

    def module(self, run: Interpreter, call: Call, words: list[str]) -> str:
        if not words:
            return UNKNOWN
        name, rest = words[0], words[1:]
        if name in (
            "pdb",
            "trace",
            "cProfile",
            "profile",
            "runpy",
            "bdb",
            "code",
            "asyncio",
            "IPython",
            "bpython",
            "ptpython",
            "idlelib",
            "timeit",
            "coverage",
            "debugpy",
        ):
            found, operands = options_of(rest, frozenset(("-c", "-s", "--command", "--setup", "-o")))
            if name in ("cProfile", "profile", "trace", "coverage", "pdb", "bdb") and operands:
                if operands[:1] == ["run"]:
                    operands = operands[1:]
                if operands and operands[0][:1] != "-":
                    return run.call(msgspec.structs.replace(call, argv=["python3", *operands]))
            for option, value in found:
                if option in ("-c", "--command", "-s", "--setup") and value:
                    self.look(run, call, value.lstrip("!"))
            if name in ("code", "asyncio", "pdb", "IPython", "bpython", "ptpython", "idlelib") and call.stdin:
                self.look(run, call, re.sub(r"(?m)^\s*!", "", call.stdin))
            if name == "timeit":
                for one in operands:
                    self.look(run, call, one)
            return UNKNOWN
        if name in ("pip", "pytest", "venv", "twine", "poetry", "build", "flit", "hatch", "black", "mypy"):
            return run.call(msgspec.structs.replace(call, argv=[name, *rest]))
        return marks.kinds(call.stdin or "")

    def look(self, run: Interpreter, call: Call, code: str) -> str:
        from ._python import python

        return python(run, call, code)


_AWK_PRINTED = re.compile(r"\bprintf?\s*\(?\s*\"(?:[^\"\\]|\\.)*\"\s*\)?\s*(?=;|$|\}|\n)")


_RUN_AS = re.compile(r"\b(?:system|exec)\s*\{[^}]*\}\s*\(?\s*" + _STRING)


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
        code = _AWK_PRINTED.sub('print ""', marks.plain(code))
        for match in list(re.finditer(r"\bsystem\s*\(\s*" + _STRING, code))[:10]:
            shell(run, call, "".join(_literals(match.group(1) or match.group(2) or "", code, match.end())))
        if re.search(r"\bsystem\s*\(\s*[^\"'\s]", code):
            run.note("code-runs", "awk runs commands that are not known")
        for match in list(re.finditer(r"\"((?:[^\"\\]|\\.)*)\"\s*\)*\s*\|&?\s*getline", code))[:10]:
            shell(run, call, unescape(match.group(1)))
        for match in list(re.finditer(r"\|&?\s*\"((?:[^\"\\]|\\.)*)\"", code))[:10]:
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
        for match in list(re.finditer(r">\s*\"([^\"]+)\"", code))[:10]:
            run.sink.redirect(">", run.path(match.group(1), call.cwd), UNKNOWN, call)
        for match in list(_PATHS.finditer(code))[:20]:
            if run.sink.secret(run.path(match.group(1), call.cwd)):
                run.sink.redirect("<", run.path(match.group(1), call.cwd), "", call)
    from ._programs import filtered

    return filtered(run, call)


_SED_E = re.compile(r"(?:^|[;{}\n]|\d|\$|/)\s*e(?:\s+([^\n]+)|\s*$|\s*[;}])")
_SED_SUB_E = re.compile(
    r"s(.)(?:\\.|(?!\1).)*\1((?:\\.|(?!\1).)*)\1[gpiImM0-9]*e[gpiImM0-9]*(?=$|[;\s}w])", re.DOTALL
)
_SED_W = re.compile(r"(?:^|[;{}\n]|\d|\$|/|/[gpiIm]*)\s*[wW]\s+(\S+)")


_SED_R = re.compile(r"(?:^|[;{}\n]|\d|\$|/)\s*[rR]\s+(\S+)")


def sed(run: Interpreter, call: Call) -> str:
    from ._programs import written_file

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
        codes = [rest[0]]
    for code in codes:
        if not code:
            continue
        if len(code) > MAX_CODE:
            run.note("code-unreadable", "code for sed that is too long to be read")
            continue
        for match in list(_SED_E.finditer(code))[:10]:
            if match.group(1):
                shell(run, call, match.group(1).rstrip("}"))
            else:
                run.note("code-runs", "sed runs its input as commands")
        if _SED_SUB_E.search(code):
            run.note("code-runs", "sed runs what it makes as commands")
            for match in list(_SED_SUB_E.finditer(code))[:5]:
                shell(run, call, match.group(2))
        for match in list(_SED_R.finditer(code))[:10]:
            if run.sink.secret(run.path(match.group(1), call.cwd)):
                run.sink.redirect("<", run.path(match.group(1), call.cwd), "", call)
        for match in list(_SED_W.finditer(code))[:10]:
            run.sink.redirect(">", run.path(match.group(1), call.cwd), UNKNOWN, call)
    return written_file(run, call)


def bang(run: Interpreter, call: Call) -> str:
    """Programs that run lines of their input which begin with an exclamation mark: dc, ed, ftp, mail, gdb."""
    given = [
        value
        for name, value in options_of(call.argv[1:], frozenset(("-e", "--expression")))[0]
        if name in ("-e", "--expression") and call.name == "dc"
    ]
    for line in [*given, *(call.stdin or "").split("\n")[:500]]:
        match = re.match(r"\s*:?!+\s*(.+)", line)
        if match:
            shell(run, call, match.group(1))
    if call.name in ("ed", "ex", "red"):
        from ._programs import written_file

        return written_file(run, call)
    return marks.kinds(call.stdin or "")


def sqlite(run: Interpreter, call: Call) -> str:
    for one in [*call.argv[1:], *(call.stdin or "").split("\n")[:500]]:
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
    for one in [*call.argv[1:], *(call.stdin or "").split("\n")[:500]]:
        match = re.match(r"\s*(?:\\!|system\s)\s*(.+)", one)
        if match:
            shell(run, call, match.group(1))
    return UNKNOWN


_MAKE = marks.names("-f -C -I -j -l -o -W --file --makefile --directory")
_COMMAND_NAMES = re.compile(
    r"(?:HOST|TARGET|BUILD)?(?:CC|CXX|CPP|LD|AR|AS|FC|NM|RANLIB|STRIP|OBJCOPY|RM|MV|CP|LN|INSTALL|SHELL|PYTHON\d?|"
    r"NODE|GO|CARGO|RUSTC|SUDO|GIT|CURL|LEX|YACC|MAKE|ECHO|SED|AWK)|\w*(?:CMD|COMMAND|HOOK|RUNNER|WRAPPER|LAUNCHER)"
)


def make(run: Interpreter, call: Call) -> str:
    """make: a makefile that is given or written in the session, and assignments that run commands."""
    words = call.argv[1:]
    code = ""
    for index, word in enumerate(words):
        match = re.fullmatch(r"-f(.+)|--(?:file|makefile)=(.+)", word)
        if match or (word in ("-f", "--file", "--makefile") and index + 1 < len(words)):
            name = (match.group(1) or match.group(2)) if match else words[index + 1]
            if name in ("-", "/dev/stdin"):
                code += call.stdin or ""
            else:
                code += written(run, run.path(name, call.cwd)) or ""
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
    if not any(word.startswith(("-f", "--file", "--makefile")) for word in words):
        for name in ("Makefile", "makefile", "GNUmakefile"):
            code += run.state.files.get(run.path(name, call.cwd), "") if "-n" not in words else ""
    _, plain = options_of([one for one in words if "=" not in one], _MAKE)
    goals = [one for one in plain if re.fullmatch(r"[\w.-]+", one) and not one.startswith("-")]
    wanted = not code or "\n" not in code
    for line in code.split("\n")[:2000]:
        head = re.match(r"([\w.-]+)\s*:(?!=)", line)
        if head:
            wanted = not goals or head.group(1) in goals or head.group(1).startswith(".")
            _, semicolon, recipe = line.partition(";")
            if semicolon and wanted:
                shell(run, call, recipe.strip().lstrip("@-+").replace("$$", "$"))
        elif line.startswith("\t") and wanted:
            shell(run, call, line.strip().lstrip("@-+").replace("$$", "$"))
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
        while operands and len(operands) > 1 and operands[1].startswith("-"):
            _, more = options_of(operands[1:], _CLONE)
            operands = [operands[0], *more]
        if operands and re.match(r"(?:https?|git|ssh|ftps?)://|[\w.-]+@?[\w.-]+:", operands[0]):
            base = operands[0].rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
            target = run.path(operands[1] if len(operands) > 1 else base, call.cwd)
            run.state.write(target + "/*", UNKNOWN + REMOTE)
    elif rest[:2] == ["remote", "add"]:
        _, operands = options_of(rest[2:], frozenset(("-t", "-m", "--mirror")))
        if len(operands) > 1:
            run.state.write(run.path(".git/remotes/" + operands[0], call.cwd), operands[1])


def git(run: Interpreter, call: Call) -> str:
    """git: what it runs for the user."""
    words = call.argv[1:]
    brought(run, call, words)
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
    for word in words[:40]:
        if word[:1] == "-" and word != "-":
            continue
        held = call.stdin if word in ("-", "/dev/stdin") else written(run, run.path(word, call.cwd))
        if held and held.strip(_MARKS):
            text(run, call, held, "C")
        elif held and REMOTE in held and re.search(r"\.\w+$|^-$|stdin$", word):
            run.note("remote-code", "compiles what came from the network")
    if call.name == "go" and words[:1] in (["run"], ["test"], ["build"], ["install"], ["generate"]):
        for path, held in list(run.state.files.items())[:50]:
            if path.endswith(".go") and path.startswith(call.cwd + "/") and held.strip(_MARKS):
                text(run, call, held, "C")
    if call.name == "go":
        return _GO(run, call)
    from ._programs import PROGRAMS

    inner = PROGRAMS.get(call.name)
    return inner(run, call) if inner else UNKNOWN


_MARKS = "".join(chr(0x10FF00 + index) for index in range(16)) + " \n"


def conventional(language: str, *names: str) -> Handler:
    """A program that runs files of certain names, of those that were written in the session."""
    wanted = re.compile("|".join(names))

    def handler(run: Interpreter, call: Call) -> str:
        given = {run.path(one, call.cwd) for one in call.argv[1:] if one[:1] != "-"}
        for path, held in list(run.state.files.items())[:50]:
            inside = path.startswith(call.cwd + "/") and wanted.fullmatch(path.rpartition("/")[2])
            if not (inside or path in given) or not held.strip(_MARKS):
                continue
            if language == "Python":
                CODE["python3"](
                    run, msgspec.structs.replace(call, argv=["python3", "-c", held.strip(_MARKS)], stdin=None)
                )
            else:
                text(run, call, held, language)
        return UNKNOWN

    return handler


def pip(run: Interpreter, call: Call) -> str:
    """pip and its like: what is installed may have come from the network, or have been written."""
    words = [one for one in call.argv[1:] if one[:1] != "-"]
    if words[:1] == ["install"] or words[:2] == ["pip", "install"]:
        for word in words[1:]:
            if REMOTE in (written(run, run.path(word, call.cwd)) or "") and re.search(r"[./]", word):
                run.note("remote-code", "installs a file that came from the network")
            elif word.startswith((".", "/", "~")):
                held = written(run, run.path(word, call.cwd) + "/setup.py")
                if held and held.strip(_MARKS):
                    CODE["python3"](
                        run, msgspec.structs.replace(call, argv=["python3", "-c", held], stdin=None)
                    )
    return UNKNOWN


_LIFE = ("preinstall", "install", "postinstall", "prepare")
_SHORT = {"t": "test", "tst": "test", "i": "install", "ci": "install", "add": "install"}


def npm(run: Interpreter, call: Call) -> str:
    """npm and its like: the scripts of a package.json that was written in the session."""
    words = [one for one in call.argv[1:] if one[:1] != "-"]
    name = _SHORT.get(words[0], words[0]) if words else "install" if call.name != "npm" else ""
    held = run.state.files.get(run.path("package.json", call.cwd))
    if held and name:
        if name in ("run", "run-script") and len(words) > 1:
            name = words[1]
        wanted = _LIFE if name == "install" else (name, "pre" + name, "post" + name)
        if marks.OUTPUT in held:
            run.note("written-code", "runs scripts that were written in this session and are not known")
        for key, value in re.findall(r'"([\w:.-]+)"\s*:\s*"((?:[^"\\]|\\.)*)"', held)[:200]:
            if key in wanted:
                shell(run, call, unescape(value))
    if words[:1] and name == "install":
        for word in words[1:]:
            if REMOTE in (written(run, run.path(word, call.cwd)) or ""):
                run.note("remote-code", "installs a file that came from the network")
    inner = _NPM.get(call.name)
    return inner(run, call) if inner else UNKNOWN


_NPM_SPEC = "sub:exec|dlx|x|run-script-x -c -p --package -w --workspace text:-c text:--call"
_NPM = dict.fromkeys(("npm", "pnpm", "yarn"), Wrapper(_NPM_SPEC))


def runner(run: Interpreter, call: Call) -> str:
    """rails runner: Ruby code."""
    words = [one for one in call.argv[1:] if one[:1] != "-"]
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


_OPENED = re.compile(
    r":?\s*(?:silent!?\s+)?(e|ed|edit|r|read|tabe|tabedit|tabnew|sp|split|vs|vsplit|view|sview|badd|argadd|find|"
    r"new|vnew|w|write|wq|sav|saveas|so|source|pedit)!?\s+([/~.]\S+)"
)
_SPLITS = frozenset(("sp", "split", "sview", "so", "source"))


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
        for match in list(re.finditer(r"\be?syscmd\(\s*[`\"]*([^'\")]+)", code))[:20]:
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
    for piece in re.split(r"[;\n]|&&|\|\|?", re.sub(r"^\s*&\s*\{?", "", code))[:50]:
        first = piece.strip().strip("&{} ").split(" ")[0].strip("'\"").rpartition("/")[2]
        if first in _NATIVE:
            run.subshell(partial(run.quietly, piece.strip().strip("&{} ")), captured=True)
    return text(run, call, code, "PowerShell") if code else UNKNOWN


_NATIVE = marks.names(
    "bash sh zsh dash ksh rm sudo su doas dd chmod chown curl wget reboot shutdown poweroff halt kill pkill "
    "killall git python python3 node perl ruby cat find xargs env mkfs docker kubectl"
)


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
            for found in re.findall(
                r"(?:system|call-process|shell-command|start-process)\s*\(?\s*" + _STRING, one
            ):
                shell(run, call, unescape(found[0] or found[1]))
    return bang(run, call)


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
    "perl": Inline("Perl", "-e -E", "-I -M -m -0", r"-[a-zA-Z0-9]*[eE]"),
    **dict.fromkeys(
        ("ruby", "jruby", "truffleruby", "irb", "pry"), Inline("Ruby", "-e", "-I -r -C", r"-[a-zA-Z0-9]*e")
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
            "jshell raku octave maxima gs pwsh-x nu-x gawk-x ts-node tsx coffee dart"
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
    "psysh": Inline("PHP", "-x"),
    "zx": Inline("Bun", "-e --eval"),
    "gnuplot": Inline("gnuplot", "-e"),
    **dict.fromkeys(("crystal", "nim"), given),
    **dict.fromkeys(marks.names("awk gawk mawk nawk original-awk"), awk),
    **dict.fromkeys(("sed", "gsed"), sed),
    **dict.fromkeys(marks.names("dc ed red ftp mail mailx telnet-x sftp-x bc-x"), bang),
    **dict.fromkeys(marks.names("vim vi nvim ex view emacs nano gvim vimdiff rvim"), editor),
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
    "tmux": tmux,
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
    "fzf": options("--preview", "--bind"),
}
CODE = {name: handler for name, handler in CODE.items() if not name.endswith("-x")}


__all__ = ["CODE", "Inline", "text"]
