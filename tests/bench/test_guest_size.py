"""The guest's size on the wire is a tracked number."""

from __future__ import annotations

import pytest

from bench import guest_size

pytestmark = pytest.mark.bench


def test_the_page_is_up_to_date() -> None:
    print("\n" + guest_size.page().partition("\n| module")[2])
    refresh = f"run: {guest_size.COMMAND}"
    assert guest_size.PAGE.exists(), refresh
    text = guest_size.PAGE.read_text("utf-8")
    noted = guest_size.TOTAL.search(text)
    assert noted is not None, refresh
    now = guest_size.wire()
    off = abs(int(noted.group(1)) - now) / now
    assert off <= 0.02, f"the guest is {now} bytes, the page says {noted.group(1)}; {refresh}"
