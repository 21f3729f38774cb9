"""Changing one setting in the text of a file leaves the rest of it as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.config._document import changed
from hermes.config._source import parse
from hermes.errors import ConfigError

WHERE = Path("/nowhere/config.yaml")


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", "a.b.c", 1, "a:\n  b:\n    c: 1\n"),
        ("# only\n", "timeout", 5, "# only\ntimeout: 5\n"),
        ("sandbox: local", "timeout", 1, "sandbox: local\ntimeout: 1\n"),
        ("sandbox:   'x'   # why\n", "sandbox", "docker", "sandbox:   docker # why\n"),
        ("timeout: 30   # seconds\n", "timeout", "10m", "timeout: 10m  # seconds\n"),
        ("sandbox:\n", "sandbox", "docker", "sandbox: docker\n"),
        ("a: 1\n# about b\nb: 2\n", "a", None, "# about b\nb: 2\n"),
        ("a: 1\n", "b", None, "a: 1\n"),
        ("a:\n  x: 1\nb: 2\n", "a.x", None, "b: 2\n"),
        ("a:\n  # kept\n  x: 1\nb: 2\n", "a.x", None, "a:\n  # kept\nb: 2\n"),
        ("a: # about a\nb: 2\n", "a.x", 1, "a: # about a\n  x: 1\nb: 2\n"),
        ("a:\n    x: 1\n\n# about b\nb: 2\n", "a.y", 2, "a:\n    x: 1\n    y: 2\n\n# about b\nb: 2\n"),
        ("a:\n- p # why\n- q\n\n# z\nz: 1\n", "a", None, "\n# z\nz: 1\n"),
        ("a:\n  - p\n  - q\n  # last\nz: 1\n", "a", ["r", "s t"], "a: [r, s t]\n  # last\nz: 1\n"),
        ("a: [p, q] # why\n", "b", [{"x": 1}], "a: [p, q] # why\nb:\n  - x: 1\n"),
        ("a: >-\n  lo\n  ng\nb: 1\n", "a", "x", "a: x\nb: 1\n"),
        ("a: |\n  # text\n\nb: 1\n", "c", "x", "a: |\n  # text\n\nb: 1\nc: x\n"),
        ("a: 1\r\n# x\r\nb:\r\n  y: 1\r\n", "b.y", 7, "a: 1\r\n# x\r\nb:\r\n  y: 7\r\n"),
        ("---\na: 1\n...\n", "b", 2, "---\na: 1\nb: 2\n...\n"),
        ("a: {x: 1, y: 2} # c\nb: 1\n", "a.x", 3, "a: {x: 3, y: 2} # c\nb: 1\n"),
        ("a: {x: 1}\r\nb: 1\r\n", "a.x", 3, "a: {x: 3}\r\nb: 1\r\n"),
        ("a: &one 1\nb: *one\n", "b", 5, "a: &one 1\nb: 5\n"),
        ("a: 1\n", "b", "1.20", "a: 1\nb: '1.20'\n"),
        ("a: !thing x\nb: 1\n", "b", 2, "a: !thing x\nb: 2\n"),
    ],
)
def test_only_what_is_meant_changes(before: str, key: str, value: Any, after: str) -> None:
    assert changed(WHERE, before, key.split("."), value) == after


def test_what_would_lose_something_is_not_done() -> None:
    with pytest.raises(ConfigError, match="cannot be changed here without loss"):
        changed(WHERE, "a: |\n  # as good as a comment\n  text\nb: 1\n", ["a"], "x")


_SCALARS = st.one_of(st.integers(-9, 9), st.booleans(), st.text("ab c:#'\"-\n{[*&!0", max_size=8))
_VALUES = st.one_of(_SCALARS, st.lists(_SCALARS, max_size=3))
_NAMES = st.sampled_from(["a", "b", "c", "long-er"])
_FILES = st.dictionaries(_NAMES, st.one_of(_VALUES, st.dictionaries(_NAMES, _VALUES, max_size=3)), max_size=4)


@given(_FILES, st.lists(_NAMES, min_size=1, max_size=2), st.one_of(st.none(), _VALUES), st.booleans())
def test_any_file_says_the_same_but_for_the_change(
    data: dict[str, Any], keys: list[str], value: Any, dense: bool
) -> None:
    import io

    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = None if dense else False
    out = io.StringIO()
    yaml.dump(data, out)
    text = "# first\n" + "".join(
        f"{line}\n# after {n}\n"
        if line[:1].isalpha() and ":" in line[:9] and line.rstrip()[-1:] not in "|:>-+"
        else line + "\n"
        for n, line in enumerate(out.getvalue().splitlines())
    )
    try:
        before, _ = parse(WHERE, text)
    except ConfigError:
        return  # the comment came between the lines of a text
    try:
        after = changed(WHERE, text, keys, value)
    except ConfigError as error:
        assert "without loss" in error.message
        return
    found, _ = parse(WHERE, after)
    *sections, last = keys
    for part in sections:
        before = before[part] if isinstance(before.get(part), dict) else {}
        found = found[part] if isinstance(found.get(part), dict) else {}
    assert found.get(last) == value or (value is not None and not value and not found.get(last))
    assert {k: v for k, v in found.items() if k != last} == {k: v for k, v in before.items() if k != last}
    assert after.startswith("# first\n")
