"""What collecting has to know of the tests' own transports.

Their exceptions, that a case whose client is another process cannot be theirs, and which cases another way to
a place runs: the suite is whole once for each place, and HERMES_WHOLE=1 makes it whole for each way too.
"""

import os
from collections.abc import Generator

import pytest

OTHER_PROCESS = "test_client_killed_in_mid_command"  # it knows installed backends only
OWN = (
    *("local-relay", "local-text", "docker-relay", "docker-remap"),
    *("singularity-relay", "singularity-slurm", "ssh-far"),
    *("jail-relay", "jail-wheel", "jail-overlay", "jail-landlock"),
)
# What depends on how bytes come and go and on how processes end.
SLICE = ("test_input", "test_output", "test_stdin", "test_stopping", "test_transfer")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    from _transports import known

    with known():
        yield
    out = [item for item in items if _left_out(item)]
    if out:
        config.hook.pytest_deselected(items=out)
        gone = set(out)
        items[:] = [item for item in items if item not in gone]


def _left_out(item: pytest.Item) -> bool:
    function = getattr(item, "obj", None)
    callspec = getattr(item, "callspec", None)
    if function is None or not hasattr(function, "__hermes_case__") or callspec is None:
        return False
    own = callspec.params.get("hermes_backend") in OWN
    if own and function.__name__ == OTHER_PROCESS:
        return True
    sliced = own or getattr(getattr(item, "module", None), "hermes_slice", False)
    topic = function.__module__.rpartition(".")[2]
    return sliced and topic not in SLICE and os.environ.get("HERMES_WHOLE") != "1"
