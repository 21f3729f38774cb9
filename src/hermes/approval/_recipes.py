"""Files that a session wrote, and that a program which looks for them runs: what would be run of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hermes._lazy import Lazy

from . import _marks as marks
from ._call import Call

if TYPE_CHECKING:
    from ._run import Interpreter

_LANGUAGES = (
    (Lazy(r"\.envrc|.*\.sh"), "bash"),
    (Lazy(r"(?!setup\.py|.*tox).*\.py"), "python3"),
    (Lazy(r"(?:Gruntfile|[Gg]ulpfile|(?:webpack|vite)\.config)\.js"), "node"),
    (Lazy(r"[Rr]akefile|Vagrantfile|Thorfile|.*\.rb"), "ruby"),
    (Lazy(r".*\.[cm]?[jt]s"), "node"),
    (Lazy(r".*\.p[lm]"), "perl"),
    (Lazy(r".*\.lua"), "lua"),
    (Lazy(r".*\.php"), "php"),
)
# Files without an ending that says it are of the language of what loads them.
_OWN = marks.names("node ruby perl lua php")
# The lines of these are commands, or have one after a key.
_LINES = Lazy(
    r"\.?[Jj]ustfile|Taskfile\.ya?ml|Procfile|\.mise\.toml|devbox\.json|tox\.ini|\.pre-commit-config\.yaml|"
    r"lefthook\.yml|dvc\.yaml|Snakefile|build\.ninja|Earthfile|Tiltfile"
)
_LEAD = Lazy(r"[\s@-]*(?:[\w.\"'-]+\s*[:=]\s*|RUN\s+|local\s*\(\s*)?[\[\"'@\s-]*")


def follow(run: Interpreter, call: Call, path: str, text: str, *, loaded: bool = False) -> None:
    """Follow a file of the session that a program runs by itself, or that an option has it load."""
    name = path.rpartition("/")[2]
    for pattern, program in _LANGUAGES:
        if pattern.fullmatch(name) or (loaded and call.name == program and program in _OWN):
            if call.name != program or loaded:
                again = msgspec.structs.replace(call, argv=[program, path], stdin=None, captured=True)
                run.subshell(
                    partial(run.handlers[program], run, msgspec.structs.replace(again, name=program))
                )
            return
    if _LINES.fullmatch(name):
        held, run.lenient = run.lenient, True
        try:
            for line in run.first(marks.plain(text).split("\n"), 2000):
                lead = _LEAD.match(line)
                script = line[lead.end() if lead else 0 :].rstrip("\"'], ")
                if script:
                    run.subshell(partial(run.quietly, script), captured=True)
        finally:
            run.lenient = held
