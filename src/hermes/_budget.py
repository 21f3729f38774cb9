"""Keeping a sandbox that is paid for within a budget, while its client lives."""

from __future__ import annotations

import asyncio
import re
import time
import warnings
from typing import TYPE_CHECKING

from .errors import ConfigError, HermesError, SandboxGone
from .usage import cost_per_second, prices

if TYPE_CHECKING:
    from .sandbox import Sandbox

_AMOUNT = re.compile(r"[$€]?\s*(\d+(?:\.\d+)?)\s*([a-z]{3})?", re.I)
WARN_AT = 0.8  # of the budget
LOOK_EVERY = 30.0  # seconds, at most


async def begun(box: Sandbox, amount: float | str) -> Budget:
    """Begin to count what a sandbox costs its client.

    :param amount: ``5``, ``5usd`` or ``$5``
    :raises ConfigError: it is no amount in the currency of the prices, nothing is paid for there, it has no
        price, or it could not be suspended
    """
    place, listed = box._the_place(), await asyncio.to_thread(prices)
    found = _AMOUNT.fullmatch(str(amount).strip())
    currency = listed.currency
    if found is None or float(found[1]) <= 0 or (found[2] or currency).upper() != currency.upper():
        raise ConfigError(
            f"{str(amount)[:40]!r} is no budget; nothing was run",
            hint=f"Write an amount above 0, such as 5 or 5{currency.lower()}: the prices are in {currency}.",
        )
    size = place.billed
    if size is None or not place.capabilities.suspend:
        lack = "nothing is paid for there" if size is None else "it keeps no files when it is suspended"
        hint = "Leave the budget out." if size is None else "persistent: true keeps them."
        raise ConfigError(f"no budget can be kept on {box.backend}: {lack}; nothing was run", hint=hint)
    rate = cost_per_second(listed.places.get(box.backend), size)
    if not rate:
        raise ConfigError(
            f"no budget can be kept: the prices have none for this size on {box.backend}; nothing was run",
            hint="Put a list with it into prices.json in hermes's home: 'hermes usage --json' shows one.",
        )
    return Budget(box, float(found[1]), rate, currency)


class Budget:
    """What a client wants to spend on a sandbox, in the currency of the list of prices."""

    def __init__(self, box: Sandbox, amount: float, rate: float, currency: str) -> None:
        self._box, self._amount, self._rate, self._currency = box, amount, rate, currency
        self._spent = 0.0
        self._warned = False
        self._looked = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def keep(self) -> None:
        """Have the sandbox suspended from now on when all is spent; what opening it took counts."""
        self._task = asyncio.create_task(self._keep())

    async def end(self) -> None:
        """Count no more; a suspension that has begun comes to its end, or the sandbox would go on to cost."""
        task = self._task
        if task is None or task is asyncio.current_task():
            return
        if self._spent < self._amount:
            task.cancel()
        await asyncio.wait([task])

    def check(self) -> None:
        """Refuse what would be more than the budget.

        :raises SandboxGone: it is spent
        """
        if self._spent >= self._amount:
            raise SandboxGone(
                f"the budget of {self._amount:g} {self._currency} for '{self._box.name}' is spent: it was "
                "suspended, and no command runs in it",
                reason="the budget is spent",
                hint="Its files are kept. Opening it again wakes it, and costs again.",
            )

    async def _keep(self) -> None:
        """Count what is spent; warn when little is left, and suspend the sandbox when nothing is."""
        while True:
            next_step = self._amount * (1.0 if self._warned else WARN_AT)
            await asyncio.sleep(min(max((next_step - self._spent) / self._rate, 0.0), LOOK_EVERY))
            now = time.monotonic()
            if not self._box._asleep:
                self._spent += self._rate * (now - self._looked)
            self._looked = now
            if self._spent >= WARN_AT * self._amount and not self._warned:
                self._warned = True
                warnings.warn(
                    f"'{self._box.name}' has used {self._spent / self._amount:.0%} of its budget of "
                    f"{self._amount:g} {self._currency}, about",
                    stacklevel=1,
                )
            if self._spent >= self._amount:
                break
        self._spent = self._amount
        warnings.warn(
            f"the budget of {self._amount:g} {self._currency} is spent, about: '{self._box.name}' is "
            "suspended",
            stacklevel=1,
        )
        if self._box._asleep:
            return
        try:
            await self._box.suspend()
        except HermesError as error:
            warnings.warn(
                f"'{self._box.name}' could not be suspended, and still costs money: {error}", stacklevel=1
            )
