"""Commands that run others in containers and pods: ``docker run``, ``kubectl exec`` and their like."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from . import _marks as marks
from . import _paths as paths
from ._call import Call
from ._carriers import Handler, carried
from ._expand import secret_name
from ._marks import ENVIRON, KEY, REMOTE, SECRET, UNKNOWN
from ._options import options_of
from ._run import Interpreter


def container(run: Interpreter, call: Call) -> str:
    """``docker exec`` and ``run``, ``kubectl exec`` and their like."""
    words = call.argv[1:]
    _, rest = options_of(words, _ENGINE)
    while rest and rest[0] in ("compose", "container", "pod", "stack"):
        _, rest = options_of(rest[1:], _ENGINE)
    if not rest:
        return UNKNOWN
    sub, rest = rest[0], rest[1:]
    if sub == "cp":
        operands = [one for one in rest if one[:1] != "-"]
        if len(operands) == 2 and re.match(r"[\w./-]{2,}:", operands[0]):
            goal = run.path(operands[1], call.cwd)
            for one in {goal, goal + "/" + re.split(r"[:/]", operands[0])[-1]}:
                run.state.write(one, UNKNOWN + REMOTE)
    if sub == "unshare" or rest[:1] == ["ssh"]:
        place = "" if sub == "unshare" else "container"
        return carried(
            run, msgspec.structs.replace(call, place=place), rest if sub == "unshare" else rest[1:]
        )
    if sub not in ("exec", "run", "create", "debug", "shell"):
        if sub in ("load", "import"):
            if any(re.match(r"(?:https?|ftp):", one) for one in rest) or REMOTE in (call.stdin or ""):
                run.note("remote-code", "makes an image of what comes from the network")
            return UNKNOWN
        return UNKNOWN + (marks.PIDS if sub == "ps" else "")
    found, operands = options_of(rest, _EXEC)
    entry = next((value for name, value in found if name == "--entrypoint"), "")
    command = operands[1:]
    if command and command[0] == "--":
        command = command[1:]
    if call.name in ("kubectl", "oc", "k", "k3s"):
        # The options may come after the pod, and the command after `--`.
        if "--" in rest:
            command = rest[rest.index("--") + 1 :]
        else:
            command = [one for one in command if not one.startswith("-") or one in command[1:]]
    if entry:
        command = [*entry.split(), *command]
    if not command:
        return UNKNOWN + REMOTE if sub == "exec" else UNKNOWN
    given = _given(run, found)
    inner = msgspec.structs.replace(call, place="container")
    out = carried(run, inner, command, given=given)
    for here, there in _mounted(run, call, found):
        # What is done to it in the container is done to this machine.
        outside = [_outside(one, here, there) for one in command]
        if outside != command:
            carried(run, msgspec.structs.replace(call, place=""), outside)
    shown = "".join(mark for mark in (SECRET, KEY) if mark in out)
    if ENVIRON in out and any(KEY in one or SECRET in one for one in given.values()):
        shown = KEY
    return UNKNOWN + shown + (REMOTE if sub == "exec" else "")


def _given(run: Interpreter, found: list[tuple[str, str]]) -> dict[str, str]:
    """Return the variables that are handed in: a name alone has the value that it has here."""
    given: dict[str, str] = {}
    for option, value in found:
        if option in ("-e", "--env"):
            name, equals, text = value.partition("=")
            given[name] = text if equals else UNKNOWN + (KEY if secret_name(name) else "")
    return given


def _outside(word: str, here: str, there: str) -> str:
    """Return a word with a directory of the container as it is called on this machine."""
    said = re.sub(rf"(?<![\w./-]){re.escape(there)}(?![\w.-])", lambda _: here, word)
    return said if said == word else said.replace("//", "/")


def _mounted(run: Interpreter, call: Call, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the directories that a container has of this machine, which are asked about: here, and there."""
    pairs: list[tuple[str, str]] = []
    for option, value in found:
        if option in ("-v", "--volume"):
            here, _, rest = value.partition(":")
            there, _, how = rest.partition(":")
        elif option == "--mount":
            words = dict(one.partition("=")[::2] for one in value.split(","))
            here = words.get("source", words.get("src", ""))
            there = words.get("target", words.get("dst", words.get("destination", "")))
            how = "ro" if "readonly" in words or "ro" in words else ""
        else:
            continue
        if here[:1] in ("/", "~") and there[:1] == "/" and "ro" not in how.split(","):
            pairs.append((run.path(here, call.cwd), there.rstrip("/") or "/"))
    return [one for one in pairs if paths.everything(one[0])]


_ENGINE = marks.names(
    "-H --host -c --context --config -f --file -p --project-name "
    "--profile --env-file --project-directory -n --namespace "
    "--kubeconfig --cluster --user -l --log-level --url --connection"
)
_EXEC = marks.names(
    "-e --env --env-file -u --user -w --workdir -v --volume "
    "--mount -p --publish --name --network --net --entrypoint -h "
    "--hostname -l --label --memory -m --cpus --gpus --platform "
    "--add-host --device --cap-add --cap-drop --security-opt "
    "--pid --ipc --uts --userns --restart --ulimit --tmpfs --dns --link "
    "--index -c --container -n --namespace --image --cpu-shares "
    "--shm-size --stop-signal --runtime --pull --log-driver "
    "--log-opt --expose --ip --mac-address --volumes-from --workdir "
    "--detach-keys --overrides --port --requests --limits "
    "--serviceaccount --context --kubeconfig --cidfile --target"
)


CONTAINERS: Mapping[str, Handler] = dict.fromkeys(
    marks.names("docker podman nerdctl docker-compose podman-compose kubectl oc k ctr crictl"), container
)
