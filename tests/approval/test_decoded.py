"""Texts of the line itself that are decoded and run: what they say counts, and that they were hidden."""

from __future__ import annotations

import base64

import pytest

from ._engine import judge, rules

HIDDEN = base64.b64encode(b"rm -rf /").decode()
PYTHON = base64.b64encode(b"import os; os.system('rm -rf /')").decode()
RUN = [
    f"echo {HIDDEN} | base64 -d | sh",
    f'bash -c "$(echo {HIDDEN} | base64 -d)"',
    f'eval "$(base64 --decode <<< {HIDDEN})"',
    f"x=$(echo {HIDDEN} | base64 -d); $x",
    f"$(echo {HIDDEN} | base64 -d)",
    f"`echo {HIDDEN} | openssl base64 -d`",
    f"echo {HIDDEN} > a; base64 -d a | sh",
    f"echo {HIDDEN} | base64 -d > a.sh; bash a.sh",
    f"echo {HIDDEN} | basenc --base64 -d | sh",
    "echo 726d202d7266202f | xxd -r -p | bash",
    "echo Y20wZ0xYSm1JQzg9 | base64 -d | base64 -d | sh",
    'x=$(echo L2V0Yw== | base64 -d); rm -rf "$x"',
    'rm -rf "$(echo L2V0Yw== | base64 -d)"',
    "echo OJWSALLSMYQC6=== | base32 -d | sh",
    f"echo {PYTHON} | base64 -d | python3",
    f"python3 -c \"import base64; exec(base64.b64decode('{PYTHON}'))\"",
    f"python3 -c \"import base64, os; os.system(base64.b64decode('{HIDDEN}').decode())\"",
    "python3 -c \"import os; os.system(bytes.fromhex('726d202d7266202f').decode())\"",
    f"perl -MMIME::Base64 -e 'system(decode_base64(\"{HIDDEN}\"))'",
    f"ruby -rbase64 -e 'system(Base64.decode64(\"{HIDDEN}\"))'",
    f'node -e \'require("child_process").execSync(atob("{HIDDEN}"))\'',
    f'node -e \'require("child_process").execSync(Buffer.from("{HIDDEN}", "base64").toString())\'',
    f"php -r 'system(base64_decode(\"{HIDDEN}\"));'",
]


@pytest.mark.parametrize("text", RUN)
def test_what_a_decoded_text_says_counts(text: str) -> None:
    assert judge(text).action == "block", judge(text)


@pytest.mark.parametrize(
    "text",
    [
        "echo bHM= | base64 -d | sh",
        "$(echo bHM= | base64 -d)",
        "eval $(base64 -d <<< bHM=)",
        "base64 -d a | sh",
    ],
)
def test_what_was_hidden_is_asked_about_whatever_it_says(text: str) -> None:
    assert "decoded-code" in rules(text), text


@pytest.mark.parametrize(
    "text",
    [
        "echo aGVsbG8= | base64 -d",
        "echo eyJhIjoxfQ== | base64 -d | jq .",
        "x=$(echo aGVsbG8= | base64 -d); mkdir $x",
        "base64 -d a.b64 > a",
        f"node -e 'console.log(atob(\"{HIDDEN}\"))'",
        f"python3 -c \"import base64; print(base64.b64decode('{HIDDEN}'))\"",
    ],
)
def test_what_is_not_run_is_not_asked_about(text: str) -> None:
    assert judge(text).action == "allow", judge(text)
