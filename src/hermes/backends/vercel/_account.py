"""Whose sandboxes at Vercel: the credentials, found without the SDK, whose import takes half a second."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple, get_args

from hermes.config import Runtime, Secret, Vercel, dotenv
from hermes.errors import BackendError, ConfigError

__all__ = ["KEEP", "OWNER", "PREFIX", "SETTINGS", "Account", "account", "runtime"]

PREFIX = "hermes-"
OWNER = "hermes-owner"
KEEP = "hermes-keep"

SETTINGS = "https://vercel.com/account/settings/tokens"
TOKENS = ("VERCEL_TOKEN", "VERCEL_OIDC_TOKEN")
MOST_FILE = 1 << 16
PYTHON = frozenset({"django", "fastapi", "flask", "python"})
"""The frameworks that are deployed with Python, whatever Node.js their project is set to."""


class Account(NamedTuple):
    """Whose sandboxes: a token, a team, a project."""

    token: Secret
    team: str
    project: str


def account(settings: Vercel) -> Account:
    """Return the credentials that are configured. Blocks.

    :raises BackendError: code ``backend_unavailable``; some are missing, or the token has expired
    """
    stored = dotenv(TOKENS)
    token, oidc = (os.environ.get(name) or stored.get(name) or "" for name in TOKENS)
    team, project = settings.team or "", settings.project or ""
    if settings.linked and not (team and project):
        linked = _linked(settings.linked)
        team, project = team or str(linked.get("orgId") or ""), project or str(linked.get("projectId") or "")
    if not token and oidc:
        told = _claims(oidc)
        token, team, project = oidc, team or told.team, project or told.project
        if told.until and told.until <= time.time():
            ago = (time.time() - told.until) / 60
            raise BackendError(
                f"the token in VERCEL_OIDC_TOKEN expired {ago:.0f} minutes ago; nothing was started",
                code="backend_unavailable",
                hint=f"'vercel env pull' gets another one; one for VERCEL_TOKEN lasts longer: {SETTINGS}",
            )
    missing = [
        f"{variable} ({key})"
        for value, variable, key in (
            (token, "VERCEL_TOKEN", "vercel.token"),
            (team, "VERCEL_TEAM_ID", "vercel.team"),
            (project, "VERCEL_PROJECT_ID", "vercel.project"),
        )
        if not value
    ]
    if missing:
        raise BackendError(
            f"Vercel's credentials lack {' and '.join(missing)}; nothing was started",
            code="backend_unavailable",
            hint=f"Make a token at {SETTINGS}. The ids are in the settings of the team and the project. "
            "Set the variables, or run 'hermes setup'.",
            context={"missing": missing},
        )
    return Account(Secret(token), team, project)


class _Claims(NamedTuple):
    team: str
    project: str
    until: float


def _claims(token: str) -> _Claims:
    """Return what a token of OIDC says of itself; the provider checks it.

    :raises BackendError: code ``backend_unavailable``; it is none
    """
    try:
        part = token.split(".")[1]
        told = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return _Claims(
            str(told.get("owner_id") or ""), str(told.get("project_id") or ""), float(told.get("exp") or 0)
        )
    except (IndexError, ValueError, TypeError, AttributeError, RecursionError):
        raise BackendError(
            "what is in VERCEL_OIDC_TOKEN is no token of OIDC, or not all of one; nothing was started",
            code="backend_unavailable",
            hint=f"'vercel env pull' gets one; one for VERCEL_TOKEN lasts longer: {SETTINGS}",
        ) from None


def runtime(settings: Vercel) -> str | None:
    """Return the runtime that a new sandbox begins with: the chosen one, or the deployment's. Blocks.

    :raises ConfigError: sandboxes have no runtime like that of the deployment
    """
    if settings.runtime is not None or settings.image or settings.snapshot or not settings.linked:
        return settings.runtime
    told = _linked(settings.linked).get("settings")
    told = told if isinstance(told, dict) else {}
    if told.get("framework") in PYTHON:
        return "python3.13"
    version = told.get("nodeVersion")  # such as "22.x"
    if not version:
        return None
    name = f"node{str(version).partition('.')[0]}"
    if name not in get_args(Runtime):
        raise ConfigError(
            f"the project that vercel.linked names is deployed with Node.js {version}, and sandboxes have no "
            "such runtime; nothing was started",
            hint=f"Choose one with vercel.runtime: {', '.join(get_args(Runtime))}. Or vercel.image.",
        )
    return name


def _linked(folder: str) -> dict[str, Any]:
    path = Path(folder).expanduser() / ".vercel" / "project.json"
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(MOST_FILE))
        if not isinstance(told, dict):
            raise ValueError("it is no object of JSON")
        return told
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"vercel.linked: {path} cannot be read: {error}; nothing was started",
            hint="Name a directory that 'vercel link' was run in.",
        ) from error
