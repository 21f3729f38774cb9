"""The profile for macOS, as a text: no Mac has ever read it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.backends.jail._seatbelt import profile

Node = str | list["Node"]
TOKEN = re.compile(r'\s+|;[^\n]*|(?P<open>\()|(?P<close>\))|(?P<word>"(?:[^"\\]|\\.)*"|[^\s()";]+)')


def parsed(text: str) -> list[Node]:
    """Read a profile as the lists that it is made of."""
    stack: list[list[Node]] = [[]]
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        assert found, text[at : at + 40]
        at = found.end()
        if found["open"]:
            stack.append([])
        elif found["close"]:
            done = stack.pop()
            stack[-1].append(done)
        elif found["word"]:
            stack[-1].append(found["word"])
    assert len(stack) == 1
    return stack[0]


def decides(text: str, operation: str, path: str) -> str:
    """Return what the last rule says that fits."""
    result = "deny"
    for rule in parsed(text):
        assert isinstance(rule, list)
        verb, *rest = rule
        operations = [one for one in rest if isinstance(one, str)]
        filters = [one for one in rest if isinstance(one, list)]
        fits = any(re.fullmatch(one.replace("*", ".*"), operation) for one in operations)
        if verb not in ("allow", "deny") or not fits:
            continue
        if not filters or any(_meant(one, path) for one in filters):
            assert isinstance(verb, str)
            result = verb
    return result


def _meant(one: list[Node], path: str) -> bool:
    kind, name = one
    assert isinstance(name, str)
    name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return path == name or (kind == "subpath" and path.startswith(f"{name}/"))


def test_what_may_be_read_and_changed(tmp_path: Path) -> None:
    project = str(tmp_path)
    text = profile([project], ["/opt/tools"], kept=[f"{project}/.git/hooks", f"{project}/.envrc"])
    assert text.startswith("(version 1)\n(deny default)\n")
    for operation, path, wanted in (
        ("file-read-data", "/usr/bin/true", "allow"),
        ("file-write-data", "/usr/bin/true", "deny"),
        ("file-read-data", "/Users/me/.ssh/id_ed25519", "deny"),
        ("file-read-metadata", "/Users/me/.ssh/id_ed25519", "allow"),
        ("file-read-data", "/private/etc/hosts", "allow"),
        ("file-read-data", "/private/etc/master.passwd", "deny"),
        ("file-read-data", "/opt/tools/x", "allow"),
        ("file-write-data", "/opt/tools/x", "deny"),
        ("file-write-create", f"{project}/src/new", "allow"),
        ("file-write-create", f"{project}x/new", "deny"),
        ("file-write-create", f"{project}/.git/hooks/pre-commit", "deny"),
        ("file-write-unlink", f"{project}/.git/hooks", "deny"),
        ("file-write-unlink", f"{project}/.git", "deny"),
        ("file-write-create", f"{project}/.git/index", "allow"),
        ("file-write-data", f"{project}/.envrc", "deny"),
        ("file-write-data", "/dev/null", "allow"),
        ("file-write-data", "/dev/disk0", "deny"),
        ("network-outbound", "", "deny"),
    ):
        assert decides(text, operation, path) == wanted, (operation, path)


def test_a_network_is_the_machines() -> None:
    assert decides(profile(["/work"], network=True), "network-outbound", "") == "allow"


def test_a_path_is_never_more_than_a_path(tmp_path: Path) -> None:
    odd = tmp_path / 'a")(allow default)("b\\'
    odd.mkdir()
    text = profile([str(odd)])
    assert ["allow", "default"] not in parsed(text)
    assert decides(text, "file-write-create", f"{odd}/x") == "allow"
    assert decides(text, "file-write-create", "/Users/me/x") == "deny"
    for path in ("relative", "/with\nnewline"):
        with pytest.raises(ValueError, match="path"):
            profile([path])


def test_it_is_printed(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hermes.backends.jail._seatbelt", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert decides(done.stdout, "file-write-create", f"{tmp_path}/.git/config") == "deny"
    assert decides(done.stdout, "file-write-create", f"{tmp_path}/x") == "allow"
