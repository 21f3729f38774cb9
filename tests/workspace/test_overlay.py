"""What an overlay changed: found, taken over, and taken back, whatever a sandbox put into its layer."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.errors import FileError
from hermes.workspace import Outcome, _overlay
from hermes.workspace._facts import Facts
from hermes.workspace._layer import OPAQUE, Layer, born
from hermes.workspace._overlay import Found, diffs, discard, empty, land, look, plan
from hermes.workspace._plan import change
from workspace.conftest import below, git, make


class Pair:
    """A project, and the layer over it as a kernel would have written it."""

    def __init__(self, root: Path) -> None:
        self.lower, self.upper = root / "project", root / "upper"
        self.lower.mkdir()
        self.upper.mkdir()
        self.layer = Layer(str(self.upper), str(self.lower))

    def delete(self, name: str) -> None:
        path = self.upper / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR, 0)

    def opaque(self, name: str) -> None:
        path = self.upper / name
        path.mkdir(parents=True, exist_ok=True)
        os.setxattr(path, OPAQUE, b"y")

    def look(self, *paths: str, ignored: bool = False) -> Found:
        return look(self.layer, paths, read_all=True, ignored=ignored)

    def changes(self) -> dict[str, str]:
        return {one.path: f"{one.what} {one.note}".strip() for one in self.look().changes()}

    def apply(self, *paths: str, force: bool = False, include_protected: bool = False) -> Outcome:
        found = self.look(*paths)
        outcome = plan(found, force=force, protected=paths if include_protected else ())
        land(self.layer, found, outcome)
        return outcome

    def discard(self, *paths: str) -> Outcome:
        outcome = Outcome(done=self.look(*paths).changes())
        discard(self.layer, outcome)
        return outcome

    def merged(self) -> dict[str, bytes]:
        """What a jail would see."""
        found = self.look(ignored=True)
        result = {
            name: (self.lower / name).read_bytes()
            for name in below(self.lower)
            if name not in found.sides.here or name in found.sides.there
        }
        for name, facts in found.sides.there.items():
            if facts.kind == "file":
                result[name] = (self.upper / name).read_bytes()
        return result


def ticked() -> None:
    """Let the clock of the file system go on."""
    time.sleep(0.02)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    yield found
    found.layer.close()


def paths(outcome: Outcome) -> list[str]:
    return [one.path for one in outcome.done]


# --- what is found


def test_what_the_kernel_writes_is_read(pair: Pair) -> None:
    make(pair.lower, {"a": "1\n", "d/x": "x", "d/e/y": "y", "gone": "g", "o/old": "o", "t": "same", "f": "f"})
    ticked()
    make(pair.upper, {"a": "2\n", "new/n": "n", "o/fresh": "f", "t": "same", "d/e": "now a file"})
    pair.delete("gone")
    pair.opaque("o")
    assert pair.changes() == {
        "a": "changed",
        "d/e": "added",
        "d/e/y": "deleted",
        "gone": "deleted",
        "new/n": "added",
        "o/fresh": "added",
        "o/old": "deleted",
    }
    (pair.upper / "d/e").unlink()
    (pair.upper / "d").rmdir()
    pair.delete("d")
    assert {name for name in pair.changes() if name.startswith("d/")} == {"d/x", "d/e/y"}


def test_the_text_of_changes(pair: Pair) -> None:
    make(pair.lower, {"a": "1\n2\n", "run": "x\n", "b": b"\0"})
    ticked()
    make(
        pair.upper,
        {"a": "1\n3\n", "run": "x\n", "b": b"\0\1", ".git/objects/ab/" + "c" * 38: "o", "n\x1b\n": ""},
    )
    (pair.upper / "run").chmod(0o755)
    texts = [text for _, text in diffs(pair.layer, pair.look())]
    assert "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n" in texts
    assert "diff a/run b/run\nold mode 100644\nnew mode 100755\n" in texts
    assert "Binary files a/b and b/b differ (1 bytes, now 2)\n" in texts
    assert "git's own data: 1 files changed\n" in texts
    assert any('"b/n\\033\\012"' in text for text in texts)
    assert not any("\x1b" in text for text in texts)


def test_what_git_ignores_is_left_out_unless_it_is_named(pair: Pair) -> None:
    git(pair.lower, "init", "-q")
    make(pair.lower, {".gitignore": "out/\n"})
    make(pair.upper, {"out/a": "1", "b": "2"})
    assert (pair.look().changed, pair.look().ignored) == (["b"], 1)
    assert pair.look("out/a").changed == ["out/a"]
    assert pair.look(ignored=True).changed == ["b", "out/a"]
    assert paths(pair.apply()) == ["b"]
    assert (pair.upper / "out/a").exists()


# --- applying


def test_everything_lands_and_is_no_change_any_more(pair: Pair) -> None:
    make(pair.lower, {"a": "1", "d/x": "x", "d/y": "y", "o/old": "o", "t": "same"})
    ticked()
    make(pair.upper, {"a": "2", "new/deep/n": "n", "o/fresh": "f", "t": "same"})
    os.symlink("a", pair.upper / "link")
    pair.delete("d")
    pair.opaque("o")
    outcome = pair.apply()
    assert not outcome.failed
    assert below(pair.lower) == ["a", "link", "new/deep/n", "o/fresh", "t"]
    assert (pair.lower / "a").read_text() == "2"
    assert os.readlink(pair.lower / "link") == "a"
    assert list(pair.upper.iterdir()) == []
    assert pair.changes() == {}


@pytest.mark.parametrize("way", ["apply", "discard"])
def test_a_part_of_a_directory_that_was_replaced(pair: Pair, way: str) -> None:
    make(pair.lower, {"o/a": "1", "o/b": "2", "o/sub/c": "3"})
    ticked()
    make(pair.upper, {"o/new": "n", "o/b": "two", "o/sub/d": "4"})
    pair.opaque("o")
    seen = {"o/new": b"n", "o/b": b"two", "o/sub/d": b"4"}
    assert pair.merged() == seen
    for name in ("o/new", "o/a", "o/sub/d"):
        assert paths(getattr(pair, way)(name)) == [name]
        if way == "discard":
            seen.pop(name, None)
            if name == "o/a":
                seen[name] = b"1"
        assert pair.merged() == seen
    assert (pair.lower / "o/new").exists() == (way == "apply")


@pytest.mark.parametrize("way", ["apply", "discard"])
def test_a_part_of_a_directory_that_was_deleted(pair: Pair, way: str) -> None:
    make(pair.lower, {"d/a": "1", "d/b": "2", "d/sub/c": "3"})
    ticked()
    pair.delete("d")
    assert pair.merged() == {}
    assert paths(getattr(pair, way)("d/a")) == ["d/a"]
    assert pair.merged() == ({} if way == "apply" else {"d/a": b"1"})
    assert sorted(pair.changes()) == ["d/b", "d/sub/c"]
    assert paths(getattr(pair, way)()) == ["d/b", "d/sub/c"]
    assert pair.changes() == {}
    assert below(pair.lower) == ([] if way == "apply" else ["d/a", "d/b", "d/sub/c"])


def test_a_directory_in_the_place_of_a_file_and_the_other_way(pair: Pair) -> None:
    make(pair.lower, {"f": "file", "d/x": "x"})
    ticked()
    make(pair.upper, {"f/inner": "i", "d": "file now"})
    assert not pair.apply().failed
    assert (pair.lower / "f/inner").read_text() == "i"
    assert (pair.lower / "d").read_text() == "file now"
    assert pair.changes() == {}


def test_a_directory_in_the_place_of_a_file_is_discarded(pair: Pair) -> None:
    make(pair.lower, {"f": "file"})
    ticked()
    make(pair.upper, {"f/inner": "i"})
    assert paths(pair.discard("f")) == ["f", "f/inner"]
    assert list(pair.upper.iterdir()) == []


def test_what_changed_here_too_is_a_conflict(pair: Pair) -> None:
    make(pair.lower, {"a": "1", "b": "1", "c": "1", "d/x": "1"})
    ticked()
    make(pair.upper, {"a": "jail", "b": "jail"})
    pair.delete("c")
    pair.delete("d")
    ticked()
    make(pair.lower, {"a": "host", "c": "host", "d/x": "host"})
    outcome = pair.apply()
    assert paths(outcome) == ["b"]
    assert [(one.path, one.note) for one in outcome.conflicts] == [
        (name, "it changed here too") for name in ("a", "c", "d/x")
    ]
    assert (pair.lower / "a").read_text() == "host"
    assert paths(pair.apply("a", "c", force=True)) == ["a", "c"]
    assert (pair.lower / "a").read_text() == "jail"
    assert not (pair.lower / "c").exists()


def test_where_it_is_not_known_when_a_file_was_made_all_are_conflicts(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(pair.lower, {"a": "1"})
    ticked()
    make(pair.upper, {"a": "2"})
    fd = os.open(pair.upper, os.O_RDONLY)
    assert born(fd, b"a") > 0
    assert born(fd, b"none") == 0
    os.close(fd)
    monkeypatch.setattr(_overlay, "born", lambda *_: 0)
    assert [one.path for one in pair.apply().conflicts] == ["a"]


def test_what_changes_after_it_was_looked_at_is_not_written(pair: Pair) -> None:
    make(pair.lower, {"here": "1", "there": "1"})
    ticked()
    make(pair.upper, {"here": "2", "there": "2", "short": "long"})
    found = pair.look()
    outcome = plan(found, force=False)
    ticked()
    make(pair.lower, {"here": "3"})
    make(pair.upper, {"there": "4", "short": "l"})
    land(pair.layer, found, outcome)
    assert paths(outcome) == []
    assert {one.path: one.note for one in outcome.failed} == {
        "here": "it changed here meanwhile, or a directory is in the way",
        "there": "it changed inside meanwhile",
        "short": "it changed inside meanwhile",
    }
    assert below(pair.lower) == ["here", "there"]


def test_an_apply_that_was_cut_is_repeated(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    make(pair.lower, {"a": "1", "b": "1"})
    ticked()
    make(pair.upper, {"a": "2", "b": "2"})

    def cut(self: Layer, path: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Layer, "drop", cut)
        pair.apply()
    assert sorted((pair.lower / name).read_text() for name in "ab") == ["1", "2"]
    pair.apply()
    assert [(pair.lower / name).read_text() for name in "ab"] == ["2", "2"]
    assert list(pair.upper.iterdir()) == []


# --- what is hostile


def test_nothing_is_written_through_a_link(pair: Pair, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("safe")
    os.symlink(outside, pair.lower / "there")
    os.symlink(outside / "x", pair.lower / "file")
    ticked()
    make(pair.upper, {"there/x": "evil", "there/y": "evil", "file": "evil"})
    outcome = pair.apply("there/x", "there/y")
    assert paths(outcome) == []
    pair.apply("file")
    assert below(outside) == ["x"]
    assert (outside / "x").read_text() == "safe"
    assert not (pair.lower / "file").is_symlink()


def test_a_link_in_the_way_that_comes_while_it_is_applied(pair: Pair, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    make(pair.lower, {"d/x": "1"})
    ticked()
    make(pair.upper, {"d/x": "evil"})
    found = pair.look()
    outcome = plan(found, force=False)
    (pair.lower / "d").rename(pair.lower / "e")
    os.symlink(outside, pair.lower / "d")
    land(pair.layer, found, outcome)
    assert [one.note for one in outcome.failed] == ["a link or a file is in the way"]
    assert below(outside) == []


def test_a_project_that_became_a_link_is_not_opened(pair: Pair, tmp_path: Path) -> None:
    pair.lower.rename(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", pair.lower)
    with pytest.raises(OSError, match="Not a directory"):
        Layer(str(pair.upper), str(pair.lower))


def test_a_directory_of_the_layer_that_is_a_link_is_not_followed(pair: Pair, tmp_path: Path) -> None:
    make(tmp_path / "outside", {"secret": "s"})
    make(pair.lower, {"d/x": "1"})
    ticked()
    os.symlink(tmp_path / "outside", pair.upper / "d")
    assert pair.changes() == {"d": "added the link leads out of the workspace", "d/x": "deleted"}
    assert paths(pair.apply("d")) == ["d/x"]
    assert pair.discard().failed == []
    assert (tmp_path / "outside/secret").exists()


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", ".git/config", ".hermes.yaml", ".envrc", ".vscode/tasks.json", ".bashrc"],
)
def test_what_programs_here_read_is_held_back(pair: Pair, path: str) -> None:
    make(pair.lower, {path: "mine", ".git/HEAD": "ref: refs/heads/main\n"})
    ticked()
    make(pair.upper, {path: "evil"})
    assert paths(pair.apply()) == []
    assert (pair.lower / path).read_text() == "mine"
    (pair.upper / path).unlink()
    pair.delete(path)
    assert paths(pair.apply(path)) == []
    assert [one.path for one in pair.apply().held] == [path]
    assert (pair.lower / path).read_text() == "mine"
    assert paths(pair.apply(".", include_protected=True)) == []
    assert paths(pair.apply(path, include_protected=True)) == [path]
    assert not (pair.lower / path).exists()


@pytest.mark.parametrize("mark", ["redirect", "metacopy", "whiteout"])
def test_marks_that_lead_elsewhere_are_refused(pair: Pair, mark: str) -> None:
    make(pair.lower, {"secret": "s", "d/x": "x"})
    ticked()
    make(pair.upper, {"file": "", "e/y": "y"})
    os.setxattr(pair.upper / "file", f"user.overlay.{mark}", b"/secret")
    os.setxattr(pair.upper / "e", f"user.overlay.{mark}", b"/d")
    assert pair.changes() == {
        "e": "added its content is somewhere else",
        "file": "added its content is somewhere else",
    }
    assert paths(pair.apply(include_protected=True, force=True)) == []
    assert below(pair.lower) == ["d/x", "secret"]
    assert pair.discard().failed == []
    assert list(pair.upper.iterdir()) == []


def test_what_is_no_file_is_refused_and_can_be_discarded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(pair.upper / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        monkeypatch.chdir(pair.upper)  # a socket's path has to be short
        sock.bind("sock")
    assert pair.changes() == dict.fromkeys(("fifo", "sock"), "added it is no file, directory or link")
    assert paths(pair.apply(include_protected=True, force=True)) == []
    assert list(pair.lower.iterdir()) == []
    assert paths(pair.discard("fifo")) == ["fifo"]
    empty(pair.layer, outcome := Outcome(done=pair.look().changes()))
    assert not outcome.failed
    assert list(pair.upper.iterdir()) == []


def test_special_bits_of_a_mode_do_not_come(pair: Pair) -> None:
    make(pair.upper, {"s": "#!/bin/sh\n"})
    (pair.upper / "s").chmod(0o6777)
    assert paths(pair.apply()) == ["s"]
    assert stat.S_IMODE((pair.lower / "s").stat().st_mode) & 0o7022 == 0


def test_hard_links_come_as_files_of_their_own(pair: Pair) -> None:
    make(pair.upper, {"a": "1"})
    os.link(pair.upper / "a", pair.upper / "b")
    assert paths(pair.apply()) == ["a", "b"]
    assert (pair.lower / "a").stat().st_nlink == 1


def test_names_that_only_seem_to_be_another(pair: Pair) -> None:
    make(pair.lower, {"Readme": "1", ".git/config": "c"})
    ticked()
    make(pair.upper, {"README": "2", ".g\u200cit/config": "3", "a/../b".replace("/../", "\n../"): "4"})
    outcome = pair.apply(include_protected=True)
    assert "README" not in paths(outcome)
    assert ".g\u200cit/config" not in paths(outcome)
    assert (pair.lower / "a\n.." / "b").read_text() == "4"


def test_a_file_that_is_larger_than_the_disk_is_not_read(pair: Pair) -> None:
    with open(pair.upper / "huge", "wb") as file:
        file.truncate(1 << 43)
    began = time.monotonic()
    assert pair.changes() == {"huge": "added there is no room for it here"}
    assert paths(pair.apply(force=True)) == []
    assert time.monotonic() - began < 5


def test_holes_stay_holes(pair: Pair) -> None:
    with open(pair.upper / "sparse", "wb") as file:
        file.truncate(64 << 20)
        file.seek(32 << 20)
        file.write(b"x")
    assert paths(pair.apply()) == ["sparse"]
    info = (pair.lower / "sparse").stat()
    assert info.st_size == 64 << 20
    assert info.st_blocks * 512 < 4 << 20


def test_all_together_that_have_no_room(pair: Pair) -> None:
    found = Found()
    outcome = Outcome(done=[change("x", None, Facts("file", 1 << 60, 0o644, (0, 0)))])
    with pytest.raises(FileError) as caught:
        land(pair.layer, found, outcome)
    assert caught.value.code == "no_space"


def test_a_tree_that_is_too_deep_is_told(pair: Pair) -> None:
    fd = os.open(pair.upper, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=fd)
        deeper = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    found = pair.look()
    assert [found.note(path) for path in found.changed] == ["its path is too long"]
    assert not pair.discard(found.changed[0]).failed
    assert pair.look().changed == []
    empty(pair.layer, Outcome())
    assert list(pair.upper.iterdir()) == []


def test_what_resists_is_discarded(pair: Pair) -> None:
    make(pair.lower, {"d/x": "1"})
    ticked()
    make(pair.upper, {"d/x": "2", "d/y": "3", "e/shut/z": "4"})
    (pair.upper / "d").chmod(0o500)
    (pair.upper / "e/shut").chmod(0)
    outcome = pair.discard()
    assert not outcome.failed
    assert pair.changes() == {}
    assert list(pair.upper.iterdir()) == []
