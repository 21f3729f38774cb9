"""The shell's side of a session: what it is told at its start, and the state that it dumps.

The driver's code is kept in variables of one line each: functions would be listed, line by line,
in every dump, and a line costs a write.
"""

import re
from typing import List, Optional, Set

BASH = r"""exec 3<&-
BASH_ARGV0=bash
shopt -s expand_aliases
__hermes_stopping=
__hermes_save='{ builtin declare -p; builtin declare -f; builtin declare -xF; builtin alias -p; builtin trap -p;'
__hermes_save+=' builtin umask -p; (( $# )) && { builtin printf "builtin set --"; builtin printf " %q" "$@";'
__hermes_save+=' builtin echo; }; } >@DIR@/state 2>/dev/null || :; builtin printf "S\0" >@DIR@/ctl || :;'
__hermes_save+=' __hermes_return $__hermes_status'
__hermes_done='if [[ $__hermes_stopping ]]; then builtin eval "$__hermes_rest"; fi;'
__hermes_done+=' { builtin printf "R%s\0%s\0" $__hermes_task $__hermes_status; builtin jobs -p; builtin printf "\0";'
__hermes_done+=' builtin pwd; builtin printf "\0"; } >@DIR@/ctl 2>/dev/null || :; builtin eval "$__hermes_save"'
__hermes_exit='__hermes_status=$?; { builtin printf C; builtin pwd; builtin printf "\0"; } >@DIR@/ctl 2>/dev/null || :;'
__hermes_exit+=' builtin eval "$__hermes_save"'
__hermes_stop='__hermes_stopping=1; builtin shopt -s extdebug; builtin set -T;'
__hermes_stop+=' builtin trap "$__hermes_unwind" DEBUG'
__hermes_rest='__hermes_stopping=; builtin trap - DEBUG; builtin shopt -u extdebug; builtin set +T'
__hermes_unwind='if [[ $__hermes_stopping && ${#BASH_SOURCE[@]} -gt 1 ]]; then __hermes_return 2; fi'
__hermes_return() { builtin return $1; }
trap 'builtin eval "$__hermes_stop"' URG
trap 'eval "$__hermes_exit"' EXIT
"""

SH = r"""exec 3<&-
__hermes_save='{ set; export -p; alias; trap; printf "umask "; umask; set +o; } >@DIR@/state 2>/dev/null || :;'
__hermes_save="$__hermes_save"' printf "S\0" >@DIR@/ctl || :; __hermes_return $__hermes_status'
__hermes_done='{ printf "R%s\0%s\0" $__hermes_task $__hermes_status; jobs -p; printf "\0"; pwd; printf "\0"; }'
__hermes_done="$__hermes_done"' >@DIR@/ctl 2>/dev/null || :; eval "$__hermes_save"'
__hermes_exit='__hermes_status=$?; { printf C; pwd; printf "\0"; } >@DIR@/ctl 2>/dev/null || :; eval "$__hermes_save"'
__hermes_return() { return $1; }
trap 'eval "$__hermes_exit"' EXIT
"""

DONE = 'eval "$__hermes_done"\n'

# What a successor must not take over: the shell sets it, or assigning has side effects.
SKIP = re.compile(
    rb"^(?:declare -\S+ |export )?(?:BASH\w*|DIRSTACK|EPOCH\w+|E?UID|FUNCNAME|GROUPS|HERMES_TASK|HISTCMD|HOSTTYPE"
    rb"|LINENO|MACHTYPE|OPTIND|OSTYPE|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|_|__hermes_\w+)"
    rb"(?:=|$)|^declare -fx __hermes_|^trap -- 'builtin eval \"\$__hermes_stop\"' "
)
OPTION = re.compile(rb"^set [-+]o ")
BASH_OPTIONS = re.compile(rb'^declare -\S+ (BASHOPTS|SHELLOPTS)="([\w:-]*)"$', re.M)
READ_ONLY = frozenset((b"login_shell", b"restricted_shell", b"interactive-comments"))
EXIT_TRAP = re.compile(rb"^trap -- '((?:[^']|'\\'')*)' EXIT\n?", re.M)
DEBUG_TRAP = re.compile(rb"^trap -- '(?:[^']|'\\'')*' DEBUG$", re.M)
OUR_EXIT = b'eval "$__hermes_exit"'


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def change_directory(path: str) -> str:
    """Return lines that change the shell's directory without a trace in its variables."""
    return '__hermes_cwd="${OLDPWD-}"; cd -- %s 2>/dev/null || :; OLDPWD=$__hermes_cwd\n' % quote(path)


class State:
    """What a shell dumped: variables, functions, aliases, options, traps, umask, positional parameters."""

    def __init__(self, dump: bytes, first: Optional["State"]) -> None:
        """Take a dump; *first* is that of the fresh shell, whose options are the defaults."""
        self.rewrap = ""  # what puts our EXIT trap around the user's again, when a command set its own
        trap = EXIT_TRAP.search(dump)
        body = trap.group(1) if trap else None
        if body is not None and body.startswith(OUR_EXIT):
            body = body[len(OUR_EXIT) + 1 :]
            dump = EXIT_TRAP.sub(b"", dump)
            if body:
                dump += b"trap -- '%s' EXIT\n" % body
        else:
            wrapped = OUR_EXIT + (b"\n" + body if body else b"")
            self.rewrap = "trap '%s' EXIT\n" % wrapped.decode("utf-8", "surrogateescape")
        self.dump = dump
        self._first = first

    def debug_trap(self) -> str:
        """Return the line that sets the user's DEBUG trap again; empty when there is none."""
        found = DEBUG_TRAP.search(self.dump)
        return found.group().decode("utf-8", "surrogateescape") + "\n" if found else ""

    def script(self) -> bytes:
        """Return the lines that give another shell this state; what sets options comes last."""
        lines = self.dump.split(b"\n")
        options = [line for line in lines if OPTION.match(line)]
        defaults = dict(BASH_OPTIONS.findall(self._first.dump)) if self._first is not None else {}
        for name, values in BASH_OPTIONS.findall(self.dump):
            wanted, default = set(values.split(b":")), set(defaults.get(name, b"").split(b":"))
            options += self._switch(name, wanted - default, True) + self._switch(
                name, default - wanted, False
            )
        kept = [line for line in lines if not OPTION.match(line) and not SKIP.match(line)]
        return b"\n".join(kept + options + [b"return 0\n"])

    @staticmethod
    def _switch(name: bytes, options: Set[bytes], on: bool) -> List[bytes]:
        if name == b"BASHOPTS":
            command = b"shopt -s " if on else b"shopt -u "
        else:
            command = b"set -o " if on else b"set +o "
        return [command + one for one in sorted(options - READ_ONLY) if one]
