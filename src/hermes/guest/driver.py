"""The shell's side of a session: what it is told at its start, and the state that it dumps.

The driver's code is kept in variables of one line each: functions would be listed, line by line,
in every dump, and a line costs a write.
"""

import re
from typing import Dict, List, Optional, Set, Tuple

BASH = r"""exec 3<&-
BASH_ARGV0=bash
shopt -s expand_aliases
__h_d=@DIR@
__h_b=$__h_d/bash __h_o=$__h_d/o __h_e=$__h_d/e __h_task=-1 __h_unset= __h_pre=
export HERMES_TASK=
__h_return() { builtin return "$1"; }
__h_dump() {
  builtin declare -p; builtin declare -f; builtin declare -xF; builtin alias -p; builtin umask -p
  (( $# )) && { builtin printf 'builtin set --'; builtin printf ' %q' "$@"; builtin echo; }
  builtin printf '\0'
}
# A stop that comes now waits for the end: it would cut the dump. Traps are listed at top level, since a function has its own.
__h_s='__h_stop="__h_late=\$__h_halt" __h_late=; \builtin eval "$__h_pre"; HERMES_TASK=@MARK@.$((__h_task + 1)); \builtin trap "\\builtin eval \"\$__h_stop\"" URG;'
__h_s+=' \builtin trap -p >"$__h_d/state" || \builtin :; __h_dump "$@" >"$__h_d/state" || \builtin :;'
__h_s+=' __h_stop=$__h_halt; \builtin eval "$__h_late"; __h_return "$__h_status"'
__h_t='HERMES_TASK=@MARK@.$((__h_task + 1)); __h_return "$__h_status"'
__h_r='__h_status=$?; \builtin printf "R%s\0%s\0%s\0" "$((++__h_task))" "$__h_status" "$PWD" >"$__h_d/ctl"'
# On lines of their own: what follows the report is parsed after it.
__h_r+=$' || \\builtin exit "$__h_status"\n'
__h_p=$'\\. "$__h_b" >"$__h_o" 2>"$__h_e"\n'"$__h_r$__h_t"
__h_x=$'\\exec </dev/null || \\builtin :\n'
__h_exit='__h_status=$?; \builtin eval "$__h_unset"; \builtin printf "C%s\0" "$PWD" >"$__h_d/ctl" || \builtin :;'
__h_exit+=' \builtin eval "$__h_s" 2>/dev/null'
__h_halt='__h_pre=$__h_rest __h_keep=:$BASHOPTS:$SHELLOPTS:; \builtin shopt -s extdebug; \builtin set -T;'
__h_halt+=' \builtin trap "__h_return \"\$((\${#BASH_SOURCE[@]} > 1 ? 2 : 0))\"" DEBUG'
__h_rest='__h_pre=; \builtin trap - DEBUG; \builtin set +T +E;'
__h_rest+=' \builtin test "${__h_keep#*:extdebug:}" != "$__h_keep" || \builtin shopt -u extdebug;'
__h_rest+=' \builtin test "${__h_keep#*:functrace:}" = "$__h_keep" || \builtin set -T;'
__h_rest+=' \builtin test "${__h_keep#*:errtrace:}" = "$__h_keep" || \builtin set -E'
__h_stop=$__h_halt
trap '\builtin eval "$__h_stop"' URG
trap '\builtin eval "$__h_exit"' EXIT
"""

SH = r"""exec 3<&-
__h_d=@DIR@
__h_b=$__h_d/bash __h_o=$__h_d/o __h_e=$__h_d/e __h_task=-1 __h_unset=
export HERMES_TASK=
__h_return() { return "$1"; }
__h_dump() { set; export -p; printf '\1\n'; alias; printf '\1\n'; trap; printf 'umask '; umask; set +o; printf '\0'; }
__h_s='HERMES_TASK=@MARK@.$((__h_task + 1)); __h_dump >"$__h_d/state" 2>/dev/null || \:; __h_return "$__h_status"'
__h_r='__h_status=$?; __h_task=$((__h_task + 1));'
__h_r="$__h_r"' \printf "R%s\0%s\0%s\0" "$__h_task" "$__h_status" "$PWD" >"$__h_d/ctl"'
__h_r="$__h_r"' || \exit "$__h_status"; '
__h_x='\exec </dev/null; '
__h_exit='__h_status=$?; \printf "C%s\0" "$PWD" >"$__h_d/ctl" || \:; \eval "$__h_s"'
trap '\eval "$__h_exit"' EXIT
"""

# The line after a command: report, then what need not be waited for: take back an `exec <file`, and save.
# The shell reads its lines byte by byte, hence the short names in those that come with each command.
DONE = '\\eval "$__h_r$__h_x$__h_s"\n'
# The same without the dump, after a command that can have changed nothing of it.
DONE_PLAIN = '\\eval "$__h_r$__h_t"\n'
# Such a command and its report in one, where nothing else is to be said: a third of the bytes.
PLAIN = '\\eval "$__h_p"\n'
# A function, so that no trap on DEBUG writes in between; gone afterwards, since each would be dumped.
BASH_JOBS = (
    '__h_jobs() { \\builtin printf J; \\builtin jobs -p; \\builtin printf "\\0"; }\n'
    '__h_jobs >"$__h_d/ctl"; \\builtin unset -f __h_jobs; __h_return "$__h_status"\n'
)
SH_JOBS = BASH_JOBS.replace("builtin ", "")
REST = '\\eval "$__h_pre"\n'

# What a successor must not take over: the shell sets it, or assigning has side effects.
SKIP = re.compile(
    rb"^(?:declare -\S+ |export )?(?:BASH(?!_ENV\b)\w*|DIRSTACK|EPOCH\w+|E?UID|FUNCNAME|GROUPS|HERMES_TASK|HISTCMD|HOSTTYPE"
    rb"|LINENO|MACHTYPE|OPTIND|OSTYPE|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|_|__h_\w+)"
    rb"(?:=|$)|^declare -fx __h_|^trap -- '\\builtin eval \"\$__h_stop\"' "
)
OUR_FUNCTIONS = re.compile(rb"^__h_\w+ \(\) ?\n\{ ?\n.*?^\}\n", re.M | re.S)
OPTION = re.compile(rb"^set [-+]o ")
BASH_OPTIONS = re.compile(rb'^declare -\S+ (BASHOPTS|SHELLOPTS)="([\w:-]*)"$', re.M)
SH_ALIASES = b"\1\n"
ERREXIT = re.compile(rb'^declare -\S+ SHELLOPTS="[^"]*\berrexit\b|^set -o errexit$', re.M)
READ_ONLY = frozenset((b"login_shell", b"restricted_shell", b"interactive-comments"))
XTRACE = re.compile(rb'^declare -\S+ SHELLOPTS="[^"]*\bxtrace\b', re.M)
EXPORTED = re.compile(rb"^(?:declare -\w*x\w* |export )(\w+)(?==|$)", re.M)
VARIABLE = re.compile(rb"^(?:declare -\S+ |export )?(\w+)(?==|$)", re.M)
EXIT_TRAP = re.compile(rb"^trap -- '((?:[^']|'\\'')*)' EXIT\n?", re.M)
DEBUG_TRAP = re.compile(rb"^trap -- '(?:[^']|'\\'')*' DEBUG$", re.M)
OUR_EXIT = re.compile(rb'^\\(?:builtin )?eval "\$__h_exit"(?:\n|$)')
OUR_LINE = b"trap -- '\\builtin eval \"$__h_exit\"' EXIT\n"
EXIT = '\\eval "$__h_exit"'


# A command whose words hold no substitution and no expansion but globs and tildes: blanks, what joins
# commands, redirections, words.
TOKEN = re.compile(
    rb"""[ \t]+|(?P<join>\|\|?|&&|;|\n)|(?P<to>[0-9]?(?:>>|[<>])&?[ \t]*)|"""
    rb"""(?P<word>(?:[^\s|&;<>(){}`\\'"$!#]|'[^']*'|"[^"$`\\!]*")+)"""
)
PROGRAM = re.compile(rb"[\w./+-]+\Z")
# What bash takes for its own word, and may change the session; the rest of its commands only print.
OWN_WORDS = frozenset(
    b". [ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare"
    b" dirs disown do done elif else enable esac eval exec exit export fc fg fi for function getopts hash help"
    b" history if in jobs kill let local logout mapfile popd printf pushd read readarray readonly return"
    b" select set shift shopt source suspend test then time times trap type typeset ulimit umask unalias"
    b" unset until wait while".split()
)
FUNCTION = re.compile(rb"^(\S+) \(\) $", re.M)


def programs(text: bytes) -> Optional[Set[bytes]]:
    """Return the names of the programs that a command runs, None unless it certainly does nothing else.

    Such a command leaves the variables, functions and options of its shell as they were, as long as
    none of the names is a function, an alias or one of the shell's own words.
    """
    names: Set[bytes] = set()
    at, expected, target = 0, True, False  # whether a name is expected, or what a redirection is about
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        if token.lastgroup is None:
            continue
        if target != (token.lastgroup == "word") and target:
            return None
        if token.lastgroup == "join":
            expected = True
        elif token.lastgroup == "to":
            target = True
        elif target:
            target = False
        elif expected:
            if not PROGRAM.match(token.group()):
                return None
            names.add(token.group())
            expected = False
    return None if target or names & OWN_WORDS else names


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def change_directory(path: str) -> str:
    """Return lines that change the shell's directory without a trace in its variables."""
    return '__h_cwd="${OLDPWD-}"; \\cd -- %s 2>/dev/null || \\:; OLDPWD=$__h_cwd\n' % quote(path)


def set_variables(is_bash: bool, variables: Dict[str, str]) -> Tuple[str, str, str]:
    """Return what sets variables for one command: lines before it, its own prefix, lines after it."""
    if is_bash:
        prefix = "".join("%s=%s " % (key, quote(value)) for key, value in variables.items())
        # unset before a command's end is dumped, when that ends the shell
        return "__h_unset='\\builtin unset -v %s'\n" % " ".join(variables), prefix, "__h_unset=\n"
    before = after = ""
    for key, value in variables.items():
        before += "__h_%s=${%s-} __h_%s_=${%s+x}\n\\export %s=%s\n" % (key, key, key, key, key, quote(value))
        after += 'if [ "$__h_%s_" ]; then %s=$__h_%s; else unset %s; fi\n' % (key, key, key, key)
    return before, "", after


class State:
    """What a shell dumped: variables, functions, aliases, options, traps, umask, positional parameters."""

    def __init__(self, dump: bytes, first: Optional["State"]) -> None:
        """Take a dump; *first* is that of the fresh shell, whose options are the defaults."""
        self.dump = dump
        self._first = first
        self._own: Optional[Set[bytes]] = None  # names of functions
        self._plain = False

    def stays(self, names: Set[bytes]) -> bool:
        """Return whether a command that runs only the programs of these *names* leaves all as it is here."""
        if self._own is None:
            self._own = set(FUNCTION.findall(self.dump))
            # With an alias any word may be another, and a trap may run anything; a trace counts the evals.
            first = self._first or self
            self._plain = b"\nalias " not in self.dump and self._traps() == first._traps()
            self._plain = self._plain and not XTRACE.search(self.dump)
        return self._plain and not names & self._own

    def _traps(self) -> bytes:
        return self.dump.partition(b"declare -")[0]

    def rewrap(self) -> str:
        """Return the line that puts our EXIT trap around the user's, when a command set its own."""
        if OUR_LINE in self.dump:
            return ""
        body = self._exit_trap()
        if body is not None and OUR_EXIT.match(body):
            return ""
        users = "\n" + body.decode("utf-8", "surrogateescape") if body else ""
        return "\\trap '%s%s' EXIT\n" % (EXIT, users)

    def _exit_trap(self) -> Optional[bytes]:
        found = EXIT_TRAP.search(self.dump)
        return found.group(1) if found else None

    def errexit(self) -> bool:
        """Return whether a failing command ends the shell."""
        return ERREXIT.search(self.dump) is not None

    def debug_trap(self) -> str:
        """Return the line that sets the user's DEBUG trap again; empty when there is none."""
        found = DEBUG_TRAP.search(self.dump)
        return found.group().decode("utf-8", "surrogateescape") + "\n" if found else ""

    def script(self) -> bytes:
        """Return the lines that give another shell this state; what sets options comes last."""
        body = OUR_EXIT.sub(b"", self._exit_trap() or b"")
        dump = EXIT_TRAP.sub(b"", self.dump)
        if SH_ALIASES in dump:  # which sh lists without the word that sets them
            before, aliases, after = dump.split(SH_ALIASES, 2)
            dump = before + re.sub(rb"^(?=[^\s=']+=')", b"alias ", aliases, flags=re.M) + after
        lines = dump.split(b"\n")
        if body:
            lines.append(b"trap -- '%s' EXIT" % body)
        options = [line for line in lines if OPTION.match(line)]
        defaults = dict(BASH_OPTIONS.findall(self._first.dump)) if self._first is not None else {}
        for name, values in BASH_OPTIONS.findall(self.dump):
            if name == b"BASHOPTS":  # the driver switches it on, a job's shell does not
                options += self._switch(name, {b"expand_aliases"}, b"expand_aliases" in values.split(b":"))
            wanted, default = set(values.split(b":")), set(defaults.get(name, b"").split(b":"))
            options += self._switch(name, wanted - default, True) + self._switch(
                name, default - wanted, False
            )
        kept = [line for line in lines if not OPTION.match(line) and not SKIP.match(line)]
        if self._first is not None:  # what the environment brings and the session had unset
            missing = set(EXPORTED.findall(self._first.dump)) - set(EXPORTED.findall(self.dump))
            present = set(VARIABLE.findall(self.dump))
            kept += [(b"export -n " if name in present else b"unset -v ") + name for name in sorted(missing)]
        return b"\n".join(kept + options + [b"return 0\n"])

    @staticmethod
    def _switch(name: bytes, options: Set[bytes], on: bool) -> List[bytes]:
        if name == b"BASHOPTS":
            command = b"shopt -s " if on else b"shopt -u "
        else:
            command = b"set -o " if on else b"set +o "
        return [command + one for one in sorted(options - READ_ONLY) if one]
