"""The SDK's client: opened with what it is told and nothing else, asked within bounds, and closed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import os
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.config import Config, dotenv
from hermes.errors import BackendError, HermesError, SandboxGone, Unreachable

from .._cloud._account import mark

if TYPE_CHECKING:
    from daytona import AsyncDaytona

__all__ = ["Client", "asked", "credentials"]

API_URL = "https://app.daytona.io/api"
KEYS_PAGE = "https://app.daytona.io/dashboard/keys"
KEY, JWT = "DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN"
AWAY = "Is there a network, and is daytona.api_url right? Daytona's status page says whether it has trouble."
LINGER = 3.0
"""Seconds for which a client that nobody uses stays open for the next one."""

BACKOFF = 2.0

T = TypeVar("T")
_constructing = threading.Lock()


def credentials(config: Config) -> dict[str, Any]:
    """Return what the SDK logs in with: from the environment, else from ``.env`` in hermes's home. Blocks.

    :raises BackendError: code ``backend_unavailable``; there is nothing
    """
    kept = dotenv([KEY, JWT])
    key, token = (os.environ.get(name) or kept.get(name) for name in (KEY, JWT))
    if key:
        return {"api_key": str(key)}
    if token and config.daytona.organization:
        return {"jwt_token": str(token), "organization_id": config.daytona.organization}
    if token:
        raise BackendError(
            f"{JWT} is set, and not whose it is: it needs DAYTONA_ORGANIZATION_ID (daytona.organization); "
            "nothing was started",
            code="backend_unavailable",
            hint=f"The id is in the organization's settings. Or use a key, which says so itself: {KEYS_PAGE}",
        )
    raise BackendError(
        f"there are no credentials for Daytona: {KEY} is not set; nothing was started",
        code="backend_unavailable",
        hint=f"Make a key at {KEYS_PAGE}, then: hermes config set daytona.api_key",
    )


def account(config: Config) -> str:
    """Return a mark of whose sandboxes are seen. A key stands for its organization. Blocks."""
    given = credentials(config)
    return mark(config.daytona.api_url or API_URL, given.get("organization_id") or given["api_key"])


def _open(config: Config) -> AsyncDaytona:
    from daytona import AsyncDaytona, DaytonaConfig

    module: Any = importlib.import_module("daytona._async.daytona")
    _leave_ctrl_c_alone()
    settings = config.daytona
    given = credentials(config)
    given |= {"api_url": settings.api_url or API_URL, "target": settings.target, "otel_enabled": False}
    before = module.DaytonaEnvReader

    class NoFiles(before):  # type: ignore[misc,valid-type]
        """The working directory may be a stranger's project: its ``.env`` is not read."""

        @staticmethod
        def _load(path: str) -> dict[str, str]:
            return {}

    with _constructing:
        module.DaytonaEnvReader = NoFiles
        try:
            return AsyncDaytona(DaytonaConfig(**given))
        finally:
            module.DaytonaEnvReader = before


def _leave_ctrl_c_alone() -> None:
    """Keep the SDK's listener for changes of state from taking SIGINT over.

    It would cancel every task of the event loop at Ctrl-C, of the command line and of a program that uses the
    library. The SDK has no option for that.
    """
    events: Any = importlib.import_module("daytona.internal.event_dispatcher")
    with _constructing:
        if not isinstance(events.socketio, types.ModuleType):
            return  # it was done before
        quiet = functools.partial(events.socketio.AsyncClient, handle_sigint=False)
        events.socketio = types.SimpleNamespace(**vars(events.socketio) | {"AsyncClient": quiet})


class Client:
    """One client of the SDK for all that a sandbox is asked, so that its connections are used again."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._sdk: AsyncDaytona | None = None
        self._users = 0
        self._opening = asyncio.Lock()
        self._closer: asyncio.Task[None] | None = None

    async def acquire(self) -> AsyncDaytona:
        """Return the client, which stays open until as many calls of :meth:`release`."""
        self._users += 1
        closer, self._closer = self._closer, None
        if closer is not None:
            closer.cancel()
        try:
            async with self._opening:
                if self._sdk is None:
                    # Importing the SDK takes seconds.
                    self._sdk = await asyncio.to_thread(_open, self._config)
        except BaseException:
            self._users -= 1
            raise
        return self._sdk

    def release(self) -> None:
        """Say that the client is not needed any more."""
        self._users -= 1
        if not self._users and self._sdk is not None:
            self._closer = asyncio.get_running_loop().create_task(self._close_later())

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[AsyncDaytona]:
        """Have the client for a while."""
        sdk = await self.acquire()
        try:
            yield sdk
        finally:
            self.release()

    async def _close_later(self) -> None:
        try:
            await asyncio.sleep(LINGER)
        finally:
            # Also when the event loop ends meanwhile; not when somebody needs the client again.
            if self._closer is asyncio.current_task():
                self._closer = None
                await self.close()

    async def close(self) -> None:
        """Close it at once where nobody uses it."""
        closer, self._closer = self._closer, None
        if closer is not None:
            closer.cancel()
        if self._users or self._sdk is None:
            return
        sdk, self._sdk = self._sdk, None
        with contextlib.suppress(Exception):
            await asyncio.wait_for(sdk.close(), 10.0)  # type: ignore[no-untyped-call]


async def asked(what: str, work: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Return what a call of the SDK gives within a time; where the provider says so, ask again later.

    :param what: what was wanted, in the infinitive
    :raises SandboxGone: there is no such thing
    :raises Unreachable: no answer, or one that says that there can be none now
    :raises BackendError: the provider refused
    """
    from daytona.common.errors import DaytonaError, DaytonaRateLimitError

    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            async with asyncio.timeout_at(end):
                return await work()
        except DaytonaRateLimitError as error:
            wait = _told_to_wait(error.headers)
            if clock() + wait > end:
                raise _translated(error, what) from error
            await asyncio.sleep(wait)
        except DaytonaError as error:
            raise _translated(error, what) from error
        except HermesError:
            raise
        except TimeoutError as error:
            raise Unreachable(
                f"Daytona took longer than {seconds:g} s to {what}",
                reason="it took too long",
                operation=what,
                retryable=True,
                hint=AWAY,
            ) from error
        except Exception as error:
            raise BackendError(
                f"Daytona's SDK failed to {what}: {_shown(repr(error))}", operation=what
            ) from error


def _told_to_wait(headers: dict[str, Any]) -> float:
    for name, value in headers.items():
        if str(name).lower().startswith("retry-after"):
            with contextlib.suppress(ValueError):
                return max(float(value), 0.0)
    return BACKOFF


def _translated(error: Exception, what: str) -> HermesError:
    from daytona.common import errors

    said = _shown(str(error))
    status = getattr(error, "status_code", None)
    if isinstance(error, errors.DaytonaAuthenticationError):
        return BackendError(
            f"Daytona does not accept the credentials: {said}",
            code="login_refused",
            operation=what,
            hint=f"See {KEYS_PAGE}, then: hermes config set daytona.api_key",
        )
    if isinstance(error, errors.DaytonaNotFoundError | errors.DaytonaGoneError):
        return SandboxGone(f"Daytona could not {what}: {said}", reason=said, operation=what)
    if isinstance(error, errors.DaytonaRateLimitError):
        return BackendError(
            f"Daytona's rate limit was reached, and lasts too long to wait for it: {said}",
            code="rate_limited",
            operation=what,
            retryable=True,
        )
    gone = (errors.DaytonaConnectionError, errors.DaytonaTimeoutError, errors.DaytonaServiceUnavailableError)
    if isinstance(error, gone) or status in (500, 502, 504):
        return Unreachable(
            f"Daytona could not {what}: {said}", reason=said, operation=what, retryable=True, hint=AWAY
        )
    quota = status == 403 and any(word in said.lower() for word in ("limit", "quota", "exceed"))
    return BackendError(
        f"Daytona refused to {what}: {said}",
        code="quota" if quota else None,
        operation=what,
        hint="Stopped sandboxes count against the disk quota until they are archived or removed: "
        "'hermes sandbox ls' shows yours, daytona.archive_after archives them sooner."
        if quota
        else None,
    )


def _shown(text: str) -> str:
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= 400 else f"{clean[:190]} ... {clean[-200:]}"
