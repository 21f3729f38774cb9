"""The protocol over HTTP, on this machine alone, for whoever has the token."""

from __future__ import annotations

import contextlib
import hmac
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from mcp.server import Server
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.errors import PortError

from ._server import LONGEST

__all__ = ["HOST", "PATH", "serve_http"]

HOST = "127.0.0.1"
PATH = "/mcp"


class Guard:
    """Lets through what has the token, and answers everything else with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = b"bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        # The word before the token may be written in any way.
        told = given[0][:7].lower() + given[0][7:] if len(given) == 1 else b""
        if scope["type"] == "http" and hmac.compare_digest(told, self._wanted):
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"the bearer token is missing or wrong\n"})


class _Uvicorn(uvicorn.Server):
    """Leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(
    protocol: Server[Any],
    *,
    port: int,
    token: str,
    ready: Callable[[str, Callable[[], None]], None],
) -> None:
    """Serve clients until told to stop.

    :param port: 0 for any that is free
    :param ready: called with the address, and with what stops it
    :raises PortError: code ``port_in_use``
    """
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        raise PortError(
            f"port {port} of {HOST} cannot be listened on: {error.strerror}; nothing is served",
            code="port_in_use",
            hint="Choose another one with --port; 0 takes any that is free.",
        ) from error
    app = Guard(
        protocol.streamable_http_app(streamable_http_path=PATH, host=HOST, max_request_body_size=LONGEST),
        token,
    )
    server = _Uvicorn(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
    )

    def stop() -> None:
        server.should_exit = True

    with listener:
        ready(f"http://{HOST}:{listener.getsockname()[1]}{PATH}", stop)
        await server.serve(sockets=[listener])
