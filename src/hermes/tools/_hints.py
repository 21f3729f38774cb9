"""What well-known exit codes mean, for whoever has to decide what to do next."""

from __future__ import annotations

import re
import shlex
import signal

__all__ = ["hint_for"]

_PLAIN = {
    126: "126: it was found but cannot be executed: is it a directory, or not marked as executable?",
    127: "127: the shell found no such program: is it installed, is the name right, is it on the PATH?",
}

_SIGNALS = {
    signal.SIGINT: "interrupted",
    signal.SIGKILL: "killed by SIGKILL: often for want of memory",
    signal.SIGSEGV: "crashed: it touched memory that is not its own",
    signal.SIGABRT: "it aborted itself: an assertion or a corrupt heap",
    signal.SIGBUS: "crashed with a bus error: often a full disk or a file that was cut short",
    signal.SIGFPE: "crashed by an arithmetic error, such as a division by zero",
    signal.SIGILL: "crashed by an instruction that this processor has not got",
    signal.SIGPIPE: "who read its output went away, as `head` does: no failure by itself",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGXCPU: "ended by a limit of processor time",
    signal.SIGXFSZ: "ended by a limit of file size",
    signal.SIGSYS: "ended for a system call that is forbidden here",
}

# By the program that ended last. What is no failure is said to be none.
_PROGRAMS: dict[str, dict[int, str]] = {
    "grep": {1: "nothing matched, which is no failure", 2: "a wrong pattern, or a file that cannot be read"},
    "rg": {1: "nothing matched, which is no failure", 2: "a wrong pattern, or a file that cannot be read"},
    "diff": {1: "the files differ, which is no failure", 2: "a file is missing or cannot be read"},
    "cmp": {1: "the files differ, which is no failure"},
    "test": {1: "the condition is false, which is no failure"},
    "[": {1: "the condition is false, which is no failure"},
    "which": {1: "no such program is on the PATH"},
    "pgrep": {1: "no process matched, which is no failure"},
    "pkill": {1: "no process matched"},
    "make": {2: "a command of a target failed: its own message is above", 1: "with -q: not up to date"},
    "pytest": {
        1: "tests failed",
        2: "the run was interrupted, or tests could not be collected",
        3: "an error inside pytest",
        4: "wrong usage of pytest",
        5: "no tests were found",
    },
    "curl": {
        6: "the name of the host cannot be resolved: is there a network here?",
        7: "nothing listens there, or it cannot be reached",
        22: "the server answered with an error (--fail)",
        28: "it took longer than allowed",
        35: "TLS could not be agreed on",
        60: "the certificate cannot be verified",
    },
    "wget": {4: "the network cannot be reached", 5: "the certificate cannot be verified", 8: "an error page"},
    "git": {1: "with diff, grep and the like: there are differences, or nothing matched", 128: "git refused"},
    "ssh": {255: "the connection failed; other codes are those of the remote command"},
    "timeout": {124: "the time that `timeout` was given is over"},
    "tar": {1: "some files changed while they were read", 2: "it failed"},
    "rsync": {23: "some files were not transferred", 24: "some files vanished meanwhile"},
    "apt-get": {100: "apt failed: is there a network, is it root, is another apt running?"},
    "apt": {100: "apt failed: is there a network, is it root, is another apt running?"},
}
_PROGRAMS |= {name: _PROGRAMS["grep"] for name in ("egrep", "fgrep", "zgrep")}
_PROGRAMS["py.test"] = _PROGRAMS["pytest"]

_ENDS = re.compile(r"\|\|?|&&|[;\n&]")
_BEFORE = frozenset(
    ("sudo", "env", "nice", "nohup", "time", "exec", "command", "then", "do", "else", "!", "{")
)


def hint_for(command: str, code: int, *, timed_out: bool = False, out_of_memory: bool = False) -> str | None:
    """Return what an exit code says, None where there is nothing to say."""
    if timed_out:
        return (
            "it was ended by its time limit, and this is its output until then. "
            "Give a longer timeout, or start it with background=true."
        )
    if out_of_memory:
        return "the system ended something for want of memory: the limit is limits.memory"
    program = _last(command)
    if said := _PROGRAMS.get(program, {}).get(code):
        return f"{program} {code}: {said}"
    if code in _PLAIN:
        return _PLAIN[code]
    if code > 128:
        try:
            number = signal.Signals(code - 128)
        except ValueError:
            return None
        return f"{code} is 128 + {number.value} ({number.name}): {_SIGNALS.get(number, 'ended by a signal')}"
    return None


def _last(command: str) -> str:
    """Return the name of what ran last, as far as a glance tells: it is for a hint only."""
    parts = [part for part in _ENDS.split(command[-2000:]) if part.strip()]
    try:
        words = shlex.split(parts[-1]) if parts else []
    except ValueError:
        words = parts[-1].split()
    while words and (words[0] in _BEFORE or re.fullmatch(r"\w+=.*", words[0], re.S)):
        words.pop(0)
    name = words[0].rpartition("/")[2] if words else ""
    if name.startswith("python") and words[1:3] == ["-m", "pytest"]:
        return "pytest"
    return name
