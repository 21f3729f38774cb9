"""Judges what the interpreter finds: commands by the rules, and what they read, write and delete by its
path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import msgspec

from hermes._lazy import Lazy

from . import _effects_trees as trees
from . import _marks as marks
from . import _outputs as outputs
from . import _paths as paths
from ._call import Call
from ._effect import Effect
from ._effects import EFFECTS
from ._environment import variable_rule
from ._marks import ENVIRON, KEY, OUTPUT, PIDS, PRIVATE, SECRET, SPLIT, UNKNOWN
from ._rules import Rule, Rules, Shape
from ._syntax import Span, Unparsable

MAX_FINDINGS = 2000
# What judging commands takes, in steps of about 10 us: each command is one, each of its words and variables,
# each pattern that it is compared with, and each look at what a path is.
MAX_STEPS = 6_100
MAX_OPTIONS = 1_000  # of one command
LONGEST = 4096  # characters of a path
FEW = 12


class Finding(msgspec.Struct, frozen=True):
    """One reason why a request is not simply allowed."""

    action: str
    rule: str
    reason: str
    severity: str
    span: Span


@cache
def _known(rules: Rules) -> frozenset[str]:
    return rules.names | frozenset(EFFECTS)


class Policy:
    """Collects the findings of one request, and the programs it runs."""

    def __init__(
        self,
        rules: Rules,
        user: Rules,
        classes: paths.Classes,
        read_only: Rules,
        *,
        home: str,
        workspace: str,
        agent_home: str | None,
        sudo_password: bool,
        allow_regenerable: bool,
        disk: Callable[[str], str] | None,
        links: Mapping[str, str],
        carrying: frozenset[str],
        system: frozenset[str],
    ) -> None:
        self.rules = rules
        self.user = user
        self.quiet = read_only
        self.home = home
        self.workspace = workspace
        self.agent_home = agent_home
        # A sandbox's private workspace lies among the agent's files, and is not one of them.
        inside = agent_home is not None and workspace.startswith(agent_home + "/")
        self._own_workspace = workspace + "/" if inside else ""
        self.classes: paths.Classes | paths.Homed = classes
        if agent_home and agent_home != "~/.hermes":
            self.classes = paths.Homed(classes, agent_home, self._own_workspace)
        self.held: Mapping[str, str] = {}
        self.sudo_password = sudo_password
        self.allow_regenerable = allow_regenerable
        self.disk = disk
        self.links = links
        self.findings: list[Finding] = []
        self.programs_run: list[tuple[tuple[str, ...], str, str]] = []
        self.met: set[int] = set()  # which of them something is said of
        self.seeming = -1  # where those of the line as it looks begin
        self.details: list[str] = []
        self.inherited: set[str] = set()  # functions of the session that are called
        self.vague = False  # a variable, a document or a target is not known
        self.read_only = True
        self._noted: set[tuple[str, Span]] = set()
        self._steps = 0
        self._dull: dict[str, set[str]] = {}
        self._among_secrets: dict[str, bool] = {}  # directories
        self._allowed = False
        self._kept: Callable[[str], bool] = bool
        self._carrying = carrying
        self._system = system

    # What the interpreter calls

    def programs(self) -> frozenset[str]:
        return _known(self.rules)

    def namesake(self, name: str, path: str) -> bool:
        """Say whether a program only has the name of one of the system."""
        return name in self._system and not paths.of_system(path)

    def secret(self, path: str) -> bool:
        found = self._classes(path)
        return ("secret" in found or "agent_secret" in found) and not path.endswith(".pub")

    def special(self, path: str) -> bool:
        """Say whether there is more to a path than its name."""
        return bool(self._classes(path))

    def held_by(self, path: str) -> str:
        """Return the kind of text that a file holds by its path."""
        found = self._classes(path)
        if ("secret" in found or "agent_secret" in found) and not path.endswith(".pub"):
            return UNKNOWN + SECRET
        if "agent" in found and path.endswith((".pid", "/pid")):
            return UNKNOWN + PIDS
        if "private" in found and not path.endswith((".pub", ".example", ".sample")):
            return UNKNOWN + PRIVATE
        return UNKNOWN

    def note(self, rule: str, reason: str, span: Span, action: str = "ask") -> None:
        self.read_only = False
        if rule == "sudo-password" and self.sudo_password:
            action = "ask"
        shipped = self.rules.rules.get(rule)
        severity = shipped.severity if shipped else "medium"
        if action == "block":
            severity = "hardline"
        self._add(action, rule, reason or (shipped.reason if shipped else ""), severity, span)

    def command(self, call: Call) -> None:
        before, found = self.read_only, len(self.findings)
        self._command(call)
        if self._allowed and len(self.findings) == found:
            self.read_only = before  # the user's rule stands for it

    def _command(self, call: Call) -> None:
        self.spend(len(call.env))
        for name, value in call.env.items():
            self.given(value)
            variable = variable_rule(name, value)
            if variable:
                self.note(variable, f"{self.rules.rules[variable].reason}: {name}", call.span)
        if not call.argv:
            return
        self.programs_run.append((tuple(call.argv), call.cwd, call.place))
        shape = Shape(call.argv)
        if len(shape.flags) > MAX_OPTIONS:
            raise Unparsable("a command of the line has too many options")
        self._allowed = False
        if self.user.rules:
            self._by_user(call, shape)
        if _help(call, shape) or (
            call.argv[-1] == "--help" and "--" not in call.argv and call.name not in self._carrying | _NO_HELP
        ):
            return
        if call.name == "":
            return
        if call.namesake:
            call = msgspec.structs.replace(call, name=call.argv[0])
        found = self.rules.find(call, shape)
        self.spend(1 + len(call.argv) + shape.compared)
        for rule in found:
            self._apply(rule, call)
        if not found and call.name not in _OWN_WORDS and (call.name not in EFFECTS or call.name in _CLIENTS):
            self._generic(call)
        self._effects(call, shape)
        if call.place == "" and len(call.argv) > 1 and call.name not in BUILT_IN:
            outputs.judge(self, call, carries=call.name in self._carrying)

    def _generic(self, call: Call) -> None:
        """Judge a program that nothing is known of by the words that such programs share."""
        if call.name in self._carrying or any(word.startswith(_ONLY_LOOKS) for word in call.argv):
            return
        operands = [word for word in call.argv[1:7] if word[:1] != "-"]
        told = any(_DESTROYS.fullmatch(word) for word in operands[:3])
        if told or any(_DESTROYS_FLAG.match(word) for word in call.argv[1:10]):
            self.note("destroys", f"{call.name}: {' '.join(map(marks.shown, call.argv[1:4]))}", call.span)

    def given(self, text: str) -> None:
        """Take note of a text that a command is given and that is none of its words."""
        self.vague = self.vague or marks.unknown(text)

    def redirect(self, op: str, path: str, content: str, call: Call) -> None:
        self.details.append(f"{op}{path}")
        self.given(path)
        self._allowed = False
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            self.note("raw-socket", "", call.span)
            return
        if op == "<" or op == "<>":
            self.read(path, call)
        else:
            emptied = op == ">" and content == "" and not call.argv
            self.write(path, call, emptied=emptied)
            if (
                op == ">"
                and call.argv
                and call.argv[0] in ("true", ":", "echo", "printf", "cat")
                and content == ""
            ) and not (call.argv[0] == "cat" and len(call.argv) > 1 and call.argv[1] != "/dev/null"):
                self.emptied(path, call)

    # Rules

    def _apply(self, rule: Rule, call: Call) -> None:
        action, severity = rule.action, rule.severity
        if action == "block" and call.place == "container":
            action, severity = "ask", "high"
        self._add(action, rule.id, rule.reason, severity, call.span)

    def _by_user(self, call: Call, shape: Shape) -> None:
        found = self.user.find(call, shape)
        for rule in found:
            if rule.action != "allow":
                self._add(rule.action, rule.id, rule.reason, rule.severity, call.span)
        if any(rule.action == "allow" for rule in found) and not any(
            rule.action != "allow" for rule in found
        ):
            self._allowed = True
            self._kept = self._not_lifted(call, shape)

    def _not_lifted(self, call: Call, shape: Shape) -> Callable[[str], bool]:
        """Return which rules an allow does not lift: those met by an option alone that it does not write.

        An allow for a whole program covers its options, but not those that run something else.
        """
        patterns = self.user.allowing(call, shape)
        if not patterns or not shape.flags:
            return lambda rule: False
        lifts: list[tuple[bool, set[str]]] = []
        for pattern in patterns:
            bare = pattern.without_others(call.argv)
            if len(bare) == len(call.argv):
                return lambda rule: False
            lifts.append((not pattern.steps and not pattern.free, self._met(call, bare)))
        return lambda rule: (
            not any(rule in met or (program and rule not in _BY_OPTION) for program, met in lifts)
        )

    def _met(self, call: Call, words: list[str]) -> set[str]:
        """Return the rules that a command meets with other words."""
        held = self.findings, self._noted, self.read_only, self._allowed
        self.findings, self._noted, self._allowed = [], set(), False
        try:
            other = msgspec.structs.replace(call, argv=words)
            shape = Shape(words)
            for rule in self.rules.find(other, shape):
                self._apply(rule, other)
            self._effects(other, shape)
            return {finding.rule for finding in self.findings}
        finally:
            self.findings, self._noted, self.read_only, self._allowed = held

    def _add(self, action: str, rule: str, reason: str, severity: str, span: Span) -> None:
        self.read_only = False
        if action == "ask" and self._allowed and rule in self.rules.rules and not self._kept(rule):
            return
        self.met.add(len(self.programs_run) - 1)
        key = (rule + action, span)
        if key in self._noted or (len(self.findings) >= MAX_FINDINGS and action == "ask"):
            return  # there is enough to ask about
        self._noted.add(key)
        self.findings.append(Finding(action, rule, reason, severity, span))

    def spend(self, steps: int) -> None:
        """Count what judging the line takes.

        :raises Unparsable: more than is done
        """
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise Unparsable("the line runs too many commands, or names too many paths")

    # Paths

    def _classes(self, path: str) -> tuple[str, ...]:
        self.spend(1)
        if self.disk is not None:
            path = self.disk(path)
        found = self.classes.of(path)
        if marks.unknown(path):
            found = paths.among(self.classes, path, found)
        if self._own_workspace and (path + "/").startswith(self._own_workspace):
            return tuple(one for one in found if not one.startswith("agent"))
        if self.agent_home and (path == self.agent_home or path.startswith(self.agent_home + "/")):
            return ("agent", *found)
        return found

    def path(self, word: str, call: Call) -> str:
        return paths.normal(word, call.cwd, self.links, self.home)

    def read(self, path: str, call: Call) -> None:
        """Judge reading a file."""
        found = self._classes(path)
        if "secret" in found or "agent_secret" in found:
            if path.endswith(".pub"):
                return
            self.note("read-secret", f"reads a credential: {marks.shown(path)}", call.span)
        elif "device" in found and call.name not in (
            "ls",
            "stat",
            "file",
            "test",
            "[",
            "lsblk",
            "blkid",
            "df",
        ):
            self.note("device-write", f"reads the device {marks.shown(path)}", call.span)

    def write(self, path: str, call: Call, *, emptied: bool = False, delete: bool = False) -> None:
        """Judge writing, or deleting, one file."""
        self.read_only = False
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            self.note("raw-socket", "", call.span)
            return
        found = self._classes(path)
        if call.place == "container" or (not found and not emptied and path.isascii()):
            return
        name = marks.shown(path)
        if "device" in found:
            if path.startswith("/dev/loop"):
                self.note("device-write", f"writes to the device {name}", call.span)
            else:
                self.note("overwrite-device", f"overwrites the disk {name}", call.span, "block")
        elif "special" in found:
            self.note("device-write", f"writes to the device {name}", call.span)
        elif path == "/proc/sysrq-trigger":
            self.note("sysrq", "stops the machine through SysRq", call.span, "block")
        elif "agent" in found or "agent_secret" in found:
            self.note("write-agent", f"changes the settings of an agent: {name}", call.span)
        elif "history" in found:
            self.note("write-history", f"changes the record {name}", call.span)
        elif "startup" in found or "secret" in found:
            self.note("write-startup", f"changes {name}, which is run or trusted later", call.span)
        elif "hooks" in found:
            self.note("write-hooks", f"changes what git runs by itself: {name}", call.span)
        elif "temporary" in found:
            pass
        elif "system" in found or "top" in found or "root" in found:
            self.note(
                "delete-protected" if delete else "write-system",
                f"{'deletes' if delete else 'writes to'} {name}, a part of the system",
                call.span,
            )
        elif "kernel" in found:
            self.note("write-kernel", f"changes the running kernel: {name}", call.span)
        elif not path.strip(UNKNOWN + SPLIT + OUTPUT + "/") and (OUTPUT in path) and not delete:
            self.note("write-system", "writes to a path that a command made up", call.span)
        elif emptied:
            self.emptied(path, call)

    def emptied(self, path: str, call: Call) -> None:
        found = self._classes(path)
        if (
            "regenerable" in found
            or "temporary" in found
            or path in ("/dev/null", "/dev/stdout", "/dev/stderr")
        ):
            return
        if re.search(
            r"\.(?:log|out|tmp|pid|lock|cache|err|trace)$|/\.?touch|\.gitkeep$|__init__\.py$|/logs?/", path
        ):
            return
        # `> notes.md` may well make it; what says that nothing goes into it means to empty it.
        near = path.startswith((call.cwd.rstrip("/") + "/", self.workspace.rstrip("/") + "/"))
        means = call.name in _EMPTYING and (call.name != "cat" or "/dev/null" in call.argv)
        if near and not means and re.search(r"\.(?:txt|md|csv|html|json)$", path):
            return
        self.note("empty-file", f"empties {marks.shown(path)}", call.span)

    def delete(
        self, path: str, call: Call, *, recursive: bool, everything: bool = True, looked_up: bool = False
    ) -> None:
        """Judge deleting a path. ``everything`` is false where only some of what is below is deleted."""
        self.read_only = False
        found = self._classes(path)
        if recursive:
            hopeless = "root" in found or "top" in found or "home-itself" in found
            if hopeless and call.place != "container" and everything:
                self.note(
                    "delete-everything",
                    f"deletes {_place(path, call)} with all that is in it",
                    call.span,
                    "block",
                )
                return
            if self.allow_regenerable and self._regenerable(path, call, found):
                return
            self.note("recursive-delete", f"deletes {_place(path, call)} with all that is in it", call.span)
            return
        if call.place == "container":
            return
        if paths.whole(path) or (
            found and found[0] in ("root", "top", "home-itself") and marks.globbed(path)
        ):
            if self.allow_regenerable and self._regenerable(path, call, found):
                return
            if path.rpartition("/")[0] in _PROGRAMS_LIE:
                self.note(
                    "delete-everything", f"deletes the files of {path.rpartition('/')[0]}", call.span, "block"
                )
                return
            self.note(
                "mass-delete",
                f"deletes every file of {marks.shown(path.rpartition('/')[0] or '/')}",
                call.span,
            )
        elif (
            marks.globbed(path)
            and _SOURCES.fullmatch(marks.plain(path.rpartition("/")[2])) is not None
            and "regenerable" not in found
            and "temporary" not in found
        ):
            where = marks.shown(path.rpartition("/")[0] or "/")
            self.note("mass-delete", f"deletes all files of a kind that people write in {where}", call.span)
        elif looked_up:
            self.note("mass-delete", "deletes files that are not known", call.span)
        elif "repository" in found:
            self.note("delete-protected", f"deletes a part of the repository: {marks.shown(path)}", call.span)
        else:
            self.write(path, call, delete=True)

    def regenerable(self, path: str) -> bool:
        found = self._classes(marks.plain(path))
        return "regenerable" in found or "temporary" in found

    def _regenerable(self, path: str, call: Call, found: Sequence[str]) -> bool:
        base = self.workspace.rstrip("/")
        inside = bool(base) and path.startswith(base + "/") and not marks.unknown(path)
        return inside and "regenerable" in found

    # Effects of programs

    def _effects(self, call: Call, shape: Shape) -> None:
        effect = EFFECTS.get(call.name)
        if call.name in trees.TAKES:
            trees.judge(self, call)
        if effect is None:
            self.read_only = self.read_only and self.quiet.meets(call, shape)
            self._reads(call)
            return
        if not effect.quiet and self.read_only:
            self.read_only = self.quiet.meets(call, shape)
        if effect.judge is not None:
            effect.judge(self, call, shape)
        if effect.reads:
            self._reads(call)

    def _reads(self, call: Call) -> None:
        """Judge each word that may name a file."""
        if call.stdin and call.name in _EXPRESSIONS:
            for piece in _QUOTED.findall(call.stdin):
                if self.secret(self.path(piece, call)):
                    self.note("read-secret", f"uses a credential: {marks.shown(piece)}", call.span)
        self.reads(call, call.argv[1:])

    def reads(self, call: Call, words: Sequence[str]) -> None:
        near = bool(self.links) or self._near(call.cwd)
        signs = _SIGNS_IN.get(call.name)
        quoted = call.name in _EXPRESSIONS
        # What names nothing of importance does so for each program that is given it.
        dull = self._dull.setdefault(call.cwd, set()) if not self.links and call.place == "" else set()
        before = ""
        for word in words:
            signed = signs is not None and (before in signs or word.partition("=")[0] in signs)
            before = word
            if signed:
                continue  # it signs in with that, and shows it to nobody
            if not word or (word in dull and not quoted):
                continue
            if word.startswith(("https://", "http://")) and not any(sign in word for sign in "=@,'\""):
                continue  # no part of it is a path of this machine
            # What is no path by its looks may be one where links lead, or among credentials.
            if not near and (
                len(word) < 3
                or ("/" not in word and "id_" not in word and "." not in word and "wallet" not in word)
            ):
                continue
            pieces = _names(word)
            if len(pieces) > 1 and not self.links and word.partition("=")[0].isidentifier():
                del pieces[0]  # `A=/x` is no path as a whole
            if quoted and ("'" in word or '"' in word):
                # A path in an expression: `load_str("/x")`, `copy t from '/x'`.
                pieces += _QUOTED.findall(word)
            if not any([self._uses(piece, call) for piece in pieces]):
                dull.add(word)

    def _near(self, cwd: str) -> bool:
        """Say whether a directory is one of credentials."""
        found = self._among_secrets.get(cwd)
        if found is None:
            found = self._among_secrets[cwd] = "secret" in self._classes(cwd)
        return found

    def _uses(self, piece: str, call: Call) -> bool:
        """Judge a path that a command is given; say whether there is anything to it."""
        if call.place != "" and not piece.startswith(("/", "~")):
            return False
        path = self.path(piece, call)
        glob = not path.isascii() and paths.whole(path)
        found = self._classes(path.rpartition("/")[0] if glob else path)
        if not found:
            return False
        if "history" in found and call.name not in _SEARCHES:
            self.note("read-secret", f"reads what was typed before: {marks.shown(path)}", call.span)
        if "device" in found and not path.startswith("/dev/loop") and call.name in EFFECTS:
            self.note("device-write", f"uses the device {marks.shown(path)}", call.span)
        if ("secret" in found or "agent_secret" in found) and not path.endswith(".pub"):
            self.note("read-secret", f"uses a credential: {marks.shown(path)}", call.span)
        return True

    # Data that leaves

    def leaving(self, call: Call, texts: Sequence[str]) -> bool:
        """Judge texts that are sent over the network."""
        for text in texts:
            if SECRET in text or ENVIRON in text or PRIVATE in text or (KEY in text and not _header(text)):
                self.note("send-secret", "sends a credential or a private file over the network", call.span)
                return True
        return False

    def processes(self, text: str) -> bool:
        return PIDS in text


def _place(path: str, call: Call) -> str:
    """Return a path for a person: one that begins with what is not known may lie anywhere."""
    rest = path.removeprefix(call.cwd.rstrip("/") + "/")
    if rest == path or not marks.unknown(rest[:1]):
        return marks.shown(path)
    said = marks.shown(rest).strip("/")
    return "what is not known here," if said == "…" else said


def _header(word: str) -> bool:
    return re.match(r"(?i)[\w-]+:\s|bearer ", word) is not None


def _names(word: str) -> list[str]:
    """Return the parts of a word that may be paths: after ``=``, ``@``, ``:`` and the like."""
    out = [word] if word[0] not in "-@" else []
    if word[0] == "@":
        out.append(word[1:])
    for sign in "=@:,":
        if sign in word:
            out += [piece for piece in word.split(sign)[1:] if piece]
    if word[0] == "-" and len(word) > 2 and word[1] != "-":
        out.append(word[2:])
    if len(out) > FEW:  # the same again, and what is no path by its looks
        out = [one for one in dict.fromkeys(out) if "/" in one or "." in one or "_" in one]
    return [one for one in out if one and len(one) <= LONGEST and "://" not in one]


_EXPRESSIONS = marks.names(
    "yq dasel jq gojq psql mysql mariadb sqlite3 duckdb mongosh xidel xmllint xmlstarlet gnuplot octave m4 "
    "terraform tofu nix-instantiate usql clickhouse-client clickhouse cqlsh maxima gp sage scilab-cli"
)
_QUOTED = Lazy(r"[\"'`](?:file:/{0,2})?((?:/|~/)[^\"'`\s]{2,200})[\"'`]")
# Options whose value is what a program signs in with.
_SIGNS_IN = {
    name: frozenset(options.split())
    for names, options in {
        "scp sftp": "-i",
        "ansible ansible-playbook": "--private-key --key-file",
        "kubectl oc k helm k9s stern": "--kubeconfig",
    }.items()
    for name in names.split()
}
# All files with an ending that people write themselves.
_SOURCES = Lazy(
    r"\*\.(?:py|ipynb|[cm]?[jt]sx?|vue|svelte|go|rs|c|h|cc|cpp|cxx|hpp|java|kts?|scala|rb|php|cs|fs|swift|exs?|erl|hs|ml|"
    r"clj|jl|lua|sql|proto|tf|tex|md|rst|docx?|xlsx?|pptx?|od[tsp])",
    2,
)
_DESTROYS = Lazy(
    r"(?:[\w.-]+[-:.])?(?:destroy|delete|purge|nuke|wipe|teardown|"
    r"tear-down|factory-reset|drop|terminate|undeploy|obliterate|erase)"
    r"(?:[-:][\w.-]+)?|decommission|dropall|deleteall"
)
_EMPTYING = marks.names("cat cp truncate tee head tail install ln dd rsync sponge sed gsed")
# What the shell does itself writes nowhere by its words.
BUILT_IN = marks.names(
    "echo printf cd test [ export declare local set read return exit eval true false : source ."
)
_SEARCHES = frozenset(("grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "wc"))
_ONLY_LOOKS = ("--dry-run", "--check", "--help", "--dryrun", "--summary", "--list", "--describe", "--plan")
_DESTROYS_FLAG = Lazy(
    r"--(?:delete|purge|destroy|wipe|erase|drop|unregister|"
    r"factory-reset|remove-all|nuke|obliterate)(?:-all)?$"
)
# Programs whose own words have such names and mean less, and which have rules of their own.
_OWN_WORDS = marks.names(
    "git gh glab npm yarn pnpm bun npx pip pip3 poetry uv pipenv cargo go "
    "make gmake docker podman nerdctl docker-compose kubectl oc "
    "python python3 node ruby perl php java mvn gradle gradlew rake "
    "rails bundle mix pytest jest vitest tox nox cmake ninja "
    "hermes hermes-places claude codex aider redis-cli psql mysql "
    "sqlite3 mongosh tmux screen task-x code vim nvim emacs brew"
)
# Met by options that make a program run something else.
_BY_OPTION = frozenset(("run-by-option", "tool-by-option", "git-config"))
_CLIENTS = marks.names("aws az gcloud gsutil rclone mc b2 s3cmd s5cmd azcopy")
# Without their files, without those of directories below, the system does not start.
_PROGRAMS_LIE = marks.names("/etc /boot /bin /sbin /lib /lib64 /usr/bin /usr/sbin /usr/lib /usr/lib64")
_NO_HELP = frozenset(("find", "ssh", "xargs", "env", "bash", "sh", "eval", "source", "."))


def _help(call: Call, shape: Shape) -> bool:
    """Say whether the command only prints its help or version."""
    argv = call.argv
    if (
        len(argv) < 2
        or len(argv) > 4
        or argv[-1] not in ("--help", "--version", "-h", "-V", "-help", "-version")
    ):
        return False
    if argv[-1] in ("-h", "-V") and (
        len(argv) > 2 or call.name in ("shutdown", "halt", "reboot", "poweroff", "docker-x", "sudo-x")
    ):
        return (
            call.name in ("git", "docker", "kubectl", "npm", "cargo")
            and len(argv) == 3
            and not argv[1].startswith("-")
        )
    if argv[-1] == "-V" and call.name not in ("ssh", "python", "python3", "tmux", "gdb", "bash"):
        return len(argv) == 2 and call.name not in ("sudo",)
    return (
        call.name not in _NO_HELP
        and len(shape.flags) == 1
        and (len(argv) == 2 or not call.name.startswith("sudo"))
    )


__all__ = ["Effect", "Finding", "Policy"]
