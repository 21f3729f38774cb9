"""What every emulator has beside its provider's protocol: a record of calls, faults to switch on, a clock,
and a control port where tests and people reach them.

===========================  ==============================================================================
``GET /``                    name, settings, calls so far, time, the folder of sandboxes and snapshots
``GET /calls``               every call in its order: ``{"name", "at", "ok"}``
``GET /unimplemented``       the calls that the emulator does not know. A test run that has any must fail
``GET /sandboxes``           what exists, as the emulator knows it
``POST /faults``             ``{"name": ..., "times": 1, ...}`` switches a fault on for its next occasions
``DELETE /faults``           switches all off
``POST /clock``              ``{"advance": seconds}``
``POST /line``               ``{"delay": seconds, "cut": seconds, "now": true}``; each is optional
===========================  ==============================================================================
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

from aiohttp import web

from ._clock import Clock
from ._line import Line

__all__ = ["SIGN", "Emulator", "Ready", "load", "serve"]

SIGN = "x-hermes-emulator"
"""What every answer has in its headers, of which provider it is an emulator."""


class Emulator(ABC):
    """One emulated provider. A subclass listens on 127.0.0.1 and exposes its ports through ``line``.

    ``folder`` is a private directory for its sandboxes' files.
    """

    name: ClassVar[str]
    faults_known: ClassVar[Mapping[str, str]]
    """The faults that can be switched on: name to what happens, and which users' report it is for."""

    record: BinaryIO | None = None
    """Where all that calls say is written, but for what streams to and from processes."""

    def __init__(self, folder: Path, line: Line) -> None:
        self.folder = folder
        self.line = line
        self.clock = Clock()
        self.calls: list[dict[str, Any]] = []
        self.unimplemented: list[str] = []
        self._faults: dict[str, list[dict[str, Any]]] = {}

    async def sign(self, _: web.Request, answer: web.StreamResponse) -> None:
        """Say in an answer, before it goes out, that it is no provider's."""
        answer.headers[SIGN] = self.name

    @abstractmethod
    async def start(self) -> dict[str, str]:
        """Begin to listen. Returns the environment variables with which hermes and the SDK use it."""

    @abstractmethod
    async def stop(self) -> None:
        """End every sandbox and stop listening."""

    @abstractmethod
    def sandboxes(self) -> list[dict[str, Any]]:
        """Return what exists, for the control port: name, state, labels, when it was made."""

    def called(self, name: str) -> dict[str, Any]:
        """Record a call. ``ok`` of what is returned is set to false where it fails."""
        call = {"name": name, "at": self.clock.time(), "ok": True}
        self.calls.append(call)
        return call

    def heard(self, name: str, *parts: bytes) -> None:
        """Write down what a call says, compressed data as what it holds."""
        if self.record is not None:
            plain = (gzip.decompress(one) if one[:2] == b"\x1f\x8b" else one for one in parts)
            self.record.write(b"\n".join([f"--- {name}".encode(), *plain, b""]))
            self.record.flush()

    def unknown(self, name: str) -> None:
        """Record a call that the emulator does not know."""
        self.calls.append({"name": name, "at": self.clock.time(), "ok": False})
        self.unimplemented.append(name)

    def fault(self, name: str) -> dict[str, Any] | None:
        """Return the fault's parameters when it happens now, and count it."""
        assert name in self.faults_known, name
        waiting = self._faults.get(name)
        if not waiting:
            return None
        first = waiting[0]
        if first.get("after", 0) > 0:
            first["after"] -= 1
            return None
        first["times"] = first.get("times", 1) - 1
        if first["times"] <= 0:
            waiting.pop(0)
        return first

    def switch_on(self, fault: dict[str, Any]) -> None:
        """Let a fault happen ``times`` times (1), after it could have happened ``after`` times (0).

        :raises ValueError: there is no such fault
        """
        name = str(fault.get("name"))
        if name not in self.faults_known:
            raise ValueError(f"no fault {name!r}; there are: {', '.join(sorted(self.faults_known))}")
        self._faults.setdefault(name, []).append(fault)

    def switch_off(self) -> None:
        """Let nothing go wrong any more."""
        self._faults.clear()


class Ready(NamedTuple):
    """A running emulator: its control port's URL, and the environment variables with which it is used."""

    name: str
    control: str
    settings: dict[str, str]


async def serve(
    kind: type[Emulator],
    ready: Callable[[Ready], None],
    *,
    delay: float = 0.0,
    cut: float = 0.0,
    record: Path | None = None,
) -> None:
    """Run an emulator until SIGINT, SIGTERM, SIGHUP, or the end of the process that started it.

    :param ready: called once, when it can be used
    :param delay: seconds that each byte takes, one way
    :param cut: seconds after which every connection is reset, again and again; 0 for never
    :param record: a file that gets all that calls say
    """
    folder = Path(tempfile.mkdtemp(prefix=f"hermes-{kind.name}-"))
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    line = Line(delay=delay, cut=cut)
    emulator = kind(folder, line)
    if record is not None:
        emulator.record = open(record, "ab")  # noqa: ASYNC230, SIM115  # as long as it runs
    try:
        settings = await emulator.start()
        runner = web.AppRunner(_control(emulator, settings), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        control = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready(Ready(kind.name, control, settings))
        parent = os.getppid()
        while not over.is_set() and os.getppid() == parent:  # whoever started it may have been killed
            try:
                await asyncio.wait_for(over.wait(), 1)
            except TimeoutError:
                continue
        await runner.cleanup()
    finally:
        try:
            await line.close()
            await emulator.stop()
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _control(emulator: Emulator, settings: dict[str, str]) -> web.Application:
    async def about(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "name": emulator.name,
                "emulator": True,
                "settings": settings,
                "calls": len(emulator.calls),
                "time": emulator.clock.time(),
                "folder": str(emulator.folder),
                "faults": dict(emulator.faults_known),
            }
        )

    async def calls(request: web.Request) -> web.Response:
        return web.json_response(emulator.calls)

    async def unimplemented(request: web.Request) -> web.Response:
        return web.json_response(emulator.unimplemented)

    async def sandboxes(request: web.Request) -> web.Response:
        return web.json_response(emulator.sandboxes())

    async def faults(request: web.Request) -> web.Response:
        if request.method == "DELETE":
            emulator.switch_off()
        else:
            try:
                emulator.switch_on(await request.json())
            except ValueError as error:
                raise web.HTTPBadRequest(text=str(error)) from error
        return web.json_response({})

    async def clock(request: web.Request) -> web.Response:
        emulator.clock.advance(float((await request.json())["advance"]))
        return web.json_response({"time": emulator.clock.time()})

    async def line(request: web.Request) -> web.Response:
        wish = await request.json()
        if "delay" in wish:
            emulator.line.delay = float(wish["delay"])
        if "cut" in wish:
            emulator.line.set_cut(float(wish["cut"]))
        return web.json_response({"cut": emulator.line.cut() if wish.get("now") else 0})

    app = web.Application()
    app.router.add_get("/", about)
    app.router.add_get("/calls", calls)
    app.router.add_get("/unimplemented", unimplemented)
    app.router.add_get("/sandboxes", sandboxes)
    app.router.add_route("POST", "/faults", faults)
    app.router.add_route("DELETE", "/faults", faults)
    app.router.add_post("/clock", clock)
    app.router.add_post("/line", line)
    return app


def load(name: str) -> type[Emulator]:
    """Return the emulator of that name.

    :raises ImportError: a package that it needs is not installed
    """
    import importlib

    found: type[Emulator] = importlib.import_module(f"hermes.emulators.{name}").EMULATOR
    return found


def main(argv: list[str]) -> int:
    """Run ``python -m hermes.emulators NAME [--delay SECONDS] [--cut SECONDS] [--record FILE]``."""
    import argparse

    from . import NAMES

    parser = argparse.ArgumentParser(prog="python -m hermes.emulators")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that each byte takes, one way")
    parser.add_argument("--cut", type=float, default=0.0, help="reset all connections every so many seconds")
    parser.add_argument("--record", type=Path, help="a file that gets all that calls say, but for streams")
    options = parser.parse_args(argv)

    def ready(emulator: Ready) -> None:
        print(json.dumps(emulator._asdict()), flush=True)

    kind = load(options.name)
    asyncio.run(serve(kind, ready, delay=options.delay, cut=options.cut, record=options.record))
    return 0
