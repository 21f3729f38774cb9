"""``hermes usage``: how long places that are billed ran, and what that comes to."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from . import _options as options
from ._report import say
from ._text import amount, print_json, table

app = options.new_app()

BY: dict[str, Literal["day", "place", "sandbox"]] = {"day": "day", "place": "place", "sandbox": "sandbox"}


@app.command()
def usage(
    by: Annotated[
        str, typer.Option("--by", metavar="day|place|sandbox", help="What to sum up by. Default: sandbox.")
    ] = "sandbox",
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=1, help="How far to look back. Default: 30.")
    ] = 30,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show how long paid places ran, and about what that costs.

    The costs are an estimate from a list of prices, whose date is shown. To have other prices, put your list
    into ~/.hermes/prices.json; the one that comes with hermes is shown with --json.

    Example: hermes usage --by day
    """
    from hermes import usage as log

    if by not in BY:
        raise typer.BadParameter(f"cannot sum up by '{by}'; choose from: {', '.join(BY)}", param_hint="--by")
    problems: list[str] = []
    listed = log.prices()
    found = log.since(log.rows(log.read(problems), listed), days)
    for problem in problems:
        say(f"warning: {problem}.")
    if json:
        print_json({"prices": msgspec.to_builtins(listed), "rows": msgspec.to_builtins(found)})
        return 0
    if not found:
        print(f"Nothing that is billed ran in the last {days} days.")
        return 0
    sums = log.total(found, BY[by])
    rows = [
        [key, f"{seconds / 3600:.2f} h", amount(cost) + (f" {listed.currency}" if cost is not None else "")]
        for key, (seconds, cost) in sums.items()
    ]
    print(table([by.upper(), "ACTIVE", "ABOUT"], rows, right=(1,)))
    print()
    running = sum(row.running for row in found)
    costs = [row.cost for row in found if row.cost is not None]
    unknown = len(found) - len(costs)
    print(f"In all about {amount(sum(costs))} {listed.currency} in {days} days; {running} running now.")
    if unknown:
        print("Without a price, so not in that sum: what shows '?'.")
    print(f"Prices as of {listed.dated}. An estimate: your provider's bill is what counts.")
    return 0
