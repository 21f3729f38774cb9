"""``hermes files``: copies into and out of a sandbox, and what is in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.errors import SandboxGone

from . import _options as options
from ._place import choose
from ._progress import OnProgress, progress, summary
from ._report import say
from ._run import opened, run
from ._text import age, print_json, size, table

if TYPE_CHECKING:
    from hermes.files import Files, FileStat, TransferStats

app = options.new_group("Copy files into and out of a sandbox, and list what is there.", "hermes files ls")

Resume = Annotated[
    bool,
    typer.Option(
        "--resume/--no-resume", help="Keep what has arrived of a big file when it is cut, and go on with it."
    ),
]
QuietCopy = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]


@app.command()
def put(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A path here.", show_default=False)],
    target: Annotated[
        str, typer.Argument(metavar="[DEST]", help="A path inside; its workspace.", show_default=False)
    ] = ".",
    resume: Resume = True,
    sandbox: options.Place = None,
    name: options.Name = None,
    quiet: QuietCopy = False,
    debug: options.Debug = False,
) -> int:
    """Copy a file or a directory into a sandbox.

    As with cp -r, a DEST that is a directory gets the copy, any other is its name; SRC/ is the directory's
    content. DEST begins at the workspace. A big file that was cut goes on where it was when the same is asked
    again.

    Example: hermes files put model.bin models/
    """

    async def copy(files: Files, show: OnProgress) -> TransferStats:
        return await files.put(source, target, on_progress=show, resume=resume)

    return _copied(copy, sandbox, name, resume=resume, quiet=quiet)


@app.command()
def get(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A path inside.", show_default=False)],
    target: Annotated[
        str,
        typer.Argument(metavar="[DEST]", help="A path here; the current directory.", show_default=False),
    ] = ".",
    resume: Resume = True,
    sandbox: options.Place = None,
    name: options.Name = None,
    quiet: QuietCopy = False,
    debug: options.Debug = False,
) -> int:
    """Copy a file or a directory out of a sandbox.

    As 'hermes files put' in the other direction. Nothing outside of DEST is written.

    Example: hermes files get out/report.pdf
    """

    async def copy(files: Files, show: OnProgress) -> TransferStats:
        return await files.get(source, target, on_progress=show, resume=resume)

    return _copied(copy, sandbox, name, resume=resume, quiet=quiet)


def _copied(
    copy: Callable[[Files, OnProgress], Coroutine[Any, Any, TransferStats]],
    sandbox: str | None,
    name: str | None,
    *,
    resume: bool,
    quiet: bool,
) -> int:
    chosen = choose(sandbox, name=name)
    begun = False

    async def work() -> TransferStats:
        async with opened(chosen, create=False) as box:
            with progress(quiet=quiet) as show:

                def note(done: int, total: int | None, path: str) -> None:
                    nonlocal begun
                    begun = True
                    if show is not None:
                        show(done, total, path)

                return await copy(box.files, note)

    try:
        stats = run(work())
    except (KeyboardInterrupt, SandboxGone):
        if begun and resume:
            say("what has arrived of a big file is kept: the same command goes on with it.")
        raise
    if not quiet:
        say(summary(stats))
    return 0


@app.command()
def ls(
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="A path inside; its workspace.", show_default=False)
    ] = ".",
    sandbox: options.Place = None,
    name: options.Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """List a directory of a sandbox.

    Example: hermes files ls out
    """
    chosen = choose(sandbox, name=name)

    async def work() -> list[FileStat]:
        async with opened(chosen, create=False) as box:
            found = await box.files.stat(path, follow=True)
            return await box.files.list(path) if found.type == "dir" else [found]

    found = run(work())
    if json:
        print_json([_object(one) for one in found])
    elif found:
        now = time.time()
        rows = [
            (
                one.type,
                f"{one.mode & 0o7777:04o}",
                size(one.size) if one.type == "file" else "-",
                age(now - one.mtime),
                one.name + (f" -> {one.target}" if one.target is not None else ""),
            )
            for one in found
        ]
        print(table(("TYPE", "MODE", "SIZE", "AGE", "NAME"), rows, right=(2, 3)))
    return 0


def _object(one: FileStat) -> dict[str, Any]:
    return {
        "name": one.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "type": one.type,
        "size": one.size,
        "mode": one.mode,
        "mtime": one.mtime,
        "target": one.target and one.target.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
    }
