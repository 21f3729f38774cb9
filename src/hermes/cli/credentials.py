"""``hermes credentials``: what sandboxes may know, proved from inside, and taken back by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.errors import HermesError

from . import _options as options
from ._place import choose
from ._report import clean, confirmed, say
from ._run import opened, run
from ._text import print_json

if TYPE_CHECKING:
    from hermes.credentials._declared import Content

app = options.new_group("See what sandboxes may know, and prove it.", "hermes credentials ls")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A file, as 'hermes credentials ls' names it.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="PATH", help="Where it is inside; $HERMES_CREDENTIALS/NAME otherwise."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def ls(json: options.Json = False, debug: options.Debug = False) -> int:
    """List what is declared, and how it gets into each sandbox. No values are shown.

    Example: hermes credentials ls
    """
    from hermes.config import load
    from hermes.credentials._declared import Declared, undeclared

    config = load()
    content = Declared(config.credentials).read()
    rows = _rows(content, "the keyring" if config.credentials.store == "keyring" else ".env")
    places = run(_places(config))
    strange = undeclared(config.credentials)
    if json:
        print_json(
            {"declared": rows, "missing": list(content.absent), "undeclared": strange, "sandboxes": places}
        )
        return 0
    for row in rows:
        size = "" if row["bytes"] is None else f", {row['bytes']} bytes"
        print(clean(f"{row['name']}: {row['kind']} from {row['from']}{size}; inside: {row['inside']}"))
    for what in content.absent:
        print(clean(f"missing: {what}"))
    if not rows and not content.absent:
        print("Nothing is declared: sandboxes know nothing of this machine's secrets.")
        print("This declares a variable: hermes config set credentials.env '[NAME]'")
    for name in strange:
        print(clean(f"not declared, and looks like one: {name}"))
    for place in places:
        print(clean(f"{place['backend']} '{place['name']}': files by {place['way']}, variables by channel"))
    return 0


def _rows(content: Content, store: str) -> list[dict[str, Any]]:
    import os

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "kind": "variable",
            "from": "the environment" if os.environ.get(name) else store,
            "bytes": None,
            "inside": f"${name}",
        }
        for name in content.env
    ]
    for name, piece in content.files.items():
        inside = f"$HERMES_CREDENTIALS/{name}" + (f", {piece.to}" if piece.to else "")
        rows.append(
            {"name": name, "kind": "file", "from": piece.source, "bytes": len(piece.data), "inside": inside}
        )
    return rows


async def _places(config: Any) -> list[dict[str, str]]:
    from hermes.places import place_of
    from hermes.state import Store

    found = []
    for record in await asyncio.to_thread(Store().all, []):
        try:
            place = place_of(record, config)
            if await place.find(record.locator) == "gone":
                continue
            way = "channel" if place.credentials_shown() is None else "mount"
        except HermesError as error:
            way = f"unknown: {error.message}"
        found.append({"backend": record.backend, "name": record.name, "way": way})
    return found


@app.command()
def check(
    sandbox: options.Place = None,
    name: options.Name = None,
    settings: options.Settings = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Prove that a sandbox has what is declared, and no more.

    It is looked at from inside: nothing else of this machine's environment may be there.

    Example: hermes credentials check --sandbox docker
    """

    chosen = choose(sandbox, name=name, settings=settings)

    async def work() -> int:
        from hermes.credentials.proof import prove

        async with opened(chosen, approval="off") as box:
            found = await prove(box)
            where = f"{box.backend} '{box.name}'"
        if json:
            print_json([one._asdict() for one in found])
        else:
            print(clean(where))
            for one in found:
                print(clean(f"  {'ok    ' if one.good else 'FAILED'} {one.name}: {one.what}"))
        return 0 if all(one.good for one in found) else 1

    return run(work())


@app.command()
def pull(
    name: Name,
    path: From = None,
    sandbox: options.Place = None,
    sandbox_name: options.Name = None,
    yes: Yes = False,
    debug: options.Debug = False,
) -> int:
    """Take over a credential that was renewed inside. What changed is shown first, without values.

    Example: hermes credentials pull google_token.json
    """

    chosen = choose(sandbox, name=sandbox_name)

    async def work() -> int:
        from hermes.credentials._declared import MAX_FILE
        from hermes.credentials.pull import differences, keep

        async with opened(chosen, create=False, approval="off") as box:
            assert box._supply is not None
            piece = box._supply.content.files.get(name)
            if piece is None:
                known = ", ".join(box._supply.content.files) or "none"
                raise HermesError(
                    f"no file '{name}' is declared; nothing was changed",
                    code="not_found",
                    hint=f"Known: {known}",
                )
            where = path
            if where is None:
                where = (await box.exec('printf %s "$HERMES_CREDENTIALS"')).text + f"/{name}"
            data = await box.files.read(where, n=MAX_FILE + 1)
            scrub = box._supply.scrub
        if len(data) > MAX_FILE:
            raise HermesError(
                f"{where} has more than {MAX_FILE >> 20} MiB inside: no credential; nothing was changed",
                code="too_large",
                hint="'hermes files get' copies any file.",
            )
        if not data.strip() and piece.data.strip():
            raise HermesError(
                f"{where} is empty inside: no credential; nothing was changed",
                code="credential_empty",
                hint="Look at it there: hermes exec 'ls -l $HERMES_CREDENTIALS'.",
            )
        if data == piece.data:
            print(clean(f"{name} is the same inside."))
            return 0
        print(clean(f"{name}, which is {piece.source} here:"))
        for line in differences(piece.data, data):
            # The name of a field may be a secret too.
            said = scrub.whole(line.encode("utf-8", "replace"))[0].decode() if scrub is not None else line
            print(clean(f"  {said}"))
        if not yes and not await confirmed(f"Put it in place of {piece.source}?"):
            say("nothing was changed.")
            return 1
        await asyncio.to_thread(keep, piece.source, data)
        say(f"{piece.source} is renewed; sandboxes have it at their next command.")
        return 0

    return run(work())
