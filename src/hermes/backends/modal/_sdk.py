"""Modal's SDK: the connection, calls that take no longer than they may, and its errors in our words.

The only module that imports it, which takes half a second; :func:`hermes.backends.modal.sdk` does that in a
thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

import modal
from grpclib.protocol import H2Protocol
from modal.config import config as own_config
from modal.exception import (
    AlreadyExistsError,
    AuthError,
    ClientClosed,
    ConflictError,
    ConnectionError,
    Error,
    InternalError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SandboxTerminatedError,
    SandboxTimeoutError,
    ServiceError,
)
from modal.exception import TimeoutError as OwnTimeout
from modal.stream_type import StreamType
from modal_proto import api_pb2

from hermes.config import Modal
from hermes.errors import BackendError, HermesError, SandboxGone, Unreachable

from ._tokens import PAGE, complete, given

__all__ = [
    "AWAY",
    "AlreadyExistsError",
    "Connection",
    "Error",
    "NotFoundError",
    "OwnTimeout",
    "ResourceExhaustedError",
    "StreamType",
    "call",
    "connection",
    "from_name",
    "gone_is_fine",
    "image_delete",
    "modal",
    "translated",
]

CONNECT_SECONDS = 20.0
CALL_SECONDS = 30.0
AWAY = "Is there a network, and is modal.server_url right? Modal's status page says whether it has trouble."

image_delete = modal.experimental.image_delete
T = TypeVar("T")


class _Transport:
    """A transport that drops what is written once it is broken.

    The SDK's HTTP/2 sends the rest of a long message to a connection that is lost, for each piece of which
    asyncio warns; then it learns of it, and sends the message again.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_connection_made = H2Protocol.connection_made


def _made(protocol: H2Protocol, transport: Any) -> None:
    _connection_made(protocol, cast(asyncio.BaseTransport, _Transport(transport)))


H2Protocol.connection_made = _made  # type: ignore[method-assign,assignment]


class Connection:
    """One account at one address: the SDK's client, and the apps that were looked up with it."""

    def __init__(self, url: str, token: tuple[str, str]) -> None:
        self.url = url
        self.account = f"modal {url} {token[0]}"
        self.client: Any = modal.Client(url, api_pb2.CLIENT_TYPE_CLIENT, token)
        self._opened = False
        self._apps: dict[tuple[str, str | None], Any] = {}

    async def open(self, seconds: float = CONNECT_SECONDS) -> None:
        """Connect, unless that was done.

        :raises Unreachable: nobody answers
        """
        if not self._opened:
            await call(self.client.__aenter__(), "connect to Modal", seconds)
            self._opened = True

    async def app(self, settings: Modal, *, make: bool = True) -> Any:
        """Return the app that sandboxes belong to; None when there is none and none is to be made."""
        key = settings.app, settings.environment
        if key not in self._apps:
            lookup = modal.App.lookup.aio(
                settings.app,
                client=self.client,
                environment_name=settings.environment,
                create_if_missing=make,
            )
            try:
                self._apps[key] = await call(lookup, "look up the app")
            except HermesError as error:
                if isinstance(error.__cause__, NotFoundError) and not make:
                    return None
                raise
        return self._apps[key]


_connections: dict[tuple[str, tuple[str, str]], Connection] = {}


def connection(settings: Modal) -> Connection:
    """Return the connection that the settings and the tokens mean, not necessarily open. Blocks.

    :raises BackendError: there are no tokens
    """
    token = _token()
    url = settings.server_url or str(own_config.get("server_url"))
    found = _connections.get((url, token))
    if found is None or found.client.is_closed():
        found = _connections[url, token] = Connection(url, token)
    return found


def _token() -> tuple[str, str]:
    values = given()
    if not any(values):
        # What `modal token new` wrote, in the user's home.
        values = [str(own_config.get(name) or "") for name in ("token_id", "token_secret")]
    return complete(values)


async def call(work: Awaitable[T], doing: str, seconds: float = CALL_SECONDS) -> T:
    """Wait for a call of the SDK, no longer than so many seconds, and translate its error.

    :raises HermesError: it failed; the original is its ``__cause__``
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except (Error, OSError, TimeoutError) as error:
        raise translated(error, doing, seconds) from error


def translated(error: BaseException, doing: str, seconds: float = CALL_SECONDS) -> HermesError:
    """Return the error of ours for one of the SDK's."""
    said = " ".join(str(error).split())[:400]
    if isinstance(error, AuthError | PermissionDeniedError):
        return BackendError(
            f"Modal does not let us in: {said}; it could not {doing}",
            code="login_refused",
            hint=f"Are MODAL_TOKEN_ID and MODAL_TOKEN_SECRET those of {PAGE}?",
        )
    if isinstance(error, NotFoundError | SandboxTimeoutError | SandboxTerminatedError):
        return SandboxGone(f"Modal cannot {doing}: {said}", reason=said or "it is not there any more")
    if isinstance(error, TimeoutError | OwnTimeout):  # ours, or one that the SDK was given
        return Unreachable(
            f"Modal did not {doing} within {seconds:g} s",
            reason=f"no answer within {seconds:g} s",
            operation=doing,
            hint=AWAY,
        )
    if isinstance(error, ConnectionError | ServiceError | InternalError | ClientClosed | OSError):
        return Unreachable(
            f"Modal cannot be reached to {doing}: {said}",
            reason=said or repr(error),
            operation=doing,
            hint=AWAY,
        )
    if isinstance(error, ConflictError) and "finished" in said:
        return SandboxGone(f"Modal cannot {doing}: {said}", reason=said)
    return BackendError(f"Modal cannot {doing}: {said or repr(error)}")


async def gone_is_fine(work: Awaitable[Any], doing: str, seconds: float = CALL_SECONDS) -> None:
    """Wait for a call that ends something, which may have ended already."""
    try:
        await call(work, doing, seconds)
    except Unreachable:
        raise
    except SandboxGone:
        return


def from_name(connection: Connection, settings: Modal, name: str) -> Awaitable[Any]:
    """Look for the running sandbox of that name."""
    found: Awaitable[Any] = modal.Sandbox.from_name.aio(
        settings.app, name, environment_name=settings.environment, client=connection.client
    )
    return found
