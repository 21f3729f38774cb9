"""The guest's way into a place: packed into one payload and read there by a first stage over stdio.

The first stage is a line of Python on the command line. It reads an exact number of bytes, so the
stream stays usable for frames, and hands over to :mod:`hermes.guest.main`, which announces itself
after a marker; banners and other noise before it are skipped.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import contextlib
import functools
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.config import home, keep
from hermes.errors import BackendError, SandboxGone

if TYPE_CHECKING:
    from hermes.backends.base import Backend, ByteChannel

READY = b"HERMES-READY "
MARKER = b"HERMES-GUEST "
MAX_NOISE = 1 << 20

GUEST = Path(__file__).parent.parent / "guest"
TYPES = frozenset({"Callable", "Dict", "Iterable", "List", "Optional", "Sequence", "Set", "Tuple", "Union"})

STRIPPED = 4  # counts the ways in which sources were stripped and packed
ENTRY = "main"
CORE = ("main", "server", "proc", "host")  # with what they import, a guest that greets

# Modules are compiled when they are first imported, so a start pays for no more than it needs. What comes
# first is enough to attach to a guest that runs. The core starts one, which takes in the rest as it comes.
STAGE = """import os,sys,json,types,zlib{imports}
{prepare}def load(d):return json.loads(zlib.decompress({decode}).decode())
def read(n):
 d=b''
 while len(d)<n:
  c=os.read(0,n-len(d))
  if not c:sys.exit(1)
  d+=c
 return load(d)
o,m={first}
p=types.ModuleType('hermes_guest');p.__path__=[];sys.modules['hermes_guest']=p
class F:
 def find_spec(s,n,*a):return type(sys.__spec__)(n,s)if n[:13]=='hermes_guest.'and n[13:]in m else None
 def create_module(s,n):pass
 def exec_module(s,t):exec(compile(m[t.__name__[13:]],t.__name__,'exec'),t.__dict__)
sys.meta_path.insert(0,F())
from hermes_guest import relay
if relay.attach(o,{later}):sys.exit()
{core}from hermes_guest import {entry}
{entry}.main(o{rest})"""

# On a terminal: it must neither echo nor edit, and says when it is ready, since what came before is lost.
PREPARE = """try:
 import tty;tty.setraw(0)
except Exception:pass
os.write(1,b'HERMES-READY \\n')
"""


class _Strip(ast.NodeTransformer):
    """Take out what only people and type checkers read."""

    def _body(self, node: Any) -> Any:
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            node.body = node.body[1:]
        node.body = node.body or [ast.Pass()]
        return node

    visit_Module = visit_ClassDef = _body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        return self._body(node)

    def visit_arg(self, node: ast.arg) -> Any:
        node.annotation = None
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        if (
            isinstance(node.value, ast.Subscript)
            and isinstance(node.value.value, ast.Name)
            and node.value.value.id in TYPES
        ):
            node.value = ast.Constant(None)  # an alias for annotations
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        return None if node.module == "typing" else node


def strip(tree: ast.Module) -> str:
    """Return Python source without comments, docstrings, annotations and imports from typing."""
    text = ast.unparse(_Strip().visit(tree))
    return re.sub("^ +", lambda indent: " " * (len(indent[0]) // 4), text, flags=re.MULTILINE)


class Payload(NamedTuple):
    """The guest in the order in which it is sent."""

    first: tuple[dict[str, Any], dict[str, str]]
    """Options, and the modules that find a guest that runs."""
    core: bytes
    """The block that starts one; empty where nothing is to be started."""
    rest: bytes
    """The block of what that one needs for its work."""


@functools.cache
def modules() -> dict[str, str]:
    """Return the guest's modules: stripped source by name."""
    first, *blocks = _packed()
    return functools.reduce(lambda found, block: found | json.loads(zlib.decompress(block)), blocks, first)


@functools.cache
def _packed() -> tuple[dict[str, str], bytes, bytes]:
    """Return the modules that attaching needs, the core and the rest.

    Stripping takes a quarter of a second, so what came of it is kept in hermes's home, by the sources' hash.
    """
    sources = {path.stem: path.read_bytes() for path in sorted(GUEST.glob("*.py")) if path.stem != "__init__"}
    version = f"{sys.version_info[:2]} {STRIPPED}"
    key = hashlib.sha256(b"\0".join([version.encode(), *sources.values()])).hexdigest()[:16]
    kept = home() / "cache" / f"guest-{key}.json"
    try:
        first, core, rest = json.loads(kept.read_bytes())
        return dict(first), base64.b64decode(core), base64.b64decode(rest)
    except (OSError, ValueError, TypeError):
        pass
    stripped = {name: strip(ast.parse(source)) for name, source in sources.items()}
    first = _closure(["relay"], stripped)
    core = _closure(CORE, stripped, at_once=True)
    late = {name: source for name, source in stripped.items() if name not in core and name not in first}
    blocks = [block({name: core[name] for name in core if name not in first}), block(late)]
    with contextlib.suppress(OSError):  # without it the next start is slower, no more
        keep(kept, json.dumps([first, *(base64.b64encode(block).decode() for block in blocks)]).encode())
    return first, blocks[0], blocks[1]


def block(content: Any) -> bytes:
    """Return what the first stage reads as a block."""
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)


def _imports(tree: ast.Module, at_once: bool) -> list[str]:
    found: list[str] = []
    for node in tree.body if at_once else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found += [node.module] if node.module else [alias.name for alias in node.names]
    return found


def payload(options: Mapping[str, Any], entry: str = ENTRY) -> Payload:
    """Return what is sent with these options.

    :param entry: the module whose ``main`` is called with the options; another one's imports come with it
    """
    first, core, rest = _packed()
    if entry == ENTRY:
        return Payload((dict(options), first), core, rest)
    return Payload((dict(options), {**first, **_closure([entry], modules())}), b"", b"")


def _closure(entries: Sequence[str], sources: Mapping[str, str], *, at_once: bool = False) -> dict[str, str]:
    """Return modules with what they import, or with what they need to be imported."""
    found: dict[str, str] = {}
    todo = list(entries)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = sources[name]
            todo += _imports(ast.parse(sources[name]), at_once)
    return found


def stage(first: str, core: int, rest: int, entry: str = ENTRY, *, text: bool = False) -> str:
    """Return the first stage for blocks of these sizes, for a clean stream or for one of text.

    :param first: an expression for what comes first: a literal, or what reads it
    """
    return STAGE.format(
        imports=",base64" if text else "",
        prepare=PREPARE if text else "",
        decode="base64.b64decode(d)" if text else "d",
        first=first,
        later=core + rest,
        core=f"m.update(read({core}))\n" if core else "",
        entry=entry,
        rest=f",{rest},lambda d:m.update(load(d))" if rest else "",
    )


def as_file(options: Mapping[str, Any]) -> str:
    """Return a program that starts the guest, for places that can be given a file before they start."""
    whole = base64.b64encode(block([dict(options), modules()]))
    return stage(f"load(__import__('base64').b64decode({whole!r}))", 0, 0)


class Boot:
    """The bytes before the first frame: finds lines after a marker, then gives the stream away."""

    def __init__(self) -> None:
        self._seen = b""
        self._marker = b""
        self._line: asyncio.Future[bytes] | None = None
        self._ended: list[str | None] = []
        self.on_data: Callable[[bytes], None] = self._search
        self.on_close: Callable[[str | None], None] = self._closed

    def data(self, data: bytes) -> None:
        self.on_data(data)

    def close(self, reason: str | None) -> None:
        self.on_close(reason)

    async def line(self, marker: bytes) -> bytes:
        """Wait for a line with this marker and return what follows it; everything before it is noise.

        :raises BackendError: the stream ended, or nothing but noise came
        """
        self._marker = marker
        self._line = asyncio.get_running_loop().create_future()
        self._search(b"")
        if self._ended:
            self._closed(self._ended[0])
        return await self._line

    def hand_over(self, on_data: Callable[[bytes], None], on_close: Callable[[str | None], None]) -> None:
        """Give the stream away, with what came after the last line."""
        self.on_data, self.on_close = on_data, on_close
        if self._seen:
            on_data(self._seen)
        if self._ended:
            on_close(self._ended[0])

    def _search(self, data: bytes) -> None:
        self._seen += data
        if self._line is None or self._line.done():
            return
        before, marker, after = self._seen.partition(self._marker)
        line, newline, rest = after.partition(b"\n")
        if marker and newline:
            self._seen = rest
            self._line.set_result(line)
        elif len(self._seen) > MAX_NOISE:
            self._fail(f"{MAX_NOISE} bytes came, and no guest announced itself; the last: {before[-200:]!r}")

    def _closed(self, reason: str | None) -> None:
        self._ended = [reason]
        noise = self._seen[-500:].decode("utf-8", "replace").strip()
        said = "; ".join(text for text in (reason, noise) if text)
        self._fail("the process that should have become the guest ended" + (f": {said}" if said else ""))

    def _fail(self, message: str) -> None:
        if self._line is not None and not self._line.done():
            self._line.set_exception(_failed(message, NEEDS_PYTHON))


NEEDS_PYTHON = "The place needs a Python 3.6 or later under the name python3."


def _failed(message: str, hint: str | None = None) -> BackendError:
    return BackendError(f"{message}; no command was run", code="guest_failed", operation="boot", hint=hint)


async def start_guest(
    backend: Backend, options: Mapping[str, Any], *, timeout: float
) -> tuple[ByteChannel, Boot, dict[str, Any]]:
    """Start the guest, or find it, over a process in the place; return the stream to it and its announcement.

    :raises BackendError: it did not announce itself in time, or said why it cannot run
    :raises SandboxGone: none runs, and none was to be started
    """
    blocks = await asyncio.to_thread(payload, options)
    channel, boot, answer = await _begin(backend, blocks, timeout)
    error_text = answer.get("error")
    if error_text is None:
        return channel, boot, answer
    await channel.close()
    reason = str(error_text)[:1000]
    if answer.get("missing"):
        boot_before = options.get("boot")
        if boot_before and answer.get("boot") not in (boot_before, None, ""):
            reason = "its machine was restarted"
        raise SandboxGone("the guest is not running any more", reason=reason, operation="attach")
    # An error of Python's own says that there is one.
    known = re.match(r"\w+(Error|Exception): ", reason) or "ssh.python" in reason
    raise _failed(f"the guest cannot run there: {reason}", None if known else NEEDS_PYTHON)


async def ask(backend: Backend, options: Mapping[str, Any], *, timeout: float) -> dict[str, Any]:
    """Have :mod:`hermes.guest.host` do one task in the place, without a guest, and return what it tells.

    The answer is hostile, as everything from a place.

    :raises BackendError: it could not be done
    """
    blocks = await asyncio.to_thread(payload, {**options, "relay": False}, "host")
    channel, _, answer = await _begin(backend, blocks, timeout, "host")
    await channel.close()
    if answer.get("error") is not None:
        raise BackendError(
            f"{options['task']}: {str(answer['error'])[:1000]}", operation=str(options["task"])
        )
    return answer


async def _begin(
    backend: Backend, blocks: Payload, timeout: float, entry: str = ENTRY
) -> tuple[ByteChannel, Boot, dict[str, Any]]:
    """Start the first stage, give it its payload, and wait for what it announces."""
    text = backend.encoding == "text"
    as_sent: Callable[[bytes], bytes] = base64.encodebytes if text else bytes
    first, core, rest = as_sent(block(blocks.first)), as_sent(blocks.core), as_sent(blocks.rest)
    sizes = len(core), len(rest)
    options, early = blocks.first
    literal = f"json.loads({json.dumps(options)!r}),{early!r}"
    channel = await backend.program_channel(stage(literal, *sizes, entry))
    if channel is not None:
        first = b""
    else:
        script = stage(f"read({len(first)})", *sizes, entry, text=text)
        channel = await backend.exec_channel([*backend.guest_python(), "-c", script])
    boot = Boot()
    asks = bool(options.get("asks"))
    try:
        async with asyncio.timeout(timeout):
            await channel.start(boot.data, boot.close)
            if text:
                await boot.line(READY)
            channel.write(first if asks else first + core)
            if not text and not first:  # by itself the core does not wait for the rest of a packet
                await boot.line(READY)
            if not asks:
                channel.write(rest)
            answer = _object(await boot.line(MARKER))
            if asks and answer.get("starts"):
                channel.write(core + rest)
                answer = _object(await boot.line(MARKER))
    except BaseException as error:
        await channel.close()
        if isinstance(error, TimeoutError):
            raise _failed(f"the guest did not answer within {timeout:g} s", NEEDS_PYTHON) from None
        if isinstance(error, ValueError | RecursionError):
            raise _failed(f"the guest announced itself with nonsense: {error}") from error
        failure = backend.failure(channel)
        if isinstance(error, BackendError) and failure is not None:
            raise failure from error
        raise
    return channel, boot, answer


def _object(announced: bytes) -> dict[str, Any]:
    answer = json.loads(announced)
    if not isinstance(answer, dict):
        raise ValueError("not an object")
    return answer
