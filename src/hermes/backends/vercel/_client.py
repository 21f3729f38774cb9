"""Vercel's SDK: a client, a deadline for each call, and its errors in terms of hermes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import anyio._backends._asyncio
import httpcore2
import httpx2
from vercel.errors import VercelError
from vercel.sandbox import SandboxApiError, SandboxClient, SandboxCredentials, SandboxServiceOptions

from hermes.config import Vercel
from hermes.errors import BackendError, HermesError, SandboxGone, Unreachable

from ._account import SETTINGS, account

__all__ = ["code_of", "connected", "opened", "translated", "within"]

AWAY = "Is there a network, and is vercel.api_url right? Vercel's status page says whether it has trouble."
GENTLE = 5.0  # the longest that is waited between attempts, where the provider does not say
MOST_FAILURES = 5
CREATE, CREATE_OF_RUNTIME = "/v3/sandboxes", "/v2/sandboxes"
IDLE = 50.0  # seconds for which a connection is kept for the next request

IMPORTED = (anyio._backends._asyncio, httpcore2)  # which the SDK would import on the event loop

T = TypeVar("T")


class _Http(httpx2.AsyncClient):
    """What the SDK sends its requests with, where a sandbox can be made with a runtime.

    The SDK for Python knows images only. The provider's own for JavaScript asks for a runtime by the same
    request, with one more field and sent to the version of the API before.
    """

    runtime: str | None = None

    def build_request(self, method: str, url: httpx2.URL | str, **more: Any) -> httpx2.Request:
        if self.runtime is not None and method == "POST" and (whole := str(url)).endswith(CREATE):
            url = whole.removesuffix(CREATE) + CREATE_OF_RUNTIME
            more["content"] = json.dumps({**json.loads(more["content"]), "runtime": self.runtime}).encode()
        return super().build_request(method, url, **more)


def opened(settings: Vercel, runtime: str | None = None) -> SandboxClient:
    """Return a client of the SDK, which has to be closed. Blocks.

    :param runtime: what it makes sandboxes with instead of an image
    :raises BackendError: code ``backend_unavailable``; credentials are missing
    """
    who = account(settings)
    # The SDK's own would read certificates on the event loop, and connect anew after five idle seconds.
    http = _Http(
        verify=_certificates(), timeout=settings.deadline, limits=httpx2.Limits(keepalive_expiry=IDLE)
    )
    http.runtime = runtime

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
