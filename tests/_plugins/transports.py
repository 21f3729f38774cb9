"""What collecting has to know of the tests' own transports.

Their exceptions, and that a case whose client is another process cannot be theirs.
"""

from collections.abc import Generator

import pytest

OTHER_PROCESS = "test_client_killed_in_mid_command"  # it knows installed backends only
OWN = (
    *("local-relay", "local-text", "docker-relay", "docker-remap"),
    *("singularity-relay", "singularity-slurm", "ssh-far"),
    *("jail-relay", "jail-wheel", "jail-landlock"),
)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    from _transports import known

    with known():
        yield
    out = [item for item in items if item.name in (f"{OTHER_PROCESS}[{kind}]" for kind in OWN)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]
