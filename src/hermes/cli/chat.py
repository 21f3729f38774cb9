"""``hermes`` and ``hermes -q``: a model at work in a sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import typer

from hermes._extra import needs
from hermes._json import whole_characters
from hermes.config import load
from hermes.config._model import configured, model_key
from hermes.errors import ConfigError

from ._ask import asker
from ._options import overrides
from ._place import Chosen, choose
from ._report import say
from ._status import working

MOST = 1 << 20  # bytes of a task that is read


def start(query: str | None, sandbox: str | None, place: dict[str, Any], *, again: bool, json: bool) -> int:
    """Talk to the person at the terminal, or do one task; return the exit code.

    :param place: what the options say of the sandbox, as :func:`choose` takes it
    :param again: go on with the conversation before
    """
    if query is None and json:
        raise typer.BadParameter("it is for -q", param_hint="--json")
    text = _text(query) if query is not None else None
    if text is None and not (os.isatty(0) and os.isatty(1)):
        raise ConfigError(
            "a conversation needs a terminal; nothing was started",
            hint="For one task: hermes -q 'what to do'. 'hermes --help' lists the commands.",
        )
    config = load(overrides(place["settings"]))
    configured(config.model)  # said at once, for what does the work takes a second to load
    model_key(config)
    with working("loading what speaks to the model"):
        with needs("talking to a model", "chat", hint="'hermes --help' lists the commands."):
            import hermes.chat as front
        connection = front.Connection.open(config)
    talk = front.Conversation.load(front.latest()) if again else None
    front.forget_old(config.log.keep_chats)
    chosen = _chosen(sandbox, place, talk.place if talk is not None else None)
    if talk is None:
        talk = front.Conversation.begin(front.place_of(chosen))
    on_approval = asker(yes=False, lasting=True, model=True)
    if text is not None:
        return front.ask_once(connection, talk, chosen, text, on_approval=on_approval, json=json)

    def choose_other(wanted: str) -> Chosen:
        rest = {key: place[key] for key in ("workspace", "here", "settings", "network")}
        return choose(wanted, **rest)

    return front.converse(connection, talk, chosen, on_approval=on_approval, choose=choose_other)


def _text(query: str) -> str:
    """Return the task, which ``-`` reads from stdin.

    :raises typer.BadParameter: there is none
    """
    text = query
    if query == "-":
        if sys.stdin is None:
            raise typer.BadParameter("standard input is closed", param_hint="-q")
        text = sys.stdin.buffer.read(MOST).decode("utf-8", "replace")
    text = whole_characters(text)
    if not text.strip():
        raise typer.BadParameter("there is nothing to do in it", param_hint="-q")
    return text


def _chosen(sandbox: str | None, place: dict[str, Any], before: dict[str, Any] | None) -> Chosen:
    """Return the place that is asked for; where none is, that of the conversation that goes on."""
    if before is None or sandbox is not None or any(place[key] for key in place if key != "settings"):
        return choose(sandbox, **place)
    if not before.get("name"):
        say("the sandbox of that conversation had no name, and is gone with what was in it.")
        return choose(sandbox, **place)
    host, workspace = before.get("host"), before.get("workspace")
    if workspace not in (None, "here", "private") and not Path(workspace).is_dir():
        raise ConfigError(
            f"that conversation was about {workspace}, which is not there; nothing was started",
            hint="Say where to go on: --sandbox, --workspace.",
        )
    return choose(
        before["backend"] + (f":{host}" if host else ""),
        name=before["name"],
        workspace=workspace,
        settings=place["settings"],
    )
