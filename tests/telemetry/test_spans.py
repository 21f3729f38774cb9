"""Spans of OpenTelemetry, as a program has them that has set up the SDK."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import hermes
from cli._tool import Cli
from hermes.config import Config
from hermes.tools import TOOLS

EXPORTER = InMemorySpanExporter()
SECRET = "cobalt-Heron-7731-quartz"


@pytest.fixture(scope="session")
def provider() -> TracerProvider:
    """The one of this process; it can be set once."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(made)
    return made


@pytest.fixture
def spans(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


def settings(enabled: bool | None = True, **more: Any) -> Config:
    found = {"approvals": {"mode": "off"}, "telemetry": {"enabled": enabled}, **more}
    return msgspec.convert(found, Config)


def made(spans: InMemorySpanExporter, name: str | None = None) -> list[ReadableSpan]:
    """The spans that have ended, but for that of opening."""
    return [one for one in spans.get_finished_spans() if name in (None, one.name) and one.name != "open"]


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


async def test_a_command(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        await box.run("/bin/echo hi; sleep 0.1", session="build", cwd="/tmp")
        name = box.name
    [span] = made(spans)
    assert (span.name, span.kind) == ("echo", SpanKind.CLIENT)
    found = dict(attributes(span))
    assert found.pop("hermes.client")
    assert found == {
        "process.command": "/bin/echo",
        "process.command_line": "/bin/echo hi; sleep 0.1",
        "process.executable.name": "echo",
        "process.interactive": False,
        "process.working_directory": "/tmp",
        "process.exit.code": 0,
        "hermes.operation": "run",
        "hermes.backend": "local",
        "hermes.sandbox": name,
        "hermes.session": "build",
        "hermes.status": "ok",
        "hermes.approval.action": "allow",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.start_time and span.end_time and 0.1e9 < span.end_time - span.start_time < 30e9
    assert span.instrumentation_scope is not None and span.instrumentation_scope.name == "hermes"


async def test_what_went_wrong(
    spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings(), approval="ask") as box:
        await box.run("exit 3")
        await box.run("sleep 9", timeout=0.1)
        with pytest.raises(hermes.Refused):
            await box.run("rm -rf d")
        with pytest.raises(hermes.CommandError):
            await box.run("true", cwd="/nowhere")
    kinds = [(attributes(one).get("process.exit.code"), attributes(one)["error.type"]) for one in made(spans)]
    assert kinds == [(3, "3"), (124, "timed_out"), (None, "refused"), (None, "cwd_unusable")]
    assert {one.status.status_code for one in made(spans)} == {StatusCode.ERROR}
    refused = attributes(made(spans)[2])
    assert refused["hermes.approval.action"] == "refuse" and refused["hermes.approval.rule"]


async def test_the_name_is_a_program_or_sh(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        for command in ("true", "A=1 true", "(true)", "$(echo true)", "'tr'ue", "true;", "true|true"):
            await box.run(command)
    assert [one.name for one in made(spans)] == ["true", "sh", "sh", "sh", "sh", "true", "true"]


async def test_jobs_and_terminals_until_they_have_started(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        job = await box.start("sleep 0.1; exit 4")
        await job.wait()
        async with await box.pty("true") as pty:
            await pty.wait()
    job_span, pty_span = made(spans)
    assert attributes(job_span)["hermes.operation"] == "start" and job_span.name == "sleep"
    assert attributes(pty_span)["hermes.operation"] == "pty" and attributes(pty_span)["process.interactive"]


async def test_files_and_opening(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        await box.files.write("a.txt", "x" * 300_000)
        await box.files.read("a.txt")
        with pytest.raises(hermes.FileError):
            await box.files.read("none.txt")
    written, read, failed = made(spans)
    assert (written.name, attributes(written)["file.path"]) == ("file.write", "a.txt")
    assert read.name == "file.read" and read.status.status_code is StatusCode.UNSET
    assert attributes(failed)["error.type"] == "not_found"
    [opened] = [one for one in spans.get_finished_spans() if one.name == "open"]
    assert attributes(opened)["hermes.origin"] == "new"
    assert opened.start_time and opened.end_time and opened.end_time > opened.start_time


async def test_a_tool_call_is_above_what_it_does(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        await TOOLS["terminal"].call(box, {"command": "echo hi"})
        await TOOLS["write_file"].call(box, {"path": "a.txt", "content": "x"})
        await TOOLS["read_file"].call(box, {"path": "none.txt"})
        await TOOLS["terminal"].call(box, {"nonsense": 1})
    tools = [one for one in made(spans) if one.name.startswith("execute_tool ")]
    assert [one.name.split()[1] for one in tools] == ["terminal", "write_file", "read_file", "terminal"]
    first = attributes(tools[0])
    assert first["gen_ai.operation.name"] == "execute_tool"
    assert (first["gen_ai.tool.name"], first["gen_ai.tool.type"]) == ("terminal", "function")
    assert first["gen_ai.tool.description"] == TOOLS["terminal"].description
    assert tools[0].kind is SpanKind.INTERNAL and first["hermes.status"] == "ok"
    [command] = made(spans, "echo")
    assert command.parent is not None and tools[0].context is not None
    assert command.parent.span_id == tools[0].context.span_id
    below = [one for one in made(spans) if one.parent and one.parent.span_id == tools[1].context.span_id]
    assert "file.write" in [one.name for one in below]
    assert attributes(tools[2])["error.type"] == "not_found"
    assert attributes(tools[3])["error.type"] == "arguments_invalid"
    assert tools[3].status.status_code is StatusCode.ERROR


async def test_a_place_that_is_gone_is_an_error_of_the_tool(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    box = await hermes.Sandbox("local", workspace=str(tmp_path), config=settings()).open()
    watch = box._watch
    await box.destroy()
    box._watch = watch
    with pytest.raises(hermes.SandboxGone):
        await TOOLS["terminal"].call(box, {"command": "true"})
    [tool] = [one for one in made(spans) if one.name == "execute_tool terminal"]
    assert attributes(tool)["error.type"] == "gone" and tool.end_time is not None


async def test_spans_of_the_program_are_above_ours(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        with trace.get_tracer("mine").start_as_current_span("mine") as mine:
            await box.run("true")
    [command] = made(spans, "true")
    assert command.parent is not None and command.parent.span_id == mine.get_span_context().span_id


async def test_a_call_by_mcp_is_below_the_clients_span(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    from mcp import Client

    from hermes.mcp import ToolServer

    trace_id, span_id = 0xA1B2 << 96, 0xC3D4 << 32
    told: Any = {"traceparent": f"00-{trace_id:032x}-{span_id:016x}-01"}
    async with (
        hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box,
        Client(ToolServer(box).protocol) as client,
    ):
        await client.call_tool("terminal", {"command": "true"}, meta=told)
    (call,) = made(spans, "tools/call terminal")  # of the library that serves
    (tool,), (command,) = made(spans, "execute_tool terminal"), made(spans, "true")
    chain = [one.parent.span_id if one.parent else 0 for one in (call, tool, command)]
    assert chain == [span_id, call.context.span_id, tool.context.span_id]
    assert {one.context.trace_id for one in (call, tool, command)} == {trace_id}


async def test_no_secret_is_in_them(
    spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_VALUE", SECRET)
    config = settings(credentials={"env": ["MY_VALUE"], "redact": "off"})
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
        await box.run(f"echo {SECRET}; true --password swordfish99")
        await box.files.write(f"{SECRET}.txt", "x")
        with pytest.raises(hermes.CommandError):
            await box.run("true", cwd=f"/nowhere/{SECRET}")
        await TOOLS["terminal"].call(box, {"command": f"echo {SECRET}"})
    assert len(made(spans)) >= 4
    for span in made(spans):
        assert SECRET not in span.to_json() and "swordfish99" not in span.to_json()


@pytest.mark.parametrize(
    ("enabled", "environ", "wanted"),
    [
        (None, {}, False),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, True),
        (None, {"OTEL_TRACES_EXPORTER": "none", "OTEL_SERVICE_NAME": "x"}, False),
        (None, {"OTEL_SDK_DISABLED": "True", "OTEL_SERVICE_NAME": "x"}, False),
        (False, {"OTEL_SERVICE_NAME": "x"}, False),
        (True, {}, True),
    ],
)
async def test_when_there_are_any(
    spans: InMemorySpanExporter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    enabled: bool | None,
    environ: dict[str, str],
    wanted: bool,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings(enabled)) as box:
        await box.run("true")
    assert bool(made(spans)) == wanted


def test_it_is_imported_only_when_wanted(cli: Cli) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hermes", "exec", "-q", "true"],
        cwd=cli.cwd,
        capture_output=True,
        check=True,
    )
    assert b"hermes.telemetry" not in done.stderr and b"opentelemetry" not in done.stderr


WITHOUT = """
import sys, warnings
sys.modules["opentelemetry"] = None
import asyncio, hermes
async def main():
    async with hermes.Sandbox("local", workspace=".") as box:
        print((await box.run("echo fine")).text, end="")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    asyncio.run(main())
print(*(one.message for one in told), sep="\\n")
"""


@pytest.mark.parametrize("asked", [True, False])
def test_without_the_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    if asked:
        cli("config", "set", "telemetry.enabled", "true")
    else:
        monkeypatch.setenv("OTEL_SERVICE_NAME", "x")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=cli.cwd, capture_output=True, check=True, text=True
    )
    first, told = done.stdout.split("\n", 1)
    assert first == "fine"
    assert ("pip install 'hermes-places[otel]'" in told) == asked


SITE = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
made = TracerProvider()
made.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=open("spans.json", "a"))))
trace.set_tracer_provider(made)
"""


def test_the_command_line_hands_over_its_spans_before_it_ends(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cli.cwd / "sitecustomize.py").write_text(SITE)
    monkeypatch.setenv("PYTHONPATH", str(cli.cwd))
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    done = cli("exec", "-q", "exit 3")
    assert done.returncode == 3 and done.stderr == b""
    decoder, text, found = json.JSONDecoder(), (cli.cwd / "spans.json").read_text(), []
    while text.strip():
        one, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        found.append(one)
    assert [one["name"] for one in found] == ["open", "exit"]
    assert found[1]["attributes"]["process.exit.code"] == 3
    assert found[1]["resource"]["attributes"]["service.name"] == "mine"
