"""Vercel's SDK: credentials, a deadline for each call, and its errors in terms of hermes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio._backends._asyncio
import httpcore2
import httpx2
from vercel.errors import VercelError
from vercel.sandbox import SandboxApiError, SandboxClient, SandboxCredentials, SandboxServiceOptions

from hermes.config import Secret, Vercel, dotenv
from hermes.errors import BackendError, ConfigError, HermesError, SandboxGone, Unreachable

__all__ = ["Account", "account", "code_of", "connected", "opened", "translated", "within"]

SETTINGS = "https://vercel.com/account/settings/tokens"
TOKENS = ("VERCEL_TOKEN", "VERCEL_OIDC_TOKEN")
AWAY = "Is there a network, and is vercel.api_url right? Vercel's status page says whether it has trouble."
GENTLE = 5.0  # the longest that is waited between attempts, where the provider does not say
MOST_FAILURES = 5
MOST_FILE = 1 << 16
IDLE = 50.0  # seconds for which a connection is kept for the next request

IMPORTED = (anyio._backends._asyncio, httpcore2)  # which the SDK would import on the event loop

T = TypeVar("T")


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
        team, project = team or linked[0], project or linked[1]
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


def _linked(folder: str) -> tuple[str, str]:
    path = Path(folder).expanduser() / ".vercel" / "project.json"
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(MOST_FILE))
        return str(told.get("orgId") or ""), str(told.get("projectId") or "")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"vercel.linked: {path} cannot be read: {error}; nothing was started",
            hint="Name a directory that 'vercel link' was run in.",
        ) from error


def opened(settings: Vercel) -> SandboxClient:
    """Return a client of the SDK, which has to be closed. Blocks.

    :raises BackendError: code ``backend_unavailable``; credentials are missing
    """
    who = account(settings)
    # The SDK's own would read certificates on the event loop, and connect anew after five idle seconds.
    http = httpx2.AsyncClient(
        verify=_certificates(), timeout=settings.deadline, limits=httpx2.Limits(keepalive_expiry=IDLE)
    )

    async def credentials() -> SandboxCredentials:
        return SandboxCredentials(token=str(who.token), team_id=who.team, project_id=who.project)

    options = SandboxServiceOptions(
        base_url=settings.api_url, credentials_factory=credentials, region=settings.region
    )
    return SandboxClient.create(options=options, httpx_client_factory=lambda: http)


@functools.cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


@contextlib.asynccontextmanager
async def connected(settings: Vercel) -> AsyncIterator[SandboxClient]:
    """Have a client for a while."""
    client = await asyncio.to_thread(opened, settings)
    try:
        yield client
    finally:
        await client.aclose()


async def within(seconds: float, what: str, call: Callable[[], Awaitable[T]], *, repeats: bool = False) -> T:
    """Return what a call of the SDK does, unless it takes too long.

    A refusal for too many requests is waited for as told. Another failure is tried again only where the call
    *repeats*: it may be done twice.

    :param what: what is being done, such as "make a sandbox"
    :raises HermesError: what the contract of a backend names
    """
    pause, failures = 0.2, 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await call()
                except (VercelError, httpx2.HTTPError, OSError) as error:
                    wait = _retry_after(error, repeats and failures < MOST_FAILURES)
                    if wait is None:
                        raise translated(error, what) from error
                    failures += 1
                    await asyncio.sleep(max(wait, pause))
                    pause = min(pause * 2, GENTLE)
    except TimeoutError as error:
        raise Unreachable(
            f"Vercel did not answer within {seconds:g} s when asked to {what}; whether it did is not known",
            reason="no answer",
            operation=what,
            hint=f"{AWAY} vercel.deadline and vercel.snapshot_deadline say how long is waited.",
        ) from error


def _retry_after(error: BaseException, repeats: bool) -> float | None:
    """Return the seconds after which a call may be tried again, None when it may not."""
    if isinstance(error, SandboxApiError):
        if error.status_code == 429:
            with contextlib.suppress(ValueError):
                return max(0.0, float(error.response.headers.get("retry-after", "")))
            return GENTLE
        return 0.0 if repeats and error.status_code in (500, 502, 503, 504) else None
    return 0.0 if repeats and isinstance(error, httpx2.TransportError) else None


def code_of(error: BaseException | None) -> tuple[int, str]:
    """Return status and code of a refusal, also of one that was translated; zero and nothing for others."""
    cause = error.__cause__ if isinstance(error, HermesError) else error
    return (cause.status_code, cause.code or "") if isinstance(cause, SandboxApiError) else (0, "")


def translated(error: BaseException, what: str) -> HermesError:
    """Return the error of hermes for one of the SDK."""
    said = " ".join(str(error).split())[:400] or type(error).__name__
    status, code = code_of(error)
    failed = f"Vercel did not {what}: {said}"
    if status in (401, 403):
        return BackendError(
            f"Vercel does not accept the credentials: {said}; nothing was done",
            code="login_refused",
            operation=what,
            hint=f"Is the token valid still, and for this team? {SETTINGS} One of OIDC lasts for hours only.",
        )
    if status == 402 or "quota" in code or "limit" in code:
        return BackendError(failed, operation=what, hint="Look at the usage of the team.")
    if (status, code) == (410, "snapshot_not_found"):
        return BackendError(
            f"{failed}. The files of this sandbox are gone with its snapshot",
            code="snapshot_gone",
            operation=what,
            hint="Nothing was started in its place. 'hermes sandbox rm' removes what is left of it.",
        )
    if status == 404 or (status == 410 and code != "sandbox_stream_closed") or code == "sandbox_stopped":
        return SandboxGone(failed, reason=said, operation=what)
    if status in (410, 422, 429) or status >= 500 or isinstance(error, httpx2.HTTPError | OSError):
        return Unreachable(failed, reason=said, operation=what, hint=AWAY)
    return BackendError(failed, operation=what)
