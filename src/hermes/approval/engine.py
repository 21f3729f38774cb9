"""The judge that reads a command: it follows what would be run, and decides by rules.

Nothing is ever run, and nothing is looked up but, on this very machine, symbolic links. What cannot be known
is asked.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from hermes._lazy import Lazy

from . import INTERPRETER, UNKNOWN, Decision, Program, Reason, Request, _text
from . import _marks as marks
from ._builtins import BUILTINS
from ._call import Call
from ._carriers import carriers, file
from ._code import CODE
from ._containers import CONTAINERS
from ._effects import EFFECTS
from ._inline import Inline
from ._loads import looked_for
from ._paths import Classes, normal, on_disk
from ._policy import Finding, Policy
from ._programs import PROGRAMS
from ._rules import Rule, Rules, shipped, shipped_rules, user_rules
from ._run import Interpreter
from ._state import STARTING, SessionState, State
from ._syntax import Unparsable

__all__ = ["Engine", "SessionState"]

Disk = Callable[[str], str]

# Longer texts are not read; many documents in a line are.
MAX_LENGTH = 256 * 1024
# What these say of a command is that its text, or what it runs, is not what was looked at, or will be another
# the next time: a yes to it is for once.
_ONCE = marks.names(
    "remote-code decoded-code unknown-code written-code computed-command unparsable deceptive-text too-long "
    "code-unreadable arithmetic-code judge-failed"
)
# Variables that a shell changes by itself.
_CHANGING = marks.names(
    "_ PWD OLDPWD SHLVL RANDOM SRANDOM SECONDS LINENO HISTCMD EPOCHSECONDS EPOCHREALTIME BASHPID PPID "
    "BASH_COMMAND BASH_ARGC BASH_ARGV BASH_LINENO BASH_SOURCE PIPESTATUS COLUMNS LINES "
    "COMP_WORDBREAKS OPTIND ! ?"
)
# What is in a file is nothing to these.
_BLIND = marks.names("rm rmdir unlink shred chmod chown chgrp ls touch mkdir")
# A command of which nothing but blanks and quotes can be written otherwise.
_NOT_BARE = Lazy(rf"[^\w@%+=:,./~\]{marks.ALL}{''.join(marks.GLOBS)}-]")
_PLAIN = Lazy(r"[A-Za-z0-9_ \t'\"@%+:,./-]+")
# How many decisions are kept, on texts of how many characters: agents run the same things again and again.
LATELY = 256
MAX_NAMED = 2000  # words that may name a file of the session
MAX_BARE = 8000  # characters of a command that may be written otherwise
MAX_REASONS = 100  # that are told of one request
LATELY_TEXT = 2000
_RANK = {"allow": 0, "ask": 1, "block": 2}
_SEVERITY = {"low": 0, "medium": 1, "high": 2, "hardline": 3}
# What is blocked even where a line cannot be read. Each pattern is bounded, so a search is linear.
_FLOOR = Lazy(
    r"(?:^|[\s;&|({'\"`])(?:/\S{0,40}/)?(?:"
    r"rm\s{1,9}(?:-[\w-]{1,30}\s{1,9}){0,6}(?:--\s{1,3})?['\"]?(?:/(?:\*|[\s)`;&|]|$|['\"])|~/?(?:\*|"
    r"[\s)`;&|]|$)|\$HOME/?(?:\*|\s|$)|/(?:etc|usr|bin|home|var|boot|lib|root)/?\*?(?:[\s)`;&|]|$|['\"]))"
    r"|mkfs(?:\.\w{1,10})?\s[^\n]{0,60}/dev/[shvn]"
    r"|dd\s[^\n]{0,80}of=/dev/(?:[shv]d|nvme|mmcblk)"
    r"|(?:shutdown|reboot|poweroff|halt)(?:\s{1,9}(?:-[hrpPf]{1,3}|now|\+?\d{1,4}))?\s*(?:$|[\n;&|'\"`)])"
    r"|:\s?\(\s?\)\s?\{\s?:\s?\|\s?:)",
)


class Engine:
    """Judges by the shipped rules and a user's.

    :param rules: the user's rules, in the language of the rules file
    :param deny, ask, allow: short patterns, such as ``git push *``
    :param sudo_password: whether a password for sudo is configured; without one, feeding it one is blocked
    :param home: the user's home in the place; None when it is not known
    :param agent_home: hermes's own directory in the place
    :param look_at_disk: follow symbolic links on this machine's disk, for requests of the backend ``local``;
    this blocks
    :param allow_regenerable: do not ask about deleting node_modules, dist and the like in the workspace
    """

    name = "rules"

    def __init__(
        self,
        *,
        rules: Sequence[Mapping[str, object] | Rule] = (),
        deny: Sequence[str] = (),
        ask: Sequence[str] = (),
        allow: Sequence[str] = (),
        sudo_password: bool = False,
        home: str | None = None,
        agent_home: str | None = None,
        look_at_disk: bool = False,
        allow_regenerable: bool = False,
    ) -> None:
        self._home = home
        self._agent_home = agent_home
        self._look_at_disk = look_at_disk
        self._sudo_password = sudo_password
        self._allow_regenerable = allow_regenerable
        self._lately: dict[tuple[Request, int], tuple[Decision, SessionState | None]] = {}
        own = shipped()
        self._system = own.system
        self._rules, self._trusted, self._read_only = shipped_rules()
        self._user = Rules(user_rules(rules, deny=deny, ask=ask, allow=allow))
        self._classes = Classes(own.paths)
        wrapped = {**carriers(own.wrappers), **CONTAINERS}
        self._handlers = {**PROGRAMS, **CODE, **wrapped, **BUILTINS, "<file>": file}
        self._acting = frozenset(self._handlers.keys() | EFFECTS.keys())
        for name in self._handlers:
            if name in wrapped and name in CODE:
                raise ValueError(f"{name} is both a wrapper and a language")
        self._carrying = (
            frozenset(wrapped)
            | {"npm", "pnpm", "yarn"}
            | {name for name, one in CODE.items() if isinstance(one, Inline)}
        )

    def judge(self, request: Request, state: SessionState | None = None) -> Decision:
        """Decide on one request in a session."""
        if not self._look_at_disk:
            found = self.judge_at_once(request, state)
            if found is not None:
                return found
        request = _fed(request)
        try:
            return self._judge(request, state)[0]
        except Exception as error:
            return Decision(
                action="block" if _FLOOR.search(request.text[:MAX_LENGTH]) else "ask",
                reason=f"the line could not be judged: {type(error).__name__}",
                rule="judge-failed",
                key=_text_key(request),
                after=state,
            )

    @property
    def looks_at_disk(self) -> bool:
        """Whether :meth:`judge` may block."""
        return self._look_at_disk

    def judge_at_once(self, request: Request, state: SessionState | None = None) -> Decision | None:
        """Decide without looking at the disk; None when that is not possible.

        Nothing else counts then, so what was decided lately on the same request in the same state holds.
        """
        lately = (request, id(state))
        found = self._lately.get(lately)
        if found is not None:
            return found[0]
        try:
            decision = self._judge(_fed(request), state, disk=_not_now)[0]
        except Exception:
            return None
        if len(request.text) <= LATELY_TEXT:
            if len(self._lately) >= LATELY:
                del self._lately[next(iter(self._lately))]
            self._lately[lately] = decision, state  # which is kept, so that no other gets its id
        return decision

    def explain(self, request: Request, state: SessionState | None = None) -> tuple[Finding, ...]:
        """Return every finding on a request, not only the one that decides."""
        return tuple(self._judge(request, state)[1].findings)

    def _judge(
        self, request: Request, session: SessionState | None, *, disk: Disk | None = None
    ) -> tuple[Decision, Policy]:
        home = request.home or self._home or "~"
        cwd = request.cwd or ("~" if session is None else session.cwd or "~")
        state = State(session, cwd)
        policy = self._policy(request, state, home, disk)
        if request.cwd:
            state.cwd = policy_path(request.cwd, home)
        else:
            state.cwd = policy_path(state.cwd, home)
        if request.kind == "write":
            call = Call(["write"], state.cwd, (0, len(request.text)), name="write")
            path = policy.path(request.text, call)
            policy.details.append(f">{path}")
            policy.write(path, call)
            state.write(path, marks.UNKNOWN)
            return self._decide(request, policy, state, session, readable=True), policy
        if not request.cwd and (session is None or not session.cwd):
            policy.vague = True  # where it would run
        text = request.text
        if len(text) > MAX_LENGTH:
            policy.note("too-long", "", (0, 0))
            return self._floor(request, policy, session), policy
        deceptive = _text.suspicious(text)
        if deceptive is not None:
            policy.note("deceptive-text", deceptive[0], deceptive[1])
        readable = True
        for version in _text.versions(text):
            said = len(policy.findings)
            if version != text:
                policy.seeming = len(policy.programs_run)
            try:
                self._follow(version, policy, state if version == text else State(session, state.cwd), home)
            except (Unparsable, RecursionError) as error:
                reason = error.reason if isinstance(error, Unparsable) else "it is nested too deeply"
                policy.note("unparsable", f"the line cannot be read: {reason}", (0, len(text)))
                readable = False
                if _FLOOR.search(version):
                    policy.note("floor", "", (0, len(text)), "block")
            if version != text:  # whose places are not those of the text
                policy.findings[said:] = [
                    msgspec.structs.replace(one, span=(0, 0)) for one in policy.findings[said:]
                ]
        return self._decide(request, policy, state, session, readable=readable), policy

    def _follow(self, text: str, policy: Policy, state: State, home: str) -> None:
        run = Interpreter(
            state,
            policy,
            home=home if home.startswith("/") else "~",
            handlers=self._handlers,
            acting=self._acting,
            trusted=self._trusted,
        )
        policy.links, policy.held = state.links, state.files
        before = set(state.functions)
        out = run.script(text, whole=True)
        run.uncalled()
        policy.inherited |= run.called & before
        if marks.SECRET in out or marks.KEY in out:
            policy.note("show-secret", "prints a credential", (0, len(text)))

    def _policy(self, request: Request, state: State, home: str, disk: Disk | None) -> Policy:
        if not (self._look_at_disk and request.backend == "local" and home.startswith("/")):
            disk = None
        elif disk is None:
            disk = partial(on_disk, home=home)
        agent = request.agent_home or self._agent_home
        return Policy(
            self._rules,
            self._user,
            self._classes,
            self._read_only,
            home=home,
            workspace=policy_path(request.workspace or request.cwd or "", home),
            agent_home=policy_path(agent, home) if agent else None,
            sudo_password=self._sudo_password,
            allow_regenerable=self._allow_regenerable,
            disk=disk,
            links=state.links,
            carrying=self._carrying,
            system=self._system,
        )

    def _weight(self, finding: Finding) -> tuple[int, bool, int]:
        # Where a user's own rule forbids it that is what is said: it holds in every place.
        return _RANK[finding.action], finding.rule in self._user.rules, _SEVERITY[finding.severity]

    def _others(self, policy: Policy, worst: Finding) -> tuple[Reason, ...]:
        """Return the other findings, the worst first."""
        if len(policy.findings) == 1:
            return ()
        found = sorted(policy.findings, key=self._weight, reverse=True)[:MAX_REASONS]
        return tuple(Reason(one.reason, one.rule, one.span) for one in found if one is not worst)

    def _floor(self, request: Request, policy: Policy, session: SessionState | None) -> Decision:
        if _FLOOR.search(request.text[:MAX_LENGTH]) or _FLOOR.search(request.text[-MAX_LENGTH:]):
            policy.note("floor", "", (0, 0), "block")
        state = State(session, request.cwd or "~")
        return self._decide(request, policy, state, session, readable=False)

    def _decide(
        self,
        request: Request,
        policy: Policy,
        state: State,
        session: SessionState | None,
        *,
        readable: bool,
    ) -> Decision:
        programs = _programs(policy)
        worst: Finding | None = None
        for finding in policy.findings:
            if worst is None or self._weight(finding) > self._weight(worst):
                worst = finding
        exact = readable and not any(
            marks.unknown(word) for argv, _, _ in policy.programs_run for word in argv
        )
        once = policy.vague or policy.inherited or any(one.rule in _ONCE for one in policy.findings)
        held = _held(session)
        if held is not None and session is not None and session.files and policy.findings:
            read = _read(policy, session, state)
            held = None if read is None else [*held, read] if read else held
        key = ""
        if not once and held is not None:
            key = _key(request, policy, held) if exact and policy.programs_run else _text_key(request)
        if worst is None:
            return Decision(
                action="allow",
                severity="low",
                programs=programs,
                read_only=policy.read_only,
                key=key,
                after=state.kept(session),
            )
        start, stop = worst.span
        return Decision(
            action=worst.action,  # type: ignore[arg-type]
            reason=worst.reason,
            rule=worst.rule,
            severity=worst.severity,  # type: ignore[arg-type]
            programs=programs,
            span=(start, stop) if stop > start else None,
            also=self._others(policy, worst),
            key=key,
            after=state.kept(session),
        )


def _fed(request: Request) -> Request:
    """Return what is typed into an interpreter as a command that feeds it, so that it is read as its code."""
    if request.kind != "input" or not request.reader:
        return request
    program = request.reader.split(maxsplit=1)[0].rpartition("/")[2]
    if INTERPRETER.fullmatch(program) is None:
        return request
    end = "TYPED"
    while end in request.text:
        end += "_"
    text = f"{program} <<'{end}'\n{request.text}\n{end}\n"
    return msgspec.structs.replace(request, kind="run", text=text, reader=None)


def _not_now(path: str) -> str:
    raise LookupError(path)


def policy_path(path: str, home: str) -> str:
    """Return a path with the home directory as ``~``."""
    return normal(path, "/", {}, home) if path else ""


def _key(request: Request, policy: Policy, held: list[object]) -> str:
    """Describe exactly what would run: the text, what that comes to, what is said of it, the session."""
    programs = [[place, cwd, *argv] for argv, cwd, place in policy.programs_run]
    text: str | None = request.text
    if len(programs) == 1 and len(request.text) <= MAX_BARE and _PLAIN.fullmatch(request.text):
        quoted = "'" in request.text or '"' in request.text
        with contextlib.suppress(ValueError):
            words = shlex.split(request.text) if quoted else request.text.split()
            if words == list(policy.programs_run[0][0]):
                text = None  # its words say it all, however they are quoted
    said = sorted({(one.rule, one.reason) for one in policy.findings})
    whole = [request.cwd, text, programs, policy.details, said, held]
    return json.dumps(whole, ensure_ascii=True, separators=(",", ":"))


def _held(session: SessionState | None) -> list[object] | None:
    """Return what of a session tells which programs run, and what they do; None where that is not known."""
    if session is None:
        return []
    variables = [
        [name, value]
        for name, value in sorted(session.variables.items())
        # Entries of an array are in its list.
        if name not in _CHANGING
        and not ("[" in name and isinstance(session.variables.get(name.partition("[")[0]), list))
    ]
    for _, value in variables:
        if value is not None and marks.unknown(value if isinstance(value, str) else "".join(value)):
            return None
    found = [["hash", name, to] for name, to in sorted(session.links.items()) if name.startswith("hash:")]
    # What is as it is in a session that was not used yet says nothing.
    options = sorted(session.options ^ STARTING)
    if not (variables or session.aliases or options or found):
        return []
    return [variables, sorted(session.aliases.items()), options, found]


def _read(policy: Policy, session: SessionState, state: State) -> list[list[str]] | None:
    """Return the files of the session that the command's words name, or that its programs look for, as
    they are before it; None where that is not known.
    """
    found: dict[str, str] = {}
    if sum(len(argv) for argv, _, _ in policy.programs_run) > MAX_NAMED:
        return None
    for argv, cwd, _ in policy.programs_run:
        if argv[0] in _BLIND:
            continue
        words = [part.lstrip("@") for word in argv for part in {word, word.rpartition("=")[2]}]
        if argv[0] == "git":
            words += [f".git/remotes/{word}" for word in argv[1:]]
        for word in (*words, *looked_for(argv[0])):
            path = normal(word, cwd, state.links, policy.home) if word else ""
            text = session.files.get(path)
            # What the command itself writes is what its text says.
            if text is not None and state.files.get(path) is text:
                found[path] = text
    if any(map(marks.unknown, found.values())):
        return None
    return sorted([path, text] for path, text in found.items())


def _programs(policy: Policy) -> tuple[Program, ...]:
    run, seeming = policy.programs_run, policy.seeming
    if seeming >= 0 and run[seeming:] == run[:seeming]:
        run, seeming = run[:seeming], -1
    return tuple(
        Program(
            tuple(map(marks.shown, argv)),
            marks.shown(cwd),
            " ".join(map(_written, argv)) if any(map(marks.globbed, argv)) else "",
            number in policy.met,
            0 <= seeming <= number,
        )
        for number, (argv, cwd, _) in enumerate(run)
    )


def _written(word: str) -> str:
    """Return a word as a shell is told it, with its patterns as such."""
    shown = marks.shown(word)
    if not marks.globbed(word):
        return shown if UNKNOWN in shown else shlex.quote(shown)
    return marks.shown(_NOT_BARE.sub(r"\\\g<0>", word))


def _text_key(request: Request) -> str:
    return json.dumps([request.kind, request.cwd, request.text], ensure_ascii=True, separators=(",", ":"))
