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
import graphlib
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.config import home
from hermes.errors import BackendError, SandboxGone

if TYPE_CHECKING:
    from hermes.backends.base import Backend, ByteChannel

READY = b"HERMES-READY "
MARKER = b"HERMES-GUEST "
MAX_NOISE = 1 << 20

GUEST = Path(__file__).parent.parent / "guest"
TYPES = frozenset({"Callable", "Dict", "Iterable", "List", "Optional", "Sequence", "Set", "Tuple", "Union"})

STRIPPED = 2  # counts the ways in which sources were stripped

STAGE = """import os,sys,json,types,zlib,base64
{prepare}d=b''
while len(d)<{size}:
 c=os.read(0,{size}-len(d))
 if not c:sys.exit(1)
 d+=c
o,m=json.loads(zlib.decompress({decode}).decode())
p=types.ModuleType('hermes_guest');p.__path__=[];sys.modules['hermes_guest']=p
for n,s in m:
 q='hermes_guest.'+n;t=types.ModuleType(q);t.__package__='hermes_guest';sys.modules[q]=t;setattr(p,n,t)
 exec(compile(s,q,'exec'),t.__dict__)
 if n=='relay'and t.attach(o):sys.exit()
t.main(o)"""


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
    return ast.unparse(_Strip().visit(tree))


@functools.cache
def modules() -> list[tuple[str, str]]:
    """Return the guest's modules, by name and stripped source, each after those that it imports.

    Stripping takes a quarter of a second, so what came of it is kept in hermes's home, by the sources' hash.
    """
    sources = {path.stem: path.read_bytes() for path in sorted(GUEST.glob("*.py")) if path.stem != "__init__"}
    version = f"{sys.version_info[:2]} {STRIPPED}"
    key = hashlib.sha256(b"\0".join([version.encode(), *sources.values()])).hexdigest()[:16]
    kept = home() / "cache" / f"guest-{key}.json"
    try:
        return [(name, source) for name, source in json.loads(kept.read_bytes())]
    except (OSError, ValueError):
        made = _stripped(sources)
    with contextlib.suppress(OSError):  # without it the next start is slower, no more
        _keep(kept, json.dumps(made).encode())
    return made


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    for old in path.parent.glob("guest-*.json"):
        old.unlink(missing_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
    new.replace(path)


def _stripped(sources: Mapping[str, bytes]) -> list[tuple[str, str]]:
    trees = {name: ast.parse(source) for name, source in sources.items()}
    # The relay first, with what it needs: where a guest runs already, no more is loaded.
    first = [*_imports(trees["relay"]), "relay"]
    order = graphlib.TopologicalSorter({name: _imports(tree) for name, tree in trees.items()}).static_order()
    return [(name, strip(trees[name])) for name in dict.fromkeys([*first, *order])]


def _imports(tree: ast.Module) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found += [node.module] if node.module else [alias.name for alias in node.names]
    return found


def payload(options: Mapping[str, Any]) -> bytes:
    """Return what the first stage reads: options and modules, compressed."""
    return zlib.compress(json.dumps([options, modules()], separators=(",", ":")).encode(), 9)


def as_file(options: Mapping[str, Any]) -> str:
    """Return a program that starts the guest, for places that can be given a file before they start."""
    data = base64.b64encode(payload(options))
    return STAGE.format(size=0, prepare="", decode=f"base64.b64decode({data!r})")


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
            self._line.set_exception(_failed(message))


def _failed(message: str) -> BackendError:
    return BackendError(
        f"{message}; no command was run",
        code="guest_failed",
        operation="boot",
        hint="The place needs a Python 3.6 or later under the name python3.",
    )


async def start_guest(
    backend: Backend, options: Mapping[str, Any], *, timeout: float
) -> tuple[ByteChannel, Boot, dict[str, Any]]:
    """Start the guest, or find it, over a process in the place; return the stream to it and its announcement.

    :raises BackendError: it did not announce itself in time, or said why it cannot run
    """
    data = await asyncio.to_thread(payload, options)
    text = backend.encoding == "text"
    if text:
        data = base64.encodebytes(data)
        script = STAGE.format(size=len(data), prepare=PREPARE, decode="base64.b64decode(d)")
    else:
        script = STAGE.format(size=len(data), prepare="", decode="d")
    channel = await backend.exec_channel([*backend.guest_python(), "-c", script])
    boot = Boot()
    try:
        async with asyncio.timeout(timeout):
            await channel.start(boot.data, boot.close)
            if text:
                await boot.line(READY)
            channel.write(data)
            announced = await boot.line(MARKER)
        answer = json.loads(announced)
        if not isinstance(answer, dict):
            raise ValueError("not an object")
    except BaseException as error:
        await channel.close()
        if isinstance(error, TimeoutError):
            raise _failed(f"the guest did not answer within {timeout:g} s") from None
        if isinstance(error, ValueError | RecursionError):
            raise _failed(f"the guest announced itself with nonsense: {error}") from error
        raise
    error_text = answer.get("error")
    if error_text is not None:
        await channel.close()
        reason = str(error_text)[:1000]
        if answer.get("missing"):
            raise SandboxGone("the guest is not running any more", reason=reason, operation="attach")
        raise _failed(f"the guest cannot run there: {reason}")
    return channel, boot, answer
