"""The operations on commands: run, start, attach, stop; jobs, terminals, sessions."""

import os
import re
from _locale import LC_TIME, setlocale
from typing import Any, Dict, List, Optional, Tuple

from .driver import quote
from .proc import command_of, descendants, kill_all, processes, send_signal, started_at
from .server import Call, Guest, OpError, op
from .shell import Shell, ShellTask, find_shell
from .task import Input, Process, Task, set_size, signal_number

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
ARGV_LIMIT = 100000  # Linux takes 128 KiB for one argument
MAX_INPUT = 16 << 20
TOLD = 8192  # bytes of a session's script that go with a greeting


def check_env(env: Optional[Dict[str, str]]) -> Dict[str, str]:
    for key, value in (env or {}).items():
        if not NAME.match(key) or "\0" in value:
            raise OpError("env_invalid", "%r cannot be an environment variable" % key)
    return env or {}


def command_env(guest: Guest, args: Dict[str, Any]) -> Dict[str, str]:
    """Return the variables of one command, once the files that it may know are those its client has."""
    env = check_env(args.get("env"))
    if "credentials" not in args:
        return env
    if guest.credentials is None or guest.credentials.state != args["credentials"]:
        raise OpError("credentials_stale", "other credentials than the client's are here; it was not run")
    return dict(env, HERMES_CREDENTIALS=guest.credentials.dir)


def check_cwd(base: str, cwd: Optional[str]) -> Optional[str]:
    """Return the directory as an absolute path, or say why nothing can run there."""
    if cwd is None:
        return None
    path = os.path.join(base, os.path.expanduser(cwd))
    if not os.path.isdir(path):
        reason = "is not a directory" if os.path.exists(path) else "does not exist"
        raise OpError("cwd_unusable", "the working directory %s %s" % (path, reason), path=path)
    if not os.access(path, os.X_OK):
        raise OpError("cwd_unusable", "the working directory %s may not be entered" % path, path=path)
    return os.path.normpath(path)


def base_env(guest: Guest, args: Dict[str, Any], tty: bool = False) -> Dict[str, str]:
    """Return the environment that commands begin with. On a terminal sudo asks there."""
    env = dict(guest.env)
    for key, value in check_env(args.get("locale")).items():
        try:
            if key == "LANG":
                setlocale(LC_TIME, value)  # one that is not here would make programs complain
            env[key] = value
        except Exception:
            pass
    if guest.sudo is not None and not tty:
        env.update(guest.sudo.env(env))
    env.update(check_env(args.get("base_env")))
    return env


def get_session(guest: Guest, args: Dict[str, Any]) -> Shell:
    """Return the session that a call names; a new one if there is none of that name."""
    name = args["session"]
    shell: Optional[Shell] = guest.sessions.get(name)
    if shell is None:
        env = base_env(guest, args)
        cwd = check_cwd(guest.cwd, args.get("base_cwd")) or guest.cwd
        shell = guest.sessions[name] = Shell(guest, name, env, cwd)
    return shell


def check_turn(shell: Optional[Shell], turn: Optional[int]) -> None:
    """See to it that a session is as the client knew it when it asked whether the command may run."""
    if turn is not None and turn != (shell.turn if shell is not None else 0):
        raise OpError("session_moved", "another client has used the session; the command was not run")


def get_task(guest: Guest, ident: Any) -> Task:
    task: Optional[Task] = guest.tasks.get(ident)
    if task is None:
        raise OpError("job_unknown", "there is no job %s here (any more)" % ident)
    return task


def shell_argv(guest: Guest, command: bytes, state: Optional[bytes]) -> Tuple[List[Any], List[str]]:
    """Return what runs *command* in a shell of its own, and the files that are for that.

    It begins with a session's state if there is one. The variables in it may hold anything: the files lie in
    memory where there is some.
    """
    shell = find_shell()
    if state is None and len(command) < ARGV_LIMIT:
        return [shell, "-c", command], []
    scripts = [(".sh", command + b"\n", "")]
    if state is not None:
        scripts.insert(0, (".state", state, " >/dev/null 2>&1"))
    line, paths = [], []
    for suffix, text, redirect in scripts:
        path = os.path.join(guest.run_dir, "%d%s" % (guest.next_task + 1, suffix))
        with open(path, "wb") as file:
            os.chmod(path, 0o600)
            file.write(text)
        line.append(". %s%s" % (quote(path), redirect))
        paths.append(path)
    return [shell, "-c", "; ".join(line)], paths


@op("run")
def run(guest: Guest, call: Call) -> None:
    """Run a command in a session, or by itself; answer with its output and result."""
    args = call.args
    size = args["command_size"]
    command, given = call.raw[:size], call.raw[size:]
    env = command_env(guest, args)
    merge, limit = bool(args.get("merge")), int(args["limit"])
    stdin = args.get("stdin") or "empty"
    if args.get("session") is None:
        base = base_env(guest, args)
        base.update(env)
        start = check_cwd(guest.cwd, args.get("base_cwd")) or guest.cwd
        cwd = check_cwd(start, args.get("cwd")) or start
        argv, scripts = shell_argv(guest, command, None)
        text = command.decode("utf-8", "surrogateescape")
        process = Process(guest, "run", argv, text, base, cwd, limit, merge, stdin != "empty")
        process.scripts = scripts
        task: Task = process
        task.timeout = args.get("timeout")
        task.begin()
    else:
        check_turn(guest.sessions.get(args["session"]), args.get("turn"))
        shell = get_session(guest, args)
        at = check_cwd(shell.cwd, args.get("cwd"))
        task = shell_task = ShellTask(shell, command, limit, merge)
        shell_task.env, shell_task.at, task.timeout = env, at, args.get("timeout")
        if stdin != "empty":
            task.input = Input(guest)
        shell.submit(shell_task)
    if stdin == "inline":
        assert task.input is not None
        task.input.write(given, lambda: None)
        task.input.finish()
    elif stdin == "stream":
        task.take_input(call)
    call.task = task
    task.by = call.client.id
    task.watch(call, bool(args.get("live")))
    if call.id in call.client.calls:
        leave = call.on_detach
        assert leave is not None

        def cancel() -> None:
            task.wanted = False
            leave()
            task.stop("interrupted")

        call.on_cancel = cancel


@op("start")
def start(guest: Guest, call: Call) -> None:
    """Start a job or a terminal and answer at once with what :meth:`Task.result` says."""
    args = call.args
    size = args.get("size")
    env = base_env(guest, args, size is not None)
    session = guest.sessions.get(args.get("session") or "")
    check_turn(session, args.get("turn"))
    if session is not None and session.settling:
        guest.loop.call_later(0.001, lambda: call.client.serve(call))
        return
    cwd = session.cwd if session is not None else (check_cwd(guest.cwd, args.get("base_cwd")) or guest.cwd)
    cwd = check_cwd(cwd, args.get("cwd")) or cwd
    env.update(command_env(guest, args))
    if args.get("term"):
        env["TERM"] = args["term"]
    if call.raw:
        state = session.job_state() if session is not None else None
        argv, scripts = shell_argv(guest, call.raw, state)
    else:
        argv, scripts = [find_shell(), "-i"], []
    text = call.raw.decode("utf-8", "surrogateescape") or argv[0]
    kind = "job" if size is None or call.raw else "pty"
    task = Process(guest, kind, argv, text, env, cwd, int(args["limit"]), bool(args.get("merge")), True, size)
    task.scripts = scripts
    task.timeout = args.get("timeout")
    task.by = call.client.id
    task.begin()
    call.reply(task.result())


@op("attach")
def attach(guest: Guest, call: Call) -> None:
    """Stream a task's output from an offset, take its input, answer with its result at the end."""
    task = get_task(guest, call.args["task"])
    offsets = {int(chan): max(0, int(at)) for chan, at in (call.args.get("offsets") or {}).items()}
    if task.input is not None and not task.done and call.args.get("input"):
        task.take_input(call)
    task.watch(call, bool(call.args.get("live", True)), offsets)


@op("output")
def output(guest: Guest, call: Call) -> None:
    """Answer with a piece of a task's output, and where the output goes on after it."""
    task = get_task(guest, call.args["task"])
    spool = task.spools.get(call.args.get("chan", 1))
    if spool is None:
        call.reply({"size": 0, "next": 0})
        return
    wanted = max(0, int(call.args["offset"]))
    at = spool.next_offset(wanted)
    data = spool.read(at, max(0, min(int(call.args["size"]), call.client.link.chunk)))
    said = spool.notice(at - wanted) if at > wanted else b""
    call.reply({"size": spool.size, "next": at + len(data), "done": task.done}, said + data)


@op("spill")
def spill(guest: Guest, call: Call) -> None:
    """Answer with a piece of a spill file."""
    path = os.path.join(guest.state_dir, os.path.basename(call.args["path"]))
    if not re.match(r"^\d+\.(out|err)$", os.path.basename(path)):
        raise OpError("not_found", "%s is not a spill file" % path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise OpError("not_found", "the spill file %s is no longer kept" % path) from None
    try:
        size = max(0, min(int(call.args["size"]), call.client.link.chunk))
        call.reply({}, os.pread(fd, size, max(0, int(call.args["offset"]))))
    finally:
        os.close(fd)


@op("write")
def write(guest: Guest, call: Call) -> None:
    """Write to a task's input; the answer comes when the process took it."""
    task = get_task(guest, call.args["task"])
    if task.done or task.input is None:
        raise OpError("job_finished", "job %d has ended and takes no input" % task.id)
    if call.raw:
        task.input.write(call.raw, call.reply)
    if call.args.get("eof"):
        task.input.finish()
    if not call.raw:
        call.reply()


@op("resize")
def resize(guest: Guest, call: Call) -> None:
    task = get_task(guest, call.args["task"])
    if not isinstance(task, Process) or task.tty < 0:
        raise OpError("bad_request", "job %d has no terminal" % task.id)
    if not task.done:
        set_size(task.tty, call.args["size"])
    call.reply()


@op("kill")
def kill(guest: Guest, call: Call) -> None:
    """End a task and all it started, send it a signal, or end one process that was left behind."""
    ident = call.args["task"]
    if isinstance(ident, str):
        kill_stray(guest, ident, call.args.get("signal"))
    else:
        task = get_task(guest, ident)
        number = call.args.get("signal")
        if number is not None and isinstance(task, Process):
            task.signal(signal_number(number))
        elif isinstance(task, Process) and task.done:
            task.nanny.kill()
        else:
            task.stop("killed" if isinstance(task, Process) and task.kind != "run" else "interrupted")
    call.reply()


def kill_stray(guest: Guest, ident: str, number: Any) -> None:
    pids = {"p%d" % pid: pid for pid, _ in strays(guest)}
    if ident not in pids:
        raise OpError("job_unknown", "there is no job %s here (any more)" % ident)
    pid = pids[ident]
    if number is not None:
        send_signal(pid, signal_number(number))
        return
    kill_all(lambda: ({pid} | descendants(processes(), pid)) & set(processes()))


@op("stop")
def stop(guest: Guest, call: Call) -> None:
    """Interrupt what a call of this client started, or what a session runs now."""
    target = call.client.calls.get(call.args.get("call", -1))
    task = target.task if target is not None else None
    if task is None:
        shell = guest.sessions.get(call.args.get("session") or "")
        task = shell.current if shell is not None else None
    if task is not None:
        task.stop("interrupted")
    call.reply({"stopped": task is not None})


def strays(guest: Guest) -> List[Tuple[int, Optional[str]]]:
    """Return the processes that ended commands left running, with their session."""
    found: List[Tuple[int, Optional[str]]] = []
    for shell in list(guest.sessions.values()) + list(guest.closed_shells):
        found += [(pid, shell.name) for pid in shell.strays()]
    for task in guest.tasks.values():
        if isinstance(task, Process) and task.done:
            found += [(pid, None) for pid in task.nanny.tree()]
    return found


@op("tasks")
def tasks(guest: Guest, call: Call) -> None:
    """Answer with every task and every process that was left behind."""
    left = [
        {
            "id": "p%d" % pid,
            "kind": "stray",
            "command": command_of(pid),
            "pid": pid,
            "session": session,
            "state": "running",
            "started": started_at(pid),
        }
        for pid, session in strays(guest)
    ]
    known = [task.listing() for task in guest.tasks.values() if task.wanted or not task.done]
    call.reply({"tasks": known + left})


@op("sudo")
def sudo(guest: Guest, call: Call) -> None:
    from .sudo import serve  # few need it

    serve(guest, call)


@op("credentials")
def credentials(guest: Guest, call: Call) -> None:
    from .credentials import serve  # few need it

    serve(guest, call)


@op("session.open")
def session_open(guest: Guest, call: Call) -> None:
    created = call.args["session"] not in guest.sessions
    shell = get_session(guest, call.args)
    call.reply({"created": created, "cwd": shell.cwd, "program": shell.program})


@op("session.close")
def session_close(guest: Guest, call: Call) -> None:
    shell = guest.sessions.get(call.args["session"])
    if shell is not None:
        shell.close()
    call.reply({"closed": shell is not None})


@op("note")
def note(guest: Guest, call: Call) -> None:
    """Keep a word that each greeting has from now on, as long as this guest lives."""
    if len(guest.notes) < 100 or call.args["key"] in guest.notes:
        guest.notes[call.args["key"][:100]] = call.args["text"][:100]
    call.reply()


@op("session.state")
def session_state(guest: Guest, call: Call) -> None:
    """Answer with where a session is, and a script of what it has defined; the session itself is not made."""
    found = look(guest, call.args["session"], call.client.link.chunk // 2)  # an answer is one frame
    if found is None:
        guest.loop.call_later(0.001, lambda: call.client.serve(call))
        return
    script = found.pop("script", "")
    call.reply(found, script.encode("utf-8", "surrogateescape"))


def look(guest: Guest, name: str, most: int) -> Optional[Dict[str, Any]]:
    """Return what there is to know of a session, with a script below *most* bytes; None while it settles."""
    shell = guest.sessions.get(name)
    if shell is None:
        return guest.no_session(name)
    if shell.settling or not shell.ready:
        return None
    script = shell.defined()
    whole = shell.known and len(script) < most
    return {
        "session": name,
        "known": True,
        "turn": shell.turn,
        "busy": shell.current is not None or bool(shell.queue),
        "whole": whole,
        "cwd": shell.cwd,
        "script": script.decode("utf-8", "surrogateescape") if whole else "",
    }


@op("session.list")
def session_list(guest: Guest, call: Call) -> None:
    call.reply(
        {
            "sessions": [
                {
                    "name": shell.name,
                    "cwd": shell.cwd,
                    "created": shell.created,
                    "running": shell.current.command[:4096] if shell.current is not None else None,
                    "queued": len(shell.queue),
                }
                for shell in guest.sessions.values()
            ]
        }
    )


def install(guest: Guest) -> None:
    """Tell the guest what counts as running, and how everything ends."""
    me = os.getpid()

    def busy() -> bool:
        return any(not task.done for task in guest.tasks.values()) or bool(strays(guest))

    def end_all() -> None:
        for task in list(guest.tasks.values()):
            task.stop("expired")
        for pid, _ in strays(guest):
            send_signal(pid, 9)

    def end_everything() -> None:
        kill_all(lambda: descendants(processes(), me))

    guest.busy = busy
    guest.look = lambda name: look(guest, name, TOLD)
    guest.on_deserted = end_all
    guest.on_exit = end_everything
