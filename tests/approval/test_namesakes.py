"""Programs that only have the name of one of the system, and patterns for names of programs."""

from __future__ import annotations

import pytest

from hermes.approval._globs import meets
from hermes.approval.engine import Engine

from ._engine import judge


@pytest.mark.parametrize(
    "command",
    [
        "./shutdown",
        "bin/shutdown --now",
        "scripts/reboot",
        "./bin/halt",
        "./init 0",
        "./start",
        "bin/stop && bin/start",
        "/opt/app/bin/start",
        "~/bin/restart",
        "./passwd",
        "scripts/format --check",
        "cd bin && ./stop",
        "env A=1 timeout 9 ./start",
        "./*",
        "./bin/*",
        "./r*",
        "./*.sh",
        "./tests/run*",
        "/opt/app/bin/*",
        "~/bin/*",
        'for t in ./tests/*; do "$t"; done',
        'for t in tests/*.sh; do bash -n "$t" && "./$t"; done',
    ],
)
def test_a_program_elsewhere_is_not_the_systems_of_its_name(command: str) -> None:
    assert judge(command).action == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "shutdown",
        "/sbin/shutdown",
        "/usr/local/sbin/reboot",
        "/nix/store/x/bin/reboot",
        "cd /sbin; ./reboot",
        "cd /; sbin/reboot",
        "../../../sbin/reboot",
        "/opt/../sbin/init 0",
        "d=/sbin; $d/reboot",
        '"$UNSET"/reboot',
        'cd "$UNSET"; ./reboot',
        "cp /sbin/reboot r; ./r",
        "cp /sbin/reboot r; ./*",
        "ln -s /sbin b; b/reboot",
        "/sbin/shut*",
        "/usr/*/reboot",
        "/???/rebo?t",
        "/*/reboot",
        "cd /; sbin/r*t",
        "./rm -rf /",
        "echo 'rm -rf /' > run.sh; ./run*",
    ],
)
def test_one_that_may_be_the_systems_is(command: str) -> None:
    assert judge(command).action == "block"


@pytest.mark.parametrize(
    "command",
    [
        "/tmp/x/sudo ls",
        "sudo ./start",
        "/usr/local/bin/start",
        ".venv/bin/pyth?n -c 'print(1)'",
        "./[r]m -rf /",
        "./r? -rf src",
        "echo 'rm -rf src' > start; ./start",
        "~/.cargo/bin/cargo publish",
        "./start < ~/.ssh/id_rsa",
        "./start > /etc/hosts",
    ],
)
def test_neither_a_path_nor_a_pattern_is_a_way_around(command: str) -> None:
    assert judge(command).action == "ask"


def test_a_users_own_rules_see_the_name() -> None:
    engine = Engine(deny=["start"], ask=["format *"])
    assert judge("./start", engine=engine).rule == "user-deny-1"
    assert judge("bin/format x", engine=engine).rule == "user-ask-1"


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("[[:alpha:]]m", "rm", True),
        ("[[:punct:]]m", "!m", True),
        ("[[:punct:]]m", "rm", False),
        ("[^a]m", "rm", True),
        ("[^a]m", "am", False),
        ("[^[:digit:]]m", "7m", False),
        ("[]]a", "]a", True),
        ("[", "[", True),
        ("*" * 300 + "m", "rm", True),
        ("[" + "r" * 300 + "]m", "rm", True),
        ("?" * 256, "a" * 256, False),
    ],
)
def test_a_pattern_means_what_it_means_to_the_shell(pattern: str, name: str, fits: bool) -> None:
    assert meets(name, pattern) is fits


@pytest.mark.parametrize("path", ["~/.ssh/id_[^x]sa", "~/.ssh/id_[[:lower:]]sa", "/etc/s[^a]adow"])
def test_a_credential_by_a_pattern_is_asked(path: str) -> None:
    assert judge(f"cat {path}").action == "ask"


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("walk(){ [ $1 -gt 0 ] && walk $(($1-1)) & }; walk 3", "ask"),
        ("walk(){ if (( $1 > 0 )); then walk $(($1-1)) & fi; }; walk 3", "ask"),
        ("f(){ f $(($1-1)) & f $(($1-1)) & }; f 9", "block"),
        ("f(){ [ $1 ]; f $1 & f $1 & }; f 9", "block"),
        ("f(){ [ $1 -gt 0 ] && f $(($1+1)) & }; f 9", "block"),
    ],
)
def test_a_function_that_counts_down_is_no_bomb_for_sure(command: str, action: str) -> None:
    assert judge(command).action == action
