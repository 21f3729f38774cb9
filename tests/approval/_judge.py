"""A small judge that resolves words, follows sessions and gives every kind of decision."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

import msgspec

from hermes.approval import Decision, Program, Request

READ_ONLY = {"ls", "cat", "pwd", "echo", "true", ":"}


class State(msgspec.Struct, frozen=True, kw_only=True):
    cwd: str | None = None
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    functions: dict[str, str] = msgspec.field(default_factory=dict)
    aliases: dict[str, str] = msgspec.field(default_factory=dict)


class Small:
    """Asks about rm -r and git push, blocks mkfs, and has two rules of the user's: no sudo, always make."""

    name = "small"

    def __init__(self) -> None:
        self.seen: list[Request] = []

    def judge(self, request: Request, state: Any = None) -> Decision:
        self.seen.append(request)
        if request.kind == "write":
            place = os.path.normpath(os.path.join(request.cwd or "/", request.text))
            return (
                _asked(request, [Program(argv=("write", place), cwd=request.cwd)], "it writes there", "etc")
                if place.startswith("/etc")
                else Decision(action="allow")
            )
        state = state or State(cwd=request.cwd)
        cwd = request.cwd or state.cwd
        found: list[Decision] = []
        programs: list[Program] = []
        variables, functions = dict(state.variables), dict(state.functions)
        for name, body in re.findall(r"^(\w+) ?\(\) ?\n?\{(.*?)\}", request.text, re.S | re.M):
            functions[name] = body.strip().rstrip(";").strip()
        text = request.text.replace("\\\n", "")
        text = re.sub(r"^\w+ ?\(\) ?\n?\{.*?\}", "", text, flags=re.S | re.M)
        for part in re.split(r"[;\n]|&&|\|", text):
            try:
                words = [_expand(word, variables) for word in shlex.split(part, comments=True)]
            except ValueError:
                found.append(Decision(action="ask", reason="it cannot be read"))
                continue
            if words[:2] == ["unset", "-f"]:
                functions.pop(words[2], None)
                continue
            while words and words[0] in functions:
                words = [*shlex.split(functions[words[0]]), *words[1:]]
            if not words:
                continue
            if words[0] in ("export", "declare"):
                for name, given, value in (word.partition("=") for word in words[1:]):
                    variables |= {name: value} if given else {}
                if any(word.startswith("LD_PRELOAD=") for word in words):
                    found.append(Decision(action="ask", reason="it loads a library", rule="preload"))
                continue
            if re.fullmatch(r"\w+=.*", words[0]):
                name, _, value = words[0].partition("=")
                variables[name] = value
                continue
            if words[0] == "cd" and len(words) > 1:
                cwd = os.path.normpath(os.path.join(cwd or "/", words[1]))
                continue
            program = Program(argv=tuple(words), cwd=cwd)
            programs.append(program)
            found.append(_one(request, program))
        worst = max(
            found,
            key=lambda one: ("allow", "ask", "block").index(one.action),
            default=Decision(action="allow"),
        )
        return msgspec.structs.replace(
            worst,
            programs=tuple(programs),
            key="\n".join(f"{shlex.join(one.argv)} in {one.cwd}" for one in programs),
            read_only=all(one.argv[0] in READ_ONLY for one in programs),
            after=State(cwd=cwd, variables=variables, functions=functions),
        )


def _expand(word: str, variables: dict[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda found: variables.get(found[1], "…"), word)


def _one(request: Request, program: Program) -> Decision:
    words = program.argv
    if words[0] == "mkfs":
        return Decision(action="block", reason="it formats a disk", rule="mkfs", severity="hardline")
    if words[0] == "sudo":
        return Decision(action="block", reason="sudo is denied", rule="user-deny-1")
    if words[0] == "make":
        return Decision(action="allow", rule="user-allow-1")
    if words[0] in ("rm", "/bin/rm") and any(word.startswith("-") and "r" in word for word in words):
        return _asked(request, [program], "it deletes a directory", "recursive-delete")
    if words[:2] == ("git", "push"):
        return _asked(request, [program], "it publishes", "git-push")
    return Decision(action="allow")


def _asked(request: Request, programs: list[Program], reason: str, rule: str) -> Decision:
    at = request.text.find(programs[0].argv[0])
    return Decision(
        action="ask",
        reason=reason,
        rule=rule,
        programs=tuple(programs),
        key="\n".join(f"{shlex.join(one.argv)} in {one.cwd}" for one in programs),
        span=(at, len(request.text)) if at >= 0 else None,
    )
