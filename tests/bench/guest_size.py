"""The size of the guest on the wire, as a page of the documentation.

usage: python tests/bench/guest_size.py        writes docs/guest-size.md anew
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from hermes.channel import boot

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guest-size.md"
COMMAND = ".venv/bin/python tests/bench/guest_size.py"
TOTAL = re.compile(r"^\| on the wire \| .* \| (\d+) \|$", re.M)


def page() -> str:
    """Return the page for the guest as it is."""
    rows = []
    for name, source in sorted(boot.modules().items()):
        own = (boot.GUEST / f"{name}.py").stat().st_size
        rows.append(f"| {name} | {own} | {len(source.encode())} | {len(zlib.compress(source.encode(), 9))} |")
    stripped = sum(len(source.encode()) for source in boot.modules().values())
    own = sum((boot.GUEST / f"{name}.py").stat().st_size for name in boot.modules())
    return f"""# Size of the guest

Bytes that go into a sandbox before its first command: what each module of `hermes/guest` has as source,
without comments, docstrings and annotations, and that compressed alone. Together they compress better.
A test fails when the last figure is off by more than 2 %; `{COMMAND}`
writes this page anew.

| module | source | stripped | compressed |
| --- | ---: | ---: | ---: |
{chr(10).join(rows)}
| on the wire | {own} | {stripped} | {wire()} |
"""


def wire() -> int:
    """Return the size of the payload, with no options, and of the first stage that reads it."""
    first, *blocks = boot.payload({})
    return sum(map(len, [boot.block(first), *blocks])) + len(boot.stage("read(9999)", 9999, 99999).encode())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
