"""The rule language: the examples of the shipped rules, patterns, and a user's rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hermes.approval
from hermes.approval import standard_judge
from hermes.approval._rules import Rule, shipped, user_rules
from hermes.approval.engine import Engine
from hermes.config import load
from hermes.errors import ConfigError

from ._engine import judge, request, rules

SHIPPED = shipped().rules


@pytest.mark.parametrize("rule", SHIPPED, ids=lambda rule: rule.id)
def test_a_rule_meets_its_examples(rule: Rule) -> None:
    engine = Engine()
    assert rule.reason
    assert rule.not_match
    for text in rule.match:
        found = [one for one in engine.explain(request(text)) if one.rule == rule.id]
        assert any(one.action == rule.action for one in found), text
    for text in rule.not_match:
        assert rule.id not in rules(text, engine=engine), text


def test_rules_have_names_of_their_own() -> None:
    names = [rule.id for rule in SHIPPED]
    assert len(names) == len(set(names))


def test_each_rule_that_the_code_gives_is_in_the_file() -> None:
    known = {rule.id for rule in SHIPPED}
    folder = Path(hermes.approval.__file__).parent
    given: set[str] = set()
    for file in folder.glob("*.py"):
        given |= set(re.findall(r"\bnote\(\s*\"([a-z-]+)\"", file.read_text("utf-8")))
    assert len(given) > 30
    assert given <= known


@pytest.mark.parametrize(
    ("pattern", "command", "meets"),
    [
        ("tool", "tool", True),
        ("tool", "/opt/bin/tool x", True),
        ("tool|other go", "other go", True),
        ("tool go", "tool stop", False),
        ("tool go", "tool --verbose go", True),
        ("tool go", "tool --at home go", True),
        ("tool go", "tool home go", False),
        ("tool ... go", "tool home go", True),
        ("tool go stop", "tool go x", False),
        ("tool go-*", "tool go-home", True),
        ("tool * *", "tool a", False),
        ("tool * *", "tool a b", True),
        ("tool END", "tool a", False),
        ("tool END", "tool -v", True),
        ("tool -f", "tool -f", True),
        ("tool -f", "tool -xf", True),
        ("tool -f", "tool f", False),
        ("tool -f", "tool -- -f", False),
        ("tool -f|--force", "tool --force", True),
        ("tool --force", "tool --forc", True),
        ("tool --force", "tool --format", False),
        ("tool -X=GO|--request=GO", "tool -X GO", True),
        ("tool -X=GO|--request=GO", "tool -XGO", True),
        ("tool -X=GO|--request=GO", "tool --request=go", True),
        ("tool -X=GO|--request=GO", "tool -X STOP", False),
        ("tool go !--dry-run|-n", "tool go --dry-run", False),
        ("tool go !--dry-run|-n", "tool go -n", False),
        ("tool go !--dry-run|-n", "tool go", True),
        ("tool !list", "tool list", False),
        ("tool* go", "tool3 go", True),
    ],
)
def test_a_pattern(pattern: str, command: str, meets: bool) -> None:
    engine = Engine(rules=[{"id": "mine", "action": "block", "patterns": [pattern]}])
    assert ("mine" in rules(command, engine=engine)) is meets


@pytest.mark.parametrize(
    "command",
    [
        "tool x",
        "/usr/bin/tool x",
        "../tool x",
        "env tool x",
        "nice -n 3 timeout 5 tool x",
        "bash -c 'tool x'",
        "echo hi && tool x",
        "echo $(tool x)",
        "t=tool; $t x",
        "to''ol x",
        "$'\\x74ool' x",
        "f() { tool x; }; f",
        "ls | xargs tool",
        "find . -exec tool {} +",
        "python3 -c 'import os; os.system(\"tool x\")'",
        "echo 'tool x' | sh",
        "for t in tool; do $t x; done",
        "tool() { :; }; command tool x",
        "ssh host tool x",
        "docker exec web tool x",
        "eval tool x",
        "if false; then tool x; fi",
        "cat <<EOF\n$(tool x)\nEOF",
    ],
)
def test_a_users_deny_sees_every_command_of_a_line(command: str) -> None:
    engine = Engine(deny=["tool *"])
    decision = judge(command, engine=engine)
    assert (decision.action, decision.rule) == ("block", "user-deny-1")
    assert judge("tools x", engine=engine).action == "allow"


def test_deny_beats_ask_beats_allow() -> None:
    assert judge("git push origin x", engine=Engine(ask=["git push *"])).action == "ask"
    assert judge("git push", engine=Engine(ask=["git push *"])).action == "ask"
    assert judge("sudo ls", engine=Engine(allow=["sudo *"])).action == "allow"
    assert judge("sudo ls", engine=Engine(allow=["sudo *"], ask=["sudo *"])).action == "ask"
    assert judge("sudo ls", engine=Engine(allow=["sudo *"], deny=["sudo *"])).action == "block"
    assert judge("sudo ls && git reset --hard", engine=Engine(allow=["sudo *"])).rule == "git-discard"


def test_an_allow_does_not_lift_what_is_blocked_nor_what_a_redirection_does() -> None:
    engine = Engine(allow=["rm *", "echo *", "sudo *"])
    assert judge("rm -rf src", engine=engine).action == "allow"
    assert judge("rm -rf /", engine=engine).action == "block"
    assert judge("sudo rm -rf /", engine=engine).action == "block"
    assert judge("echo x > /etc/motd", engine=engine).action == "ask"


@pytest.mark.parametrize(
    ("allow", "command", "action"),
    [
        ("git push origin *", "git push origin main", "allow"),
        ("git push origin *", "git push origin --force", "ask"),
        ("git push origin *", "git push origin main -f", "ask"),
        ("git push origin *", "git -c core.sshCommand=X push origin", "ask"),
        ("git push origin *", "git --exec-path=/tmp/x push origin", "ask"),
        ("git push --force *", "git push --force origin", "allow"),
        ("git push --force *", "git push -f origin", "allow"),
        ("git push -f *", "git push --force origin", "allow"),
        ("git push --force *", "git -c core.sshCommand=X push -f origin", "ask"),
        ("git *", "git push --force", "allow"),
        ("git *", "git -c core.sshCommand=X push", "ask"),
        ("tar *", "tar xf x --checkpoint=1 --checkpoint-action=exec=sh", "ask"),
        ("docker compose down *", "docker compose down -v", "ask"),
        ("docker compose down -v", "docker compose down -v", "allow"),
        ("systemctl restart x", "systemctl restart --no-block x", "allow"),
        ("npm publish *", "npm publish --access public", "allow"),
        ("rm *", "rm -rf src", "allow"),
    ],
)
def test_an_allow_does_not_lift_what_an_option_does_that_it_does_not_write(
    allow: str, command: str, action: str
) -> None:
    assert judge(command, engine=Engine(allow=[allow])).action == action


@pytest.mark.parametrize("command", ["git push -f", "git push --force x", "rm --recursive x", "rm -R x"])
def test_a_pattern_means_an_option_in_both_its_forms(command: str) -> None:
    engine = Engine(deny=["git push --force *", "rm -r *"])
    assert judge(command, engine=engine).action == "block"


@pytest.mark.parametrize(
    "raw",
    [
        {"id": "x", "action": "perhaps"},
        {"action": "ask"},
        {"id": "x", "action": "ask", "pattern": ["x"]},
        {"id": "x", "action": "ask", "programs": "x", "text": ["("]},
        {"id": "x", "action": "ask", "patterns": [""]},
    ],
)
def test_what_is_no_rule_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"rule|pattern"):
        user_rules([raw])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("deny: [5]", "approvals.deny: expected a list of texts, found a list with '5' in it"),
        ("rules: [1]", "approvals.rules: expected a list of sections, found a list with '1' in it"),
        ('deny: [""]', "approvals.deny: the pattern '', number 1: it has no program"),
        ('ask: ["ls", " "]', "approvals.ask: the pattern ' ', number 2: it has no program"),
        ("rules: [{id: x, action: perhaps}]", "approvals.rules: 'x' is not a rule"),
        ('rules: [{id: x, action: ask, patterns: [""]}]', "approvals.rules: the pattern '' of the rule 'x'"),
        ('rules: [{id: x, action: ask, text: ["("]}]', "the rule 'x' has a broken expression '('"),
    ],
)
def test_a_bad_rule_is_named_with_its_line(
    setting: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text(f"approvals:\n  mode: ask\n  {setting}\n")
    with pytest.raises(ConfigError) as found:
        standard_judge(load().approvals)
    assert str(tmp_path / "config.yaml:3: ") in found.value.message
    assert said in found.value.message
