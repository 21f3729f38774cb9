"""``hermes doctor``: what works on this machine, and why the rest does not."""

from __future__ import annotations

import asyncio
from typing import Any

from hermes import backends
from hermes.config import Config, load
from hermes.credentials._declared import undeclared
from hermes.errors import HermesError

from . import _options as options
from ._run import run
from ._text import print_json

app = options.new_app()


@app.command()
def doctor(sandbox: options.Place = None, json: options.Json = False, debug: options.Debug = False) -> int:
    """Say which places work here, and why others do not.

    Nothing is started. The exit code is 125 when the place that is asked for, or configured, does not work.
    """
    config = load()
    wanted = backends.canonical(sandbox or config.sandbox or "auto").partition(":")[0]
    names = [wanted] if sandbox and wanted != "auto" else backends.names()
    found = run(_examine(names, config))
    if json:
        print_json(found)
    else:
        for one in found:
            print(f"{one['place']}: {'works' if one['works'] else 'does not work here'}")
            for line in one["facts"]:
                print(f"  {line}")
        for name in undeclared(config.credentials):
            print(f"{name} in hermes's home looks like a credential, and is not declared")
    return 125 if any(not one["works"] for one in found if one["place"] == wanted) else 0


async def _examine(names: list[str], config: Config) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_one(name, config) for name in names)))


async def _one(name: str, config: Config) -> dict[str, Any]:
    from hermes.backends.base import Spec

    try:
        kind = await asyncio.to_thread(backends.load, name)
        await kind.check(config)
        facts = await kind(Spec(name="doctor", id="0" * 16), config).examine()
    except HermesError as error:
        facts = [error.message, *([error.hint] if error.hint else [])]
        return {"place": name, "works": False, "facts": facts}
    return {"place": name, "works": True, "facts": facts}
