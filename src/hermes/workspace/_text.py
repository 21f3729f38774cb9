"""Changes as text, in the form of ``diff -u``. What comes from the sandbox only costs so much."""

from __future__ import annotations

import difflib

from ._facts import Facts

MAX_TEXT = 1 << 20  # bytes of a file that are shown line by line
MAX_PRODUCT = 4_000_000  # of lines on both sides: more would take long, however it is compared
CONTEXT = 3


def unified(
    path: str, before: bytes | None, now: bytes | None, was: Facts | None, facts: Facts | None
) -> str:
    """Return one file's change; None stands for a side without it.

    :param was: what is known of both sides, for the lines about their modes
    """
    a, b = quoted(f"a/{path}"), quoted(f"b/{path}")
    lines = [f"--- {a}" if before is not None else "--- /dev/null"]
    lines.append(f"+++ {b}" if now is not None else "+++ /dev/null")
    head = []
    if was is not None and facts is not None and (was.mode ^ facts.mode) & 0o100:
        head = [f"old mode {_mode(was)}", f"new mode {_mode(facts)}"]
    if was is not None and facts is not None and (was.kind, was.content) == (facts.kind, facts.content):
        return "\n".join([*(head and [f"diff {a} {b}"]), *head, ""]) if head else ""
    texts = [_text(before), _text(now)]
    if None in texts:
        sizes = f"{was.size if was is not None else 0} bytes, now {facts.size if facts is not None else 0}"
        return "\n".join([*head, f"Binary files {a} and {b} differ ({sizes})", ""])
    # At newlines only: splitlines knows many other ends.
    old, new = (text.split("\n") if text else [] for text in texts)
    return "\n".join([*head, *lines, ""]) + "".join(_hunks(old, new))


def quoted(path: str) -> str:
    """Return a path as git writes it: one that could be taken for something else stands in quotes."""
    if path.isprintable() and not set(path) & set('"\\'):
        return path
    out = ""
    for byte in path.encode("utf-8", "surrogateescape"):
        if byte in b'"\\':
            out += "\\" + chr(byte)
        else:
            out += chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"
    return f'"{out}"'


def _mode(facts: Facts) -> str:
    return "120000" if facts.kind == "link" else f"100{0o755 if facts.mode & 0o100 else 0o644:o}"


def _text(data: bytes | None) -> str | None:
    """Return bytes as text, None when they are none."""
    if data is None:
        return ""
    if len(data) > MAX_TEXT or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _hunks(old: list[str], new: list[str]) -> list[str]:
    # The last piece of a split is what follows the last newline: empty for a file that ends with one.
    ends = [bool(side) and side[-1] != "" for side in (old, new)]
    old, new = (side if end else side[:-1] for side, end in zip((old, new), ends, strict=True))
    out: list[str] = []
    for group in _groups(old, new):
        first, last = group[0], group[-1]
        out.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n")
        for tag, a, b, c, d in group:
            if tag == "equal":
                out += _side(" ", old, a, b, ends[0])
                continue
            out += _side("-", old, a, b, ends[0])
            out += _side("+", new, c, d, ends[1])
    return out


def _groups(old: list[str], new: list[str]) -> list[list[tuple[str, int, int, int, int]]]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b = len(old) - tail, len(new) - tail
    codes: list[tuple[str, int, int, int, int]] = [("equal", 0, head, 0, head)] if head else []
    if (a - head) * (b - head) <= MAX_PRODUCT:
        inner = difflib.SequenceMatcher(None, old[head:a], new[head:b]).get_opcodes()
        codes += [(tag, i + head, j + head, k + head, m + head) for tag, i, j, k, m in inner]
    else:
        codes.append(("replace", head, a, head, b))
    if tail:
        codes.append(("equal", a, len(old), b, len(new)))
    return _grouped(codes)


def _grouped(codes: list[tuple[str, int, int, int, int]]) -> list[list[tuple[str, int, int, int, int]]]:
    """Return changes with some lines around them; those that are near each other together."""
    groups: list[list[tuple[str, int, int, int, int]]] = []
    group: list[tuple[str, int, int, int, int]] = []
    for at, (tag, a, b, c, d) in enumerate(codes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        before, after = at + 1 < len(codes), bool(group)
        if after and before and b - a <= 2 * CONTEXT:
            group.append((tag, a, b, c, d))
            continue
        if after:
            end = min(b - a, CONTEXT)
            group.append((tag, a, a + end, c, c + end))
            groups.append(group)
            group = []
        if before:
            start = min(b - a, CONTEXT)
            group = [(tag, b - start, b, d - start, d)]
    if any(tag != "equal" for tag, *_ in group):
        groups.append(group)
    return groups


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + 1 if count else start}" + ("" if count == 1 else f",{count}")


def _side(sign: str, lines: list[str], start: int, stop: int, open_end: bool) -> list[str]:
    out = [f"{sign}{line}\n" for line in lines[start:stop]]
    if open_end and start < stop == len(lines):
        out.append("\\ No newline at end of file\n")
    return out
