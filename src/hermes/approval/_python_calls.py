"""What the calls in Python code do: run commands, read, write and delete files, send."""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

import msgspec

from . import _growth as growth
from . import _marks as marks
from . import _python_tables as py
from ._call import Call
from ._carriers import _ALL_MARKS, SECRETS
from ._decode import legible
from ._inline import told
from ._marks import DECODED, ENVIRON, REMOTE, SECRET, UNKNOWN
from ._paths import everything
from ._python_values import Values


class Calls(Values):
    """Reports what calls do to the interpreter."""

    def writes(self, value: Any, content: str = UNKNOWN) -> None:
        path = self.path(value)
        self.run.sink.redirect(">", path, content, self.call)
        if isinstance(value, str) and path not in self.files.texts:
            self.run.state.write(path, UNKNOWN)

    def runs(self, words: list[Any]) -> None:
        argv = [UNKNOWN if not isinstance(one, str) else one for one in words]
        if argv and argv[0] not in ("sys.executable",):
            self.run.subshell(
                partial(self.run.call, msgspec.structs.replace(self.call, argv=argv, stdin=None)),
                captured=True,
            )

    def shell(self, value: Any) -> None:
        if not isinstance(value, str) or not value.strip(_ALL_MARKS):
            self.run.note("code-runs", "Python code that runs commands which are not known")
            return
        if DECODED in value or REMOTE in value:
            self.run.note("decoded-code" if DECODED in value else "remote-code", "")
            if REMOTE in value:
                return
            value = legible(value)
        told(self.run, self.call, value)

    def takes(self, tree: Any) -> None:
        """Report a directory that is copied with all that is in it."""
        if isinstance(tree, str) and tree:
            argv = ["cp", "-r", tree, UNKNOWN]
            self.run.sink.command(msgspec.structs.replace(self.call, argv=argv, name="cp", stdin=None))

    def called(self, node: ast.Call) -> None:
        name = self.dotted(node.func)
        if isinstance(node.func, ast.Attribute) and self.names.get(node.func.attr) in py.ACTS:
            name = self.names[node.func.attr]  # of a class that was given it
        args = [self.value(one) for one in node.args]
        keywords = {one.arg: one.value for one in node.keywords if one.arg}
        first = (
            args[0]
            if args
            else self.value(keywords.get("args") or keywords.get("path") or keywords.get("file"))
        )
        self.looked(node, name, first)
        if name in py.PRINTS:
            self.printed.append(
                " ".join(UNKNOWN if one is None else str(one) for one in args) + py.PRINTS[name]
            )
            if any(isinstance(one, str) and SECRET in one for one in args):
                self.run.note("show-secret", "prints a credential")
            if any(self.dotted(one) == "os.environ" for one in node.args) and not self.call.captured:
                self.run.note("show-secret", "prints the whole environment")
        elif name in py.SHELL:
            if name == "pty.spawn":
                self.run.note("code-network", "Python code that hands out a shell")
            said = " ".join(map(str, first)) if isinstance(first, list) else first
            if name.startswith("pexpect.") and isinstance(said, str):
                self.run.typed, held = True, self.run.typed
                try:
                    self.shell(said)
                finally:
                    self.run.typed = held
            else:
                self.shell(said)
        elif name in py.RUN or name.startswith(("os.exec", "os.spawn", "os.posix_spawn")):
            self.process(name, node, args, keywords, first)
        elif name in py.TREES:
            self.run.sink.command(_rm(self.call, first, "-rf"))
            self.run.note("code-deletes", "Python code that deletes a directory")
        elif name in py.REMOVES:
            if isinstance(first, str) and first.strip(_ALL_MARKS + "/"):
                self.run.sink.command(_rm(self.call, first, "-f"))
            else:
                self.run.note("code-deletes", "Python code that deletes files which are not known")
        elif name in py.TIMED and isinstance(first, str):
            self.executes("exec", node, first)
        elif name.startswith("operator.") and any(one in py.SHORT for one in args if isinstance(one, str)):
            self.run.note("code-runs", "Python code that calls a function by its name")
        elif name in ("bytearray", "bytes") and node.args and growth.number(node.args[0]) >= growth.HUGE:
            self.run.note("endless-output", "Python code that fills the memory")
        elif name in ("map", "filter") and node.args and self.dotted(node.args[0]) in py.REMOVES | py.TREES:
            self.run.note("code-deletes", "Python code that deletes files which are not known")
        elif name.startswith(("sh.", "plumbum.cmd.")):
            self.runs([name.rpartition(".")[2], *args])
        elif name == "shutil.unpack_archive" or getattr(node.func, "attr", "") == "extractall":
            for one in [*args, *map(self.value, keywords.values())]:
                if isinstance(one, str) and "/" in one:
                    argv = ["tar", "-xf", UNKNOWN, "-C", one]
                    self.run.sink.command(
                        msgspec.structs.replace(self.call, argv=argv, name="tar", stdin=None)
                    )
        elif name == "os.truncate":
            self.run.note("empty-file", "Python code that empties a file")
        elif name in py.MOVES:
            if len(args) > 1 and args[1] == "/dev/null":
                self.run.note("mass-delete", "moves files to nowhere")
            if len(args) > 1:
                self.writes(args[1])
            if isinstance(first, str) and self.run.sink.secret(self.path(first)):
                self.run.sink.redirect("<", self.path(first), "", self.call)
            if name == "shutil.copytree":
                self.takes(first)
        elif name == "shutil.make_archive":
            roots = [keywords[one] for one in ("root_dir", "base_dir") if one in keywords]
            for one in [*args[2:4], *map(self.value, roots)]:
                self.takes(one)
        elif name == "getattr" and len(args) > 1 and args[1] is None:
            if self.dotted(node.args[0]) in py.DANGEROUS:
                self.run.note("code-runs", "Python code that looks up a function by a name that is not known")
        elif name == "webbrowser.get" and isinstance(first, str) and not first.isidentifier():
            self.shell(first.replace("%s", UNKNOWN))
        elif name in ("yaml.load", "yaml.load_all"):
            loader = keywords.get("Loader") or (node.args[1] if len(node.args) > 1 else None)
            if loader is not None and self.dotted(loader) in py.LOADERS:
                self.executes("yaml.unsafe_load", node, None)
        elif name in py.EXECS or name.endswith(".exec_module"):
            self.executes(name, node, first)
        elif name in ("os.kill", "os.killpg", "signal.pthread_kill"):
            if first == -1 or (name == "os.killpg" and first == 0):
                self.run.note("kill-everything", "kills every process", "block")
            elif first is None or first == 1:
                self.run.note("kill-looked-up", "kills processes that are looked up")
        elif name in ("os.chmod", "os.chown", "os.setuid", "os.putenv", "os.mkfifo"):
            if isinstance(first, str):
                self.run.sink.redirect(">>", self.path(first), UNKNOWN, self.call)
        elif name in ("open", "io.open", "os.open", "codecs.open", "gzip.open") or (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "open"
            and isinstance(self.value(node.func.value), str)
        ):
            self.opens(node, args, keywords, name)
        elif name.startswith("socket.") or ".socket" in name or name.endswith("dup2"):
            self.sends = True
            if name.endswith("dup2") or name == "socket.create_server-x":
                self.run.note("code-network", "Python code that hands its streams to a connection")
        elif name.startswith(py.FETCHES):
            self.fetches(name, node, args, keywords)
        elif name == "?":
            self.run.note("code-runs", "Python code that calls what is not known")
        elif name in ("keyring.get_password", "keyring.get_credential"):
            self.run.note("read-secret", "Python code that reads a password of a keyring")
        elif name == "fcntl.ioctl" and "TIOCSTI" in ast.dump(node) + str(0x5412 in args and "TIOCSTI"):
            self.run.note("code-runs", "Python code that types at the terminal")
        elif getattr(node.func, "attr", "") == "reboot" and args and isinstance(args[0], int):
            self.run.note("machine-off", "Python code that stops or restarts the machine", "block")
        elif name in ("ctypes.CDLL", "ctypes.cdll.LoadLibrary"):
            self.run.note("code-runs", "Python code that calls the system's library")
        elif isinstance(node.func, ast.Attribute):
            self.method(node, node.func.attr, args)

    def looked(self, node: ast.Call, name: str, first: Any) -> None:
        """Note that the files of a directory are listed, and that files are read."""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        self.reads_files = self.reads_files or (method or name) in py.READS
        where = first if name in py.LISTS else None
        if isinstance(node.func, ast.Attribute) and method in py.LISTED and name not in py.LISTS:
            where = self.value(node.func.value)
            if isinstance(where, str) and isinstance(first, str):
                if SECRETS.fullmatch(first) and everything(self.path(where)):
                    self.lists_secrets = True
                where = f"{where}/{first}"
        if isinstance(where, str):
            path = self.path(marks.active(where))
            directory = path.rpartition("/")[0] if marks.globbed(path) else path
            if self.run.sink.secret(path) or self.run.sink.secret(directory):
                self.lists_secrets = True

    def method(self, node: ast.Call, attribute: str, args: list[Any]) -> None:
        func = node.func
        assert isinstance(func, ast.Attribute)
        if attribute == "delete" and not args and "objects" in ast.dump(func.value)[:2000]:
            self.run.note("sql", "Python code that deletes rows of a database")
        elif attribute in py.METHODS:
            head = self.value(func.value)
            if isinstance(head, str) and attribute in ("unlink", "rmdir"):
                self.run.sink.command(_rm(self.call, head, "-f"))
            else:
                self.run.note("code-deletes", "Python code that deletes files")
        elif attribute in (
            "write_text",
            "write_bytes",
            "touch",
            "symlink_to",
            "rename",
            "replace",
            "chmod",
            "mkdir",
        ):
            head = self.value(func.value)
            if isinstance(head, str) and (attribute not in ("replace", "rename") or len(args) == 1):
                self.writes(head)
            if attribute == "rename" and args == ["/dev/null"]:
                self.run.note("mass-delete", "moves files to nowhere")
            if attribute in ("rename",) and args and isinstance(args[0], str):
                self.writes(args[0])
        elif attribute in ("read_text", "read_bytes"):
            head = self.value(func.value)
            if isinstance(head, str):
                path = self.path(head)
                self.run.sink.redirect("<", path, "", self.call)
                self.reads_secret = self.reads_secret or self.run.sink.secret(path)
        elif attribute in (
            "sendall",
            "send",
            "sendto",
            "sendmail",
            "send_message",
            "connect",
            "post",
            "put",
            "storbinary",
        ):
            self.sends = True
            self.sent(node)
        elif attribute in ("runsource", "runcode") and args:
            self.executes("exec", node, args[0])
        elif py.CLEARS.fullmatch(attribute) or (attribute == "prune" and "docker" in self.names.values()):
            self.run.note("sql", f"Python code that deletes what a service holds: {attribute}")
        elif attribute in ("system", "popen", "exec_command") or (
            attribute in ("run", "local", "sudo") and py.REMOTES.intersection(self.modules())
        ):
            self.shell(args[0] if args else None)
        elif attribute == "execute" and args and isinstance(args[0], str):
            self.run.sink.command(
                msgspec.structs.replace(self.call, argv=["psql", "-c", args[0]], name="psql", stdin=None)
            )
        elif attribute in ("__subclasses__", "load_module"):
            self.run.note("code-runs", "Python code that calls what is not known")

    def modules(self) -> set[str]:
        return {one.partition(".")[0] for one in self.names.values()}

    def sent(self, node: ast.Call) -> None:
        """Judge what a call sends: the environment as a whole, in whatever it is wrapped."""
        given = [*node.args, *(one.value for one in node.keywords if one.arg != "env")]
        inner = [one for value in given for one in ast.walk(value)]
        looked = {id(one.value) for one in inner if isinstance(one, ast.Subscript)}
        looked |= {id(one.value) for one in inner if isinstance(one, ast.Attribute) and one.attr == "get"}
        if any(
            isinstance(one, ast.Attribute) and id(one) not in looked and self.dotted(one) == "os.environ"
            for one in inner
        ):
            self.run.note("send-secret", "Python code that sends the environment over the network")

    def process(
        self, name: str, node: ast.Call, args: list[Any], keywords: dict[str, ast.expr], first: Any
    ) -> None:
        shell = keywords.get("shell")
        if keywords.keys() & {"stdin", "stdout"} and "socket" in self.modules():
            streams = [self.dotted(keywords[one]) for one in ("stdin", "stdout") if one in keywords]
            if not all(one.startswith(("subprocess.", "sys.")) for one in streams):
                self.run.note("code-network", "Python code that hands its streams to a connection")
        if name.startswith("os."):
            skip = 1 if name.startswith("os.spawn") else 0
            rest = args[skip:]
            if len(rest) > 1 and isinstance(rest[1], list):
                rest = rest[1]
            elif len(rest) > 1:
                rest = rest[1:]
            self.runs(rest)
            return
        if (shell is not None and self.value(shell) not in (0, None)) or (
            isinstance(shell, ast.Constant) and shell.value is True
        ):
            self.shell(first[0] if isinstance(first, list) and first else first)
        elif isinstance(first, list) and first:
            if (
                first[0] is None
                and node.args
                and self.dotted(getattr(node.args[0], "elts", [node.args[0]])[0]) == "sys.executable"
            ):
                first = ["python3", *first[1:]]
            self.runs(first)
        elif isinstance(first, str):
            self.shell(first)
        else:
            self.run.note("code-runs", "Python code that runs a command which is not known")

    def executes(self, name: str, node: ast.Call, first: Any) -> None:
        from ._python import python

        if name == "compile" and not isinstance(first, str):
            return
        if isinstance(first, str) and not marks.marked(first) and self.run.depth < 20:
            self.run.depth += 1
            try:
                python(self.run, self.call, first)
            finally:
                self.run.depth -= 1
            return
        if isinstance(first, str) and REMOTE in first:
            self.run.note("remote-code", "Python code that runs what comes from the network")
        elif isinstance(first, str) and DECODED in first:
            self.run.note("decoded-code", "Python code that runs what it decoded")
            if self.run.depth < 20 and legible(first).strip(_ALL_MARKS):
                self.run.depth += 1
                try:
                    python(self.run, self.call, legible(first))
                finally:
                    self.run.depth -= 1
        else:
            self.run.note("code-runs", "Python code that runs code which is not known")

    def opens(self, node: ast.Call, args: list[Any], keywords: dict[str, ast.expr], name: str) -> None:
        method = isinstance(node.func, ast.Attribute) and name not in (
            "io.open",
            "os.open",
            "codecs.open",
            "gzip.open",
        )
        target = (
            self.value(node.func.value)
            if method and isinstance(node.func, ast.Attribute)
            else (args[0] if args else self.value(keywords.get("file")))
        )
        place = 0 if method else 1
        mode = args[place] if len(args) > place else self.value(keywords.get("mode"))
        path = self.path(target)
        if name == "os.open":
            mode = (
                "a"
                if (len(node.args) > 1 and "O_WRONLY" in ast.dump(node.args[1])) or "O_RDWR" in ast.dump(node)
                else "r"
            )
        if isinstance(mode, str) and any(sign in mode for sign in "wax+"):
            self.writes(target)
            if "w" in mode and id(node) in self.bare:
                self.run.sink.redirect(">", path, "", msgspec.structs.replace(self.call, argv=[]))
        else:
            self.run.sink.redirect("<", path, "", self.call)
            held = self.run.reading(path)
            if SECRET in held or marks.PRIVATE in held:
                self.reads_secret = True

    def fetches(self, name: str, node: ast.Call, args: list[Any], keywords: dict[str, ast.expr]) -> None:
        self.sends = True
        values = [*args, *(self.value(one) for one in keywords.values())]
        if name.endswith("urlretrieve") and len(args) > 1 and isinstance(args[1], str):
            self.run.sink.redirect(">", self.path(args[1]), UNKNOWN, self.call)
            self.run.state.write(self.path(args[1]), UNKNOWN + REMOTE)
        if any(isinstance(one, str) and (SECRET in one or ENVIRON in one) for one in values):
            self.run.note("send-secret", "Python code that sends a credential over the network")
        self.sent(node)
        if name.endswith(".delete"):
            self.run.note("http-delete", "sends a request that deletes something")


def _rm(call: Call, target: Any, flags: str) -> Call:
    return msgspec.structs.replace(
        call,
        argv=["rm", flags, target if isinstance(target, str) and target else UNKNOWN],
        name="rm",
        stdin=None,
    )


__all__ = ["Calls"]
