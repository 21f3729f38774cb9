"""The three protocols: each provider's own library, against what its service would send."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cli._tool import Cli

KEY = "key-of-a-provider-12345"
COMMAND = "echo hello >made; cat made"


def _anthropic(
    block: dict[str, Any], delta: dict[str, Any], stop: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": []}
    usage = {"input_tokens": 5, "output_tokens": 1}
    yield (
        "message_start",
        {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}},
    )
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield (
        "message_delta",
        {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 5}},
    )
    yield "message_stop", {}


def anthropic(number: int) -> bytes:
    if number == 0:
        block = {"type": "tool_use", "id": "t1", "name": "terminal", "input": {}}
        part = {"type": "input_json_delta", "partial_json": json.dumps({"command": COMMAND})}
        events = _anthropic(block, part, "tool_use")
    else:
        events = _anthropic({"type": "text", "text": ""}, {"type": "text_delta", "text": "Made."}, "end_turn")
    return b"".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **body})}\n\n".encode() for name, body in events
    )


def google(number: int) -> bytes:
    call = {"functionCall": {"name": "terminal", "args": {"command": COMMAND}}}
    part = call if number == 0 else {"text": "Made."}
    body = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10},
        "modelVersion": "x",
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@pytest.mark.parametrize(
    ("provider", "variable", "header", "answer"),
    [
        ("anthropic", "ANTHROPIC_API_KEY", "authorization", anthropic),
        ("google", "GOOGLE_API_KEY", "x-goog-api-key", google),
    ],
)
def test_a_task_by_a_providers_own_protocol(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, provider: str, variable: str, header: str, answer: Any
) -> None:
    seen: list[tuple[str | None, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            seen.append((self.headers.get(header), body))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(answer(len(seen) - 1))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        monkeypatch.setenv("HERMES_MODEL", f"{provider}:x")
        monkeypatch.setenv("HERMES_MODEL_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv(variable, KEY)
        done = cli("-q", "make it", stderr=subprocess.PIPE)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (done.returncode, done.stdout) == (0, b"Made.\n"), done
    assert (cli.cwd / "made").read_text() == "hello\n"
    assert [(key or "").removeprefix("Bearer ") for key, _ in seen] == [KEY, KEY]
    assert "Place: local" in seen[0][1] and "exit code 0" in seen[1][1]
    assert b"Warning" not in done.stderr
