"""Leave out what the tests' own transports cannot be given: a case whose client is another process."""

import pytest

OTHER_PROCESS = "test_client_killed_in_mid_command"  # it knows installed backends only
OWN = (
    *("local-relay", "local-text", "docker-relay", "docker-remap"),
    *("singularity-relay", "singularity-slurm", "ssh-far"),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    out = [item for item in items if item.name in (f"{OTHER_PROCESS}[{kind}]" for kind in OWN)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]
