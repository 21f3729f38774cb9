"""Code in a line of its own: what it would run, delete, write, read and send.

Python is read by its own parser (`_python`). Of the other languages only what runs commands, deletes, or
writes is looked for, by short patterns; a text that they run as a command is followed as a script.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec

from hermes._lazy import Lazy

from . import _growth as growth
from . import _marks as marks
from . import _quotes as quotes
from ._call import Call
from ._carriers import unseen as _unseen
from ._carriers import written
from ._decode import decoded, legible
from ._expand import secret_name
from ._loads import within
from ._marks import REMOTE, UNKNOWN
from ._nodes import fed, python_module
from ._options import options_of
from ._run import Interpreter

MAX_CODE = 10_000
_AGENT_SCRIPT = Lazy(r"(?:^|/)hermes(?:_cli)?(?:/__main__\.py|/cli/?\w*\.py|/)?$")
STRING = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')"""
# What hands a literal text to a shell, in any of these languages.
_RUNS = Lazy(
    r"\b(?:system|exec|popen|readpipe|passthru|shell_exec|proc_open|pcntl_exec|"
    r"execSync|execFileSync|spawnSync|spawn|execFile|fork|shell|execute|"
    r"Popen|check_output|getoutput|capture2e?|capture3|os\.execute|io\.popen|"
    r"do shell script|do script|Deno\.run|run|sh|bash|command|(?:ba|z|da|k)?sh\s+-c|system[23*]|cmd|"
    r"execShellCmd|execCmd|execCmdEx|startProcess|execProcess|ProcessBuilder|Deno\.Command|Cmd|getRuntime\(\)\.exec|std::system|"
    r"run-program|run-shell-command|shell-command(?:-to-string)?|call-process|start-process|"
    r"launch-program|callCommand|callProcess|readProcess|Sys\.command|open_process_in|spawnProcess|"
    r"executeShell|spawn_command_line_\w+|spawn_async|escapeShellCmd|exec\.Command|Command::new|Process\.(?:run|start|runSync))"
    r"\s*\(?\s*(?:\{\s*cmd\s*:\s*)?(?:c\(|\[|~[cCsS]|@)?\s*" + STRING,
)
_BACKTICK = Lazy(r"`((?:[^`\\\n]|\\.){1,500})`")
_RUNS_UNKNOWN = Lazy(
    r"(?<![\w.$>-])(?:system|exec|popen|readpipe|passthru|shell_exec|proc_open|eval|instance_eval|class_eval|Function|syscall|call_user_func|assert|create_function)\b\s*(?:\(\s*)?(?![\"'`)\s;,(]|\$\w+\s*=[^=])[@$\w*]|\b(?:execSync|spawnSync|os\.execute|io\.popen|loadstring|dofile)\s*\(\s*(?![\"'`])\w|\.then\s*\(\s*eval\b|\beval\s*\(|\bnew\s+Function\s*\(|\brunIn(?:New|This)?Context\s*\("
)
_DELETES = Lazy(
    r"\b(?:unlink\b(?!\s*\()|unlink\s*\(|unlinkSync\s*\(|rmSync\s*\(|rmdirSync\s*\(|rmdir(?:_all)?\s*\(|"
    r"rmtree\b|remove_tree\b|remove_dir_all|rm_rf\b|rm_r\b|FileUtils\.rm\w*|File\.delete|Dir\.rmdir|"
    r"Deno\.remove\w*\s*\(|fs\.rm\w*\s*\(|fs\.promises\.(?:rm|unlink)\w*|fs\.unlink\w*\s*\(|"
    r"os\.remove\s*\(|os\.RemoveAll|File\.rm(?:_rf)?!?\s*\(?|remove(?:Dir|File|DirectoryRecursive)\w*\s*\(?|"
    r"deleteDir\s*\(|\bFile\s*\([^)\n]{0,80}\)\s*\.\s*delete|(?:File|Directory)\.Delete\s*\(|deleteSync\s*\(|removeItem\b|remove_entry\w*|removeTree|rmdirRecurse|delete-(?:directory(?:-tree|/files)?|file)\b|File::Path|rimraf|del\s*\(\s*\[|emptyDir\w*\s*\(|removeSync\s*\(|"
    r"file\.remove|shutil\.rmtree|Files\.delete\w*|deleteRecursively|\bfile\s+delete\b|"
    r"\bDir\.(?:delete|unlink)\b|\bPathname\b[^\n;]{0,80}\.(?:delete|unlink|rmtree|rmdir)\b|\brmdir\s+[\"'$]|"
    r"\btruncate\s+[\"'$]|\b(?:dir|file)_delete\s*\(|\bfile:del(?:ete|_dir\w*)\s*\(|\bos\.remove\.all\b|"
    r"\bBun\.file\s*\([^)\n]{0,200}\)\s*\.\s*(?:delete|unlink)|(?:fs|io)/delete[\w-]*|"
    r"delete_file|DeleteFile|remove-file|Sys\.remove|truncateSync\s*\(|truncate\s*\()"
)
_NETWORK_SHELL = Lazy(
    r"\bsocket\b[^\n]{0,400}\b(?:exec|spawn|dup2|/bin/(?:ba)?sh|STDIN|system|popen)|fsockopen|"
    r"TCPSocket[^\n]{0,200}\b(?:exec|sh|popen)|\b(?:exec|spawn|popen\w*|system)\b[^\n]{0,300}(?:TCPSocket|IO::Socket)|IO::Socket[^\n]{0,300}(?:exec|sh)|"
    r"net\.(?:connect|Socket|createConnection)[^\n]{0,300}(?:spawn|exec|pipe)|/inet/tcp/"
)
_REMOTE_CODE = Lazy(
    r"(?:fetch\s*\(|https?\.get\s*\(|open-uri|LWP::|file_get_contents\s*\(\s*[\"']https?:|"
    r"urlopen|Net::HTTP)[^\n]{0,400}\b(?:eval|exec|system|Function|instance_eval)\b|"
    r"\beval\b[^\n]{0,200}(?:https?://|LWP|file_get_contents|open-uri|fetch)|"
    r"\b(?:include|require|import|source|load|evaluate|EVAL)(?:_once|_string|"
    r"_url)?\b[\s(]{0,4}(?:[\w{},* ]{1,40}\sfrom\s+)?"
    r"(?:(?:new\s+)?[\w.:]{1,40}\s*\(\s*){0,3}[\"']https?://|"
    r"\b(?:load-string|eval-string|load|loadstring|eval_string|erl_eval|EVAL|runIn\w*Context|fromURL|source)\b"
    r"[^\n]{0,300}(?:https?://|httpc|http\.request)|"
    r"(?:https?://|httpc|http\.request|\bdownload\.file)[^\n]{0,300}\b(?:load-string|eval-string|loadstring|eval_string|"
    r"erl_eval|EVAL|runIn\w*Context|source\s*\(|include\s*\(|load\s*\(|do\s+[\"'])"
)
# A method that is called by its name, and pipes that stand in the name of a file.
_BY_NAME = Lazy(
    r"\b(?:send|__send__|public_send|method|apply|call)\s*\(?\s*(?::|[\"':]+)(?:system|exec|spawn|popen|`)[\"']?\s*\)?"
    r"(?:\s*,\s*|\s*\.\s*call\s*\(\s*|\[\s*)" + STRING
)
_PIPED = Lazy(
    r"\b(?:open|IO\.\w+|File\.\w+|read|foreach|readlines|binread)\s*\(?\s*[^\"'\n;]{0,40}"
    r"(?:[\"']-?\|-?[\"']\s*,\s*[\"']|[\"']\s*\|\s*)([^\"'\n]+)[\"']"
    r"|\bopen\s*\(?\s*[^\"'\n;]{0,40}[\"']([^\"'|\n]+)\|\s*[\"']"
    r"|\bopen\s*\(?\s*[^\"'\n;]{0,40}[\"']-\|[\"']\s*,\s*[\"']([^\"'\n]+)[\"']"
)
_CONNECTED = Lazy(r"\bopen[23]\s*\(?\s*(?:[^,\"'\n;]{1,80},\s*){2,3}" + STRING)
# They say nothing, and each would be looked through from each of its ends.
_BLANK_LINES = Lazy(r"\n\s*\n")
_TEMPLATE = Lazy(r"\$\s*`((?:[^`\\]|\\.){1,500})`")
_TICKED = Lazy(r"\b(?:exec|execSync|spawn|spawnSync|execFileSync|execa\w*)\s*\(\s*`((?:[^`\\]|\\.){1,500})`")
_COLON = Lazy(r"(?:^|\n)\s*:!\s*([^\n]+)")
_TCL = Lazy(r"\bexec\s+(?:-\w+\s+)*((?:[\w./~*-]+[ \t]*)+)")
_TYPES = Lazy(r"\bioctl\b[^\n]{0,80}(?:0x5412|\b21522\b|TIOCSTI)")
_SPAWNED = Lazy(r"\bspawn\b[^\n;]*?\b(sudo|su|doas)\b")
_NODE_SHELL = Lazy(r"\b(?:net|tls|dgram|http2?|ws)[\"']\s*\)")
# The functions of a module that works on files, whatever they are called here.
_FILES = Lazy(r"[\"'](?:node:)?(?:fs|fs/promises|fs-extra|graceful-fs|del|del-cli|trash|shelljs)[\"']")
_NAMED = Lazy(
    r"(?<!\.)\b(?:rm|rmdir|unlink|truncate)(?:Sync)?\s*(?:[(,}:]|as\b)|[\"'](?:del|del-cli|trash)[\"']|"
    r"\[\s*[\"'](?:rm|rmdir|unlink)(?:Sync)?[\"']|\bfs-extra[\"'][^\n]{0,200}\b(?:remove|emptyDir)(?:Sync)?\s*\("
)
_METHOD_DELETES = Lazy(r"[\w)\]]\s*\.\s*(?:rm|unlink|rmdir)\s*\(\s*[\"'`\w]")
# A list of words, a function that is looked up by a text that is put together, and a command from elsewhere.
_WORDS = Lazy(r"%[wW]([\[({<|])([^\])}>|\n]{1,500})[\])}>|]")
_COMPUTED = Lazy(
    r"\brequire\s*\(\s*[\"'`](?![./])[^\"'`]*[\"'`]\s*\+|\bprocess\.(?:binding|dlopen|_linkedBinding)\b|"
    r"\[\s*[\"'`]\w+[\"'`]\s*\+\s*[\"'`]\w+[\"'`]\s*\]\s*\("
)
_GIVEN = Lazy(r"(?<![\w$])(?:exec|spawn|execFile)(?:Sync)?\s*\(\s*([A-Za-z_$][\w$]*)(?!\s*=>|[\w$(])")
_BY_VARIABLE = Lazy(
    r"\$(\w+)\s*=\s*[\"'][^;]*;[\s\S]{0,2000}?\$\1\s*\(|"
    r"\b(?:call_user_func|forward_static_call|array_map|array_walk)\w*\s*\(\s*[\"']"
    r"(?:system|exec|passthru|shell_exec|popen|proc_open|unlink|rmdir|assert)[\"']"
)
# A variable of the environment that is printed as it is, or that is all there is (`node -p`).
_VARIABLE = (
    r"(?:process\.env\.|(?:process\.env|ENV|\$_ENV|\$_SERVER|ENVIRON)\[[\"']|ENV\.fetch\(?\s*[\"']|\$ENV\{[\"']?|"
    r"(?:os\.|Sys\.)?getenv\(\s*[\"']|(?:\w+\.)?env\.get\([\"']|Bun\.env\.|\$env:)(\w++)[\"'\])}]*+[ \t]*+"
)
_SHOWN = Lazy(
    r"(?:^|\b(?:print(?:ln|f)?|say|puts|pp?|warn|console\.(?:log|error|info|warn)|echo|cat|write|Write-\w+|IO\.puts)"
    r"\s*\(?\s*(?:[\"'][^\"'\n]{0,80}[\"']\s*[+.,]\s*|[\"'`][^\"'`\n]{0,80}(?:[$#]\{\s*|(?=\$ENV\{)))?)"
    + _VARIABLE
    + r"(?=$|[;,\n`\\]|\bor\b)"
)
# What is only printed.
_PRINTED = Lazy(
    r"\b(?:print|say|puts|pp?|warn|console\.(?:log|error|info|warn)|echo|printf|println!?|IO\.puts|"
    r"Console\.WriteLine|System\.out\.println|cat|disp)\s*\(?\s*"
    r"(?:\"(?:[^\"\\`#@$]|\\.)*\"|'(?:[^'\\]|\\.)*'|%q(?:\([^)]*\)|\{[^}]*\}|\[[^]]*\]))\s*\)?\s*(?=;|$|\}|\n)"
)
_WRITES = Lazy(
    r"\b(?:writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream|File\.write|"
    r"IO\.write|file_put_contents|Deno\.writeTextFile\w*|Bun\.write|copyFileSync|"
    r"renameSync|symlinkSync|chmodSync|rename|chmod|copy|move_uploaded_file)\s*\(?\s*" + STRING
)
_OPENS = Lazy(
    r"\bopen\s*\(?\s*(?:my\s*)?[\w$]*\s*,?\s*[\"']\s*(>>?|\+[<>])\s*[\"']?\s*,?\s*[\"']?([^\"')]{1,300})"
)
_OPENS_RUBY = Lazy(r"\b(?:File\.)?open\s*\(?\s*" + STRING + r"\s*,\s*[\"'][waA+r]*[wa+][^\"']*[\"']")
_KILLS = Lazy(r"\b(?:kill|Process\.kill|process\.kill|posix_kill)\s*\(?\s*(?:[\"']?\w+[\"']?\s*,\s*)?-1\b")
_KILLS_FIRST = Lazy(
    r"\b(?:process\.|posix_)kill\s*\(\s*1\s*[,)]|\b(?:kill|Process\.kill)\s*\(?\s*[\"']?\w+[\"']?\s*,\s*1\s*(?:[;)\n]|$)"
)
PATHS = Lazy(r"[\"'`](?:<\s?)?((?:/|~|\.\.?/)[^\"'`\s]{2,200})[\"'`]")
_FORK = Lazy(r"\b(?:while|until|for|loop)\b[^\n]{0,60}\b(?:pcntl_)?fork\b|\bfork\b\s*while\b")


def text(run: Interpreter, call: Call, code: str, language: str) -> str:
    """Look through code of a language that is not parsed, and return what it prints."""
    if REMOTE in code:
        who = call.name if language == "other" else language
        run.note("remote-code", f"{who} runs what comes from the network")
    elif marks.DECODED in code:
        run.note("decoded-code", f"{language} runs what was decoded from an unreadable text")
        code = legible(code)
    elif marks.marked(code) and not code.strip(marks.ALL + " \n"):
        run.note("unknown-code", f"{language} runs code that is not known")
        return UNKNOWN
    if len(code) > 5 * MAX_CODE:
        run.note("code-unreadable", f"{language} code that is too long to be read")
        return UNKNOWN
    code = _BLANK_LINES.sub("\n", marks.plain(code))
    shown(run, call, code, language)
    code = _expanded(code)
    if language in ("Ruby", "Crystal") and "%" in code:
        code = _WORDS.sub(_listed, code)
    elif language == "Lua":
        code = quotes.keyed(code)
    code, commands = quotes.rewritten(code, language)
    for command in commands:
        _ticked(run, call, command, language)
    if quotes.computed(code, language):
        run.note("code-runs", f"{language} code that calls what is not known")
    for said, end in run.first(quotes.evaluated(code)):
        whole = "".join(literals(said, code, end))
        if _joined(code, end):
            run.note("code-runs", f"{language} code that runs code which is not known")
        elif run.depth < 20 and len(whole) < len(code):
            run.depth += 1
            try:
                text(run, call, whole, language)
            finally:
                run.depth -= 1
    for whole in within(run, call, code):
        run.depth += 1
        try:
            text(run, call, whole, language)
        finally:
            run.depth -= 1
    if run.depth < 20 and _DECODES.search(code):
        run.depth += 1
        try:
            text(run, call, _DECODES.sub(_said, code), language)
        finally:
            run.depth -= 1
    if language in _SCRIPTS and _COMPUTED.search(code):
        run.note("code-runs", f"{language} code that calls what is not known")
    if language in _SCRIPTS and "child_process" in code:
        for match in run.first(_GIVEN.finditer(code)):
            if not re.search(
                r"\b(?:const|let|var)\s+" + re.escape(match.group(1)) + r"\s*=\s*[\"'`\[]", code
            ):
                run.note("code-runs", f"{language} code that runs a command which is not known")
    if language == "PHP" and _BY_VARIABLE.search(code):
        run.note("code-runs", "PHP code that calls a function by its name")
    if "eval" not in code:
        code = _PRINTED.sub('print ""', code)
    if _DELETES.search(code) or (
        language in _SCRIPTS
        and (_METHOD_DELETES.search(code) or (_FILES.search(code) and _NAMED.search(code)))
    ):
        run.note("code-deletes", f"{language} code that deletes files")
    for match in run.first(_TREES.finditer(code)):
        path = next((one for one in match.groups() if one), "")
        if path.startswith(("/", "~")):
            run.call(msgspec.structs.replace(call, argv=["rm", "-rf", path], stdin=None))
    if _NETWORK_SHELL.search(code) or ("child_process" in code and _NODE_SHELL.search(code)):
        run.note("code-network", f"{language} code that opens a connection")
    if _REMOTE_CODE.search(code):
        run.note("remote-code", f"{language} code that runs what comes from the network")
    if _LISTED.search(code):
        run.note("code-deletes", f"{language} code that deletes directories")
    if language != "C" and growth.grows(code):
        run.note("endless-output", f"{language} code that fills the memory or a disk")
    if language != "C" and growth.spawns(code):
        run.note("endless", f"{language} code that starts processes without end")
    if _KILLS.search(code):
        run.note("kill-everything", "kills every process", "block")
    elif _KILLS_FIRST.search(code):
        run.note("kill-looked-up", f"{language} code that kills the first process")
    if _FORK.search(code):
        run.note("fork-bomb", "starts itself over and over", "block")
    for match in run.first(_RUNS.finditer(code)):
        words = literals(match.group(1) or match.group(2) or "", code, match.end(), apart=language == "Lisp")
        if len(words) > 1 and " " not in words[0].strip():
            argv = list(words)
            run.subshell(
                partial(run.call, msgspec.structs.replace(call, argv=argv, stdin=None)),
                captured=True,
            )
        else:
            told(run, call, words[0], more=_joined(code, match.end()))
    if _SENDS.search(code):
        if _ENVIRONMENT.search(code):
            run.note("send-secret", f"{language} code that sends the environment")
        for match in run.first(_READ.finditer(code)):
            held = run.reading(run.path(match.group(1) or match.group(2) or "x", call.cwd))
            if marks.PRIVATE in held or marks.SECRET in held:
                run.note("send-secret", f"{language} code that sends a private file")
    for match in run.first(_EXECUTED.finditer(code)):
        shell(run, call, unescape(next((one for one in match.groups() if one), "")))
    for match in run.first(_RUN_AS.finditer(code)):
        words = literals(match.group(1) or match.group(2) or "", code, match.end())
        run.subshell(partial(run.call, msgspec.structs.replace(call, argv=words, stdin=None)), captured=True)
    for match in run.first(_CONNECTED.finditer(code)):
        words = literals(match.group(1) or match.group(2) or "", code, match.end())
        if len(words) > 1:
            again = msgspec.structs.replace(call, argv=words, stdin=None)
            run.subshell(partial(run.call, again), captured=True)
        else:
            told(run, call, words[0], more=_joined(code, match.end()))
    for expression in (_BY_NAME, _PIPED, _TEMPLATE):
        for match in run.first(expression.finditer(code)):
            told(run, call, unescape(next((one for one in match.groups() if one), "").removeprefix("-|")))
    if "child_process" in code or "GLib" in code:
        # Whatever the function was called here.
        for match in run.first(_ANY_STRING.finditer(code)):
            said = unescape(match.group(1) or match.group(2) or "")
            if " " in said and said.split()[0].rpartition("/")[2] in NATIVE:
                shell(run, call, said)
    if language in _SCRIPTS:
        for match in run.first(_TICKED.finditer(code)):
            told(run, call, unescape(match.group(1)))
    for match in run.first(_COLON.finditer(code)):
        shell(run, call, match.group(1))
    if language == "gnuplot":
        for match in run.first(re.finditer(r"(?:^|[;\n])\s*!\s*([^\n]+)", code)):
            shell(run, call, match.group(1))
    if _TYPES.search(code):
        run.note("code-runs", f"{language} code that types at the terminal")
    if language == "Tcl":
        asks = _SPAWNED.search(code)
        if asks and re.search(r"\b(?:exp_)?send\b", code):
            fed(run, asks.group(1))
        for match in run.first(_TCL.finditer(code)):
            shell(run, call, match.group(1))
    if language == "Octave" and re.search(r"\b(?:delete|rmdir|unlink)\b\s*(?:\(|\w)", code):
        run.note("code-deletes", f"{language} code that deletes files")
    if language == "Julia" and re.search(r"\brm\s*\.?\(|\(\s*rm\s*,", code):
        run.note("code-deletes", f"{language} code that deletes files")
    if language in ("Perl", "Ruby", "PHP", "Julia", "Bun", "Crystal", "gnuplot"):
        for match in run.first(_BACKTICK.finditer(code)):
            _ticked(run, call, match.group(1), language)
    if _RUNS_UNKNOWN.search(_ANY_STRING.sub('""', code)):
        run.note("code-runs", f"{language} code that runs what is not known")
    for expression in (_WRITES, _OPENS_RUBY):
        for match in run.first(expression.finditer(code)):
            path = run.path(match.group(1) or match.group(2) or "x", call.cwd)
            run.sink.redirect(">", path, UNKNOWN, call)
            if not match.group().startswith(("rename", "chmod", "copy", "move", "symlink")):
                run.state.write(path, UNKNOWN)
    for match in run.first(_OPENS.finditer(code)):
        path = run.path(match.group(2).strip(), call.cwd)
        run.sink.redirect(">", path, UNKNOWN, call)
        run.state.write(path, UNKNOWN)
    for match in run.first(PATHS.finditer(code)):
        path = run.path(marks.active(match.group(1)), call.cwd)
        if run.sink.secret(path):
            run.sink.redirect("<", path, "", call)
    return UNKNOWN


# A literal text that is decoded where it stands, in any of these languages.
_DECODES = Lazy(
    r"(?:(?:\b[A-Z]\w*(?:::\w+)*(?:\.|::))?\b(?:atob|decode_base64|base64_decode|(?:strict_|urlsafe_)?decode64)\s*\(?\s*|\bBuffer\.from\(\s*)"
    + STRING
    + r"\s*(?:,\s*[\"'](base64|hex)[\"']\s*)?\)?(?:\s*\.\s*toString\([^()]{0,20}\))?"
    r"|\b(?:hex2bin\s*\(|pack\s*\(?\s*[\"']H\*[\"']\s*,)\s*" + STRING + r"\s*\)?"
)


def _said(match: re.Match[str]) -> str:
    first, second, way, third, fourth = match.groups()
    raw = first or second or third or fourth or ""
    hexadecimal = way == "hex" or third or fourth
    said = decoded(raw, "base16" if hexadecimal else "base64")
    return match.group() if said is None else _literal(legible(said))


def _literal(said: str) -> str:
    return '"' + said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _ticked(run: Interpreter, call: Call, script: str, language: str) -> None:
    """Follow a text between backticks, which a shell gets."""
    if language in ("Perl", "Ruby", "PHP", "Crystal") and quotes.VALUE.match(script):
        run.note("code-runs", f"{language} code that runs what is not known")
    told(run, call, unescape(script))


def shown(run: Interpreter, call: Call, code: str, language: str) -> None:
    """Ask about code that prints a variable of the environment which is named like a credential."""
    if not call.captured and any(map(secret_name, _SHOWN.findall(code))):
        run.note("show-secret", f"{language} code that prints a credential")


# A whole directory that is deleted: what it is may be in the line.
_TREES = Lazy(
    r"\b(?:rmtree|remove_tree|remove_dir_all|rm_rf|rm_r|remove_entry_secure|RemoveAll|deltree|removeSync|emptyDirSync|"
    r"rimraf(?:\.sync)?|deleteDir|deleteDirectory|rmdirRecurse|removeTree|removeDirectoryRecursive|removePathForcibly|"
    r"(?:rm|rmdir|remove)(?:Sync)?(?=\s*\([^()]*recursive))\s*\(?\s*\[?\s*"
    r"(?:" + STRING + r"|(~)(?=\s*[),;}]))"
)
_HOME_VALUE = (
    r"(?:process\.env\.HOME|process\.env\[[\"']HOME[\"']\]|(?:os|require\([\"']os[\"']\))\.homedir\(\)|"
    r"ENV\[[\"']HOME[\"']\]|ENV\.fetch\([\"']HOME[\"']\)|Dir\.home|\$ENV\{[\"']?HOME[\"']?\}|getenv\([\"']HOME[\"']\)|"
    r"\$_SERVER\[[\"']HOME[\"']\]|homedir\(\)|Deno\.env\.get\([\"']HOME[\"']\)|Path\.home\(\))"
)
_HOME_JOINED = Lazy(_HOME_VALUE + r"\s*(?:\+|\.|,)\s*([\"'`])/?")
_HOME_WITHIN = Lazy(
    r"\$\{\s*" + _HOME_VALUE + r"\s*\}|#\{\s*" + _HOME_VALUE + r"\s*\}|\$ENV\{[\"']?HOME[\"']?\}|\$HOME\b"
)
_HOME_ALONE = Lazy(_HOME_VALUE)
_EXPANDS = Lazy(
    r"\b(?:File\.expand_path|path\.(?:join|resolve)|File\.join|path\.expanduser|glob)\s*\(\s*"
    + STRING
    + r"\s*\)"
)


def _expanded(code: str) -> str:
    """Return code in which the home directory is written as in a shell."""
    code = _HOME_ALONE.sub('"~"', _HOME_WITHIN.sub("~", _HOME_JOINED.sub(r"\1~/", code)))
    return _EXPANDS.sub(lambda match: '"' + (match.group(1) or match.group(2) or "") + '"', code)


_ENVIRONMENT = Lazy(
    r"process\.env(?![.\[\w])|\bENV(?:\.to_\w+|\b(?!\s*[\[{.]))|%ENV|\$_ENV\b(?!\s*\[)|getenv\(\)"
)
_SENDS = Lazy(r"\bfetch\b|\bhttps?\b|axios|request|Net::HTTP|LWP|curl|socket|XMLHttpRequest", re.IGNORECASE)
_READ = Lazy(
    r"\b(?:readFile\w*|File\.(?:read|open|binread)|IO\.read|file_get_contents|slurp|readTextFile\w*|Bun\.file|fopen|"
    r"createReadStream|read_file|readLines|open)\s*\(?\s*"
    r"(?:(?:my\s*)?[\w$]+\s*,\s*(?:[\"']<[\"']\s*,\s*)?)?" + STRING
)
_EXECUTED = Lazy(STRING + r"\s*\.\s*(?:execute\s*\(|!!?|lines_!)|" + STRING + r"\s*!!?(?=\s|$)")
_ANY_STRING = Lazy(STRING)
_NEXT = Lazy(
    r"\s*(,\s*(?:\{?\s*\w+\s*:\s*)?(?:c\(|&?\[|\(|~[cCsS]|@)?|\.\.?|\+|'?\(\s*(?:list\s+)?|\s)\s*" + STRING
)
_SCRIPTS = frozenset(("Node", "Bun", "Deno"))


_RUN_AS = Lazy(r"\b(?:system|exec)\s*\{[^}]*\}\s*\(?\s*" + STRING)
NATIVE = marks.names(
    "bash sh zsh dash ksh rm sudo su doas dd chmod chown curl wget reboot shutdown poweroff halt kill pkill "
    "killall git python python3 node perl ruby cat find xargs env mkfs docker kubectl"
)


def _listed(match: re.Match[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in match.group(2).split()) + "]"


def literals(first: str, code: str, at: int, *, apart: bool = False) -> list[str]:
    """Return the literal texts of a call: those that are joined as one, those that are separate as
    several.
    """
    words = [unescape(first)]
    while match := _NEXT.match(code, at):
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


_CHECKS = frozenset(("-c", "--check", "-l", "--syntax-check", "-m", "-wc", "-cw"))


# A recursive deletion as a list of words: `("rm", "-rf", x)`, `'rm', ['-r', x]`.
_LISTED = Lazy(r"[\"'](?:[\w/]*/)?rm[\"'][\s,(\[{:\w]{0,20}[\"']-[a-zA-Z]*[rR][a-zA-Z]*[\"']")
# A deletion of what a variable of the code says, and a signal to it.
_DYNAMIC = Lazy(
    r"(?:^|[;&|(]\s*)(?:\S*/)?(rm|unlink|shred|srm|kill|pkill)\s+(?:-[\w-]+\s+)*[^;&|\n]{0,200}?"
    r"(?:\$(?!HOME|PWD|TMPDIR|\()[\w{@]|#\{|[" + UNKNOWN + marks.OUTPUT + marks.SPLIT + "])"
)


def told(run: Interpreter, call: Call, script: str, *, more: bool = False) -> None:
    """Follow a text that code gives to a shell, with values of the code in it, or joined to it."""
    found = _DYNAMIC.search(script + UNKNOWN if more else script)
    if found is not None:
        if "kill" in found.group(1):
            run.note("kill-looked-up", "code that kills processes which are looked up")
        else:
            run.note("code-deletes", "code that deletes files which are not known")
    script = _INTERPOLATED.sub(UNKNOWN, script)
    shell(run, call, script + UNKNOWN if more and script[-1:] in (" ", "/", "=") else script)


# A shell would take it for a comment.
_INTERPOLATED = Lazy(r"#\{[^{}]*\}")
_JOINS = Lazy(r"\s*(?:\.\.|[.+&]|<>|\^)\s*[$@\w(]")


def _joined(code: str, at: int) -> bool:
    """Say whether something that is not literal is joined to the text that ends there."""
    while (match := _NEXT.match(code, at)) is not None and match.end() > at:
        at = match.end()
    return _JOINS.match(code, at) is not None


_IN_PLACE = Lazy(r"-[a-zA-Z0-9]*i(?![a-zA-Z]*e$)|-[a-zA-Z]*i[a-zA-Z]*e$")


class Inline:
    """An interpreter that takes code from an option, a file or its input."""

    def __init__(self, language: str, flags: str, valued: str = "", cluster: str = "") -> None:
        self.language = language
        self.flags = flags.split()
        self.valued = frozenset(valued.split())
        self.cluster = Lazy(cluster) if cluster else None

    def __call__(self, run: Interpreter, call: Call) -> str:
        codes, rest = self.codes(call.argv[1:])
        out = UNKNOWN
        if codes and call.name in ("perl", "ruby") and any(map(_IN_PLACE.match, call.argv[1:])):
            from ._programs import edited

            said = [unescape(one or other) for one, other in _ANY_STRING.findall("".join(codes))]
            files = [one for one in call.argv[1:] if one[:1] != "-" and one not in codes]
            edited(run, call, [*codes, *(f"a {one}" for one in said)], files)
        if len(codes) > 1:
            codes = ["\n".join(codes)]
        for code in codes:
            out = self.look(run, call, code)
        if call.name == "perl" and any("|" in one for one in call.argv[1:] if one not in codes):
            # The names of files that are read by themselves may be commands.
            for one in call.argv[1:]:
                if one not in codes and "|" in (one.strip()[-1:], one.strip()[:1]):
                    shell(run, call, one.strip().strip("|"))
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
            if marks.FOUND in operands[0] and not _CHECKS.intersection(call.argv):
                run.note("unknown-code", f"{self.language} runs each file that is found")
                return UNKNOWN
            held = written(run, path)
            if held is not None:
                if held.strip(marks.ALL + " \n") == "":
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


def rpm(run: Interpreter, call: Call) -> str:
    """What stands in a macro between ``%(`` and its end is run by a shell."""
    for word in call.argv[1:]:
        for piece in word.split("%(")[1:9]:
            shell(run, call, piece.rpartition(")")[0])
        for piece in word.split("%{lua:")[1:9]:
            code = piece.rpartition("}")[0]
            run.handlers["lua"](run, msgspec.structs.replace(call, argv=["lua", "-e", code]))
    from ._programs import PROGRAMS

    inner = PROGRAMS.get(call.name)
    return inner(run, call) if inner else UNKNOWN


class Python(Inline):
    """Python: its code is parsed."""

    def __call__(self, run: Interpreter, call: Call) -> str:
        words = call.argv[1:]
        value = False
        for index, word in enumerate(words):
            if value or word in ("-W", "-X", "--check-hash-based-pycs", "-Q"):
                value = not value
                continue
            if word[:1] != "-" or re.fullmatch(r"-[a-zA-Z]*c", word):
                break
            module = re.fullmatch(r"-[bBdEiIOPqRsStuvVx3?]*m(.*)", word, re.DOTALL)
            if module:
                joined = [module.group(1)] if module.group(1) else []
                return self.module(run, call, joined + words[index + 1 :])
        _, rest = options_of(words, self.valued)
        if rest and _AGENT_SCRIPT.search(rest[0]):
            return run.call(msgspec.structs.replace(call, argv=["hermes", *rest[1:]]))
        if rest and rest[0].endswith("manage.py") and rest[1:2] in (["shell"], ["shell_plus"]):
            for index, word in enumerate(rest[:-1]):
                if word in ("-c", "--command"):
                    return self.look(run, call, rest[index + 1])
        return super().__call__(run, call)

    def module(self, run: Interpreter, call: Call, words: list[str]) -> str:
        if not words:
            return UNKNOWN
        name, rest = words[0], words[1:]
        if name.partition(".")[0] in ("hermes", "hermes_cli"):
            return run.call(msgspec.structs.replace(call, argv=["hermes", *rest]))
        if name in ("runpy", "trace", "cProfile", "profile", "pdb", "coverage", "debugpy"):
            inner = rest[rest.index("-m") + 1 :] if "-m" in rest else rest if name == "runpy" else []
            if inner:
                return self.module(run, call, inner)
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
        held = python_module(run, call, name)
        if held is not None:
            return self.look(run, call, held)
        if name in ("pip", "pytest", "venv", "twine", "poetry", "build", "flit", "hatch", "black", "mypy"):
            return run.call(msgspec.structs.replace(call, argv=[name, *rest]))
        return marks.kinds(call.stdin or "")

    def look(self, run: Interpreter, call: Call, code: str) -> str:
        from ._python import python

        return python(run, call, code)
