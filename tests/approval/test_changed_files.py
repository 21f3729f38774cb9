"""Files that lay there before a session changed them: what was put in is judged when they run."""

from __future__ import annotations

import pytest

from hermes.approval._before import changed, later, pieces, substituted
from hermes.approval._marks import BEFORE, UNKNOWN

from ._engine import session

DELETES = "rm -rf src"


@pytest.mark.parametrize(
    "change",
    [
        f"sed -i 's/echo/{DELETES} #/' run.sh",
        f"sed -i '1a {DELETES}' run.sh",
        f"perl -pi -e 's/echo/{DELETES} #/' run.sh",
        f"echo '{DELETES}' >> run.sh",
        f"ed run.sh <<'E'\n1a\n{DELETES}\n.\nw\nq\nE",
        f"python3 -c \"s=open('run.sh').read(); open('run.sh','w').write(s.replace('echo','{DELETES}'))\"",
        f"sed -i 's/a/b/' run.sh; echo '{DELETES}' >> run.sh",
    ],
)
@pytest.mark.parametrize("start", ["bash run.sh", "./run.sh", ". ./run.sh"])
def test_what_was_put_in_is_judged_when_it_runs(change: str, start: str) -> None:
    assert session(change).action == "allow"
    assert session(change, start).rule == "recursive-delete"
    assert session(change.replace(DELETES, "ls"), start).action == "allow"


@pytest.mark.parametrize("start", ["sh a", "cp a b; sh b"])
def test_a_text_that_is_known_is_changed_as_sed_would(start: str) -> None:
    assert session("echo 'Xm -rf src' > a; sed -i 's/X/r/' a", start).rule == "recursive-delete"
    assert session("echo 'Xs -l' > a; sed -i 's/X/l/' a", start).action == "allow"
    assert session("echo 'Xs -l' > a; sed -i 's/[X]/l/' a", start).rule == "written-code"


def test_a_piece_is_no_whole_command_but_an_appended_line_is() -> None:
    assert session("sed -i 's/a/$b \"/' run.sh", "bash run.sh").action == "allow"
    assert session("echo '$b x' >> run.sh", "bash run.sh").action == "ask"


def test_what_was_there_before_is_not_known_to_what_reads_it() -> None:
    assert session("echo x >> words", "$(cat words)").action == "ask"


def test_pieces() -> None:
    assert pieces("s/a/b c/; 3i\\  d e\ns|x|/y|g") == ["b c", "/y", "d e"]
    assert substituted("s/a/b/g", "aa\na") == "bb\nb"
    assert substituted("s/a/b/", "aa") == "ba"
    assert substituted("s/.*/b/", "aa") is None
    assert substituted("s/a/b/", f"a{UNKNOWN}") is None
    assert changed(["x"]).startswith(BEFORE * 2)
    assert later(None, "a", f"{BEFORE}\nls\n") == "ls\n"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "step",
    ["a{1}=a{0}+a{0}", "a{1}=f'{{a{0}}}{{a{0}}}'", "a{1}=a{0}.join([a{0}, a{0}])", "a0+=a0; a{1}=a0"],
)
@pytest.mark.parametrize("start", ["'x'", "['x']", "open('z').read()"])
def test_python_code_that_doubles_a_text_is_read_in_bounds(step: str, start: str) -> None:
    steps = "\n".join(step.format(number, number + 1) for number in range(60))
    code = f"import os\na0={start}\n{steps}\nopen('q', 'w').write(a60)\nos.system(a60)"
    assert session(f"python3 - <<'PY'\n{code}\nPY").rule == "code-runs"
