"""Who answers when approval has to ask: ``--yes``, the person at the terminal, or nobody."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from hermes.approval import Answer, Decision, Nobody, Request

if TYPE_CHECKING:
    from ._prompt import Prompt

HINT = (
    "There is nobody to ask. Run it on a terminal to be asked, or give --yes when you have read it. "
    "'hermes approvals check' says what it would do."
)


OF_A_MODEL = "There is nobody to ask: hermes has no terminal here. Take another way, or tell the user."


class Yes:
    """Answers yes to everything that is asked, because ``--yes`` was given."""

    how = "--yes"

    def __call__(self, request: Request, decision: Decision) -> Answer:
        return Answer.ONCE


def asker(*, yes: bool, lasting: bool = False, model: bool = False) -> Yes | Prompt | Nobody:
    """Return who answers. Somebody is there when stderr is a terminal and we are in its foreground.

    :param lasting: this process goes on to run further commands, so that an answer for the session is of use
    :param model: what is asked for is a model's
    """
    if yes:
        return Yes()
    with contextlib.suppress(OSError):
        if sys.stderr.isatty() and os.tcgetpgrp(2) == os.getpgrp():
            os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
            from ._prompt import Prompt

            return Prompt(lasting=lasting, model=model)
    return Nobody(OF_A_MODEL if model else HINT)
