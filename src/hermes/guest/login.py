"""The environment that a user has after logging in: what the profile of his own shell makes of it."""

import json
import os
import pwd
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List

from .child import fork

LOGIN_SECONDS = 15.0
SHELLS_OWN = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})


def read(guest: Any) -> None:
    """Begin to read it; what clients ask for waits until it is known, or cannot be."""
    parts: List[bytes] = []
    _pid, verdict = fork(lambda: environment(guest.run_dir, sys.executable, guest.env), ())

    def readable() -> None:
        data = os.read(verdict, 1 << 16)
        parts.append(data)
        if data:
            return
        guest.loop.remove_reader(verdict)
        os.close(verdict)
        found = json.loads(b"".join(parts).decode("ascii") or "{}")
        if isinstance(found.get("env"), dict):
            guest.env = found["env"]
        else:
            print("the login shell did not tell its environment: %s" % found, file=sys.stderr)
        guest.release()

    guest.loop.add_reader(verdict, readable)


def environment(run_dir: str, python: str, env: Dict[str, str]) -> Dict[str, Any]:
    """Return the variables that the user's login shell ends up with. Takes as long as the profile takes.

    The shell may be any: it gets one command of plain words. What it prints and leaves open does not matter,
    since the answer comes in a file.
    """
    script, answer = os.path.join(run_dir, "login.py"), os.path.join(run_dir, "login")
    with open(script, "w") as file:
        file.write(
            "import os\nwith open(%r, 'wb') as f:\n"
            " f.write(b'\\0'.join(k + b'=' + v for k, v in os.environb.items()))\n"
            "os.rename(%r, %r)\n" % (answer + ".new", answer + ".new", answer)
        )
    shell = env.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    process = subprocess.Popen(
        ["-" + os.path.basename(shell), "-c", "exec %s -I -S %s" % (python, script)],
        executable=shell,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=env,
        cwd=env.get("HOME") if os.path.isdir(env.get("HOME", "")) else "/",
        start_new_session=True,
    )
    deadline = time.monotonic() + LOGIN_SECONDS
    while process.poll() is None and not os.path.exists(answer) and time.monotonic() < deadline:
        time.sleep(0.002)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        with open(answer, "rb") as found:
            pairs = [item.partition(b"=") for item in found.read().split(b"\0")]
    except OSError:
        return {"message": "no answer within %g s" % LOGIN_SECONDS}
    finally:
        for path in (script, answer):
            if os.path.exists(path):
                os.unlink(path)
    known = {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}
    env = {key: value for key, value in known.items() if key not in SHELLS_OWN and key[:7] != "HERMES_"}
    # Below a login shell. Without it bash takes itself for one that sshd started, and reads ~/.bashrc.
    env["SHLVL"] = "1"
    return {"env": env}
