"""``hermes backends``: all places in one table."""

from __future__ import annotations

import shutil
import sys
import textwrap

from hermes import survey
from hermes.backends import _catalog, canonical
from hermes.config import load

from . import _options as options
from ._report import clean
from ._run import run
from ._text import print_json, table

app = options.new_app()

PATIENCE = 5.0  # seconds
NOW = {True: "yes", False: "no", None: "?"}


@app.command()
def backends(json: options.Json = False, debug: options.Debug = False) -> int:
    """Show all places, and which of them can be used now.

    MEDIAN is what a command in an open session took, in the last 'hermes bench' of that place here.

    Example: hermes backends --json
    """
    config = load()
    found = run(survey.look_at_all(config, patience=PATIENCE))
    chosen = canonical(config.sandbox or "").partition(":")[0]
    if json:
        print_json([_record(one, chosen) for one in found])
        return 0
    rows = []
    for one in found:
        about = _catalog.ABOUT.get(one.place, _catalog.OTHER)
        rows.append(
            [
                ("* " if one.place == chosen else "  ") + one.place,
                NOW[one.works],
                about.isolation,
                _median(one.place),
                about.cost,
                about.files,
                one.verified,
            ]
        )
    print(table(["  PLACE", "NOW", "ISOLATION", "MEDIAN", "COST", "FILES", "VERIFIED"], rows))
    print()
    for one in found:
        _explain(one)
    return 0


def _median(place: str) -> str:
    seconds = survey.measured(place)
    return "-" if seconds is None else f"{seconds * 1000:.2g} ms"


def _explain(one: survey.Found) -> None:
    """Print what a place is for, and what keeps it from being used."""
    about = _catalog.ABOUT.get(one.place, _catalog.OTHER)
    text = f"{one.place}: {about.purpose}."
    if one.works is not True:
        text += f" Not now: {one.missing}."
        if one.remedy:
            text += f" {one.remedy}"
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    print(textwrap.fill(clean(text), width - 1, subsequent_indent="    ") if width > 20 else clean(text))


def _record(one: survey.Found, chosen: str) -> dict[str, object]:
    about = _catalog.ABOUT.get(one.place, _catalog.OTHER)
    return {
        "place": one.place,
        "configured": one.place == chosen,
        "usable": one.works,
        "missing": one.missing or None,
        "remedy": one.remedy or None,
        "isolation": about.isolation,
        "median_s": survey.measured(one.place),
        "cost": about.cost,
        "files": about.files,
        "for": about.purpose,
        "verified": one.verified,
    }
