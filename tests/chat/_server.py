"""A server that speaks as OpenAI's does, and whose model says what a script has it say."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "key-of-the-tests-0123456789"


@dataclass
class Say:
    """The model's words, in pieces, with its calls of tools; ``broken`` ends the stream before its end."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    broken: bool = False
    finish: str | None = None
    pause: threading.Event | None = None
    """Wait for it before the last piece."""


@dataclass
class Fail:
    """An answer that is an error."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None


def call(name: str, text: str = "", **arguments: Any) -> Say:
    return Say(text, [(name, arguments)])


Step = Say | Fail
Script = Generator[Step, "Seen", None]


class Seen:
    """One request, as a script sees it."""

    def __init__(self, body: dict[str, Any], headers: Any) -> None:
        self.body = body
        self.key = headers.get("authorization", "")

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["messages"]
        return found

    @property
    def system(self) -> str:
        return "\n".join(_text(one["content"]) for one in self.messages if one["role"] == "system")

    @property
    def results(self) -> list[str]:
        """What the tools gave back, all of it, the last one last."""
        return [_text(one["content"]) for one in self.messages if one["role"] == "tool"]

    @property
    def last(self) -> str:
        return self.results[-1]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


class Server:
    """Listens on loopback. ``seen`` has every request in the order they came."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.failure: Exception | None = None
        self._script: Script | None = None
        self._lock = threading.Lock()
        self.unexpected = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                seen = Seen(json.loads(data), self.headers)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    _answer(self, server.next(seen))

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def play(self, script: Callable[[], Script] | list[Step]) -> None:
        """Let the model follow this script, a generator that is sent what was seen, or a list."""

        def listed(steps: list[Step]) -> Script:
            for step in steps:  # noqa: UP028  # it is sent what was seen
                yield step

        self._script = listed(script) if isinstance(script, list) else script()
        self.seen.clear()

    def next(self, seen: Seen) -> Step:
        with self._lock:
            first = not self.seen
            self.seen.append(seen)
            try:
                assert self._script is not None
                return next(self._script) if first else self._script.send(seen)
            except StopIteration:
                self.unexpected += 1
                return Fail(418, body={"error": {"message": "the script has no more"}})
            except Exception as error:  # what the script did not expect: told when the test ends
                self.failure = self.failure or error
                return Fail(418, body={"error": {"message": f"the script failed: {error}"}})

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            thread.join()
            self._http.server_close()
        if self.failure is not None:
            raise self.failure

    def environment(self) -> dict[str, str]:
        return {"HERMES_MODEL": "scripted", "HERMES_MODEL_URL": self.url, "HERMES_MODEL_KEY": KEY}


def _answer(handler: BaseHTTPRequestHandler, step: Step) -> None:
    handler.close_connection = True
    if isinstance(step, Fail):
        data = json.dumps(step.body or {"error": {"message": f"failed with {step.status}"}}).encode()
        handler.send_response(step.status)
        for name, value in step.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
        return
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("connection", "close")
    handler.end_headers()
    pieces = list(_pieces(step))
    for piece in pieces[:-1]:
        _send(handler, piece)
    if step.pause is not None:
        step.pause.wait(60)
    if not step.broken:
        _send(handler, pieces[-1])
        _send(
            handler,
            {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}},
        )
        handler.wfile.write(b"data: [DONE]\n\n")


def _pieces(step: Say) -> Iterator[dict[str, Any]]:
    half = max(1, len(step.text) // 2)
    for at in range(0, len(step.text), half):
        yield _choice({"role": "assistant", "content": step.text[at : at + half]})
    for number, (name, arguments) in enumerate(step.calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        first = {"index": number, "id": f"call_{number}_{id(step)}", "type": "function"}
        cut = len(text) // 2
        yield _choice({"tool_calls": [{**first, "function": {"name": name, "arguments": text[:cut]}}]})
        yield _choice({"tool_calls": [{"index": number, "function": {"arguments": text[cut:]}}]})
    yield _choice({}, step.finish or ("tool_calls" if step.calls else "stop"))


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _send(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
    whole = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "scripted", **body}
    handler.wfile.write(b"data: " + json.dumps(whole).encode() + b"\n\n")
    handler.wfile.flush()
