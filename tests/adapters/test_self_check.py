"""Inspect's own checks of a provider, all of them, in four places."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from adapters._places import PLACES, file_of
from hermes.adapters.inspect import HermesSandboxEnvironment

pytestmark = pytest.mark.asyncio(loop_scope="module")

_OTHER_USER = "commands of one sandbox run as one user, and nothing here makes others"
_ROOT = "root may read and write what nobody may"
EXCEPTIONS = {(place, "test_exec_as_user"): _OTHER_USER for place in PLACES}
if os.geteuid() == 0:
    EXCEPTIONS |= {
        (place, name): _ROOT
        for place in ("local", "singularity")
        for name in (
            "test_read_file_not_allowed",
            "test_write_text_file_without_permissions",
            "test_write_binary_file_without_permissions",
        )
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PLACES)
async def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SandboxEnvironment]:
    """A sandbox for all of the checks, as Inspect makes one for a sample."""
    folder: Path = tmp_path_factory.mktemp("place")
    file = str(file_of(request.param, folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(folder / "home"))
        patch.setenv("HERMES_ALLOW_ROOT", "1")
        made = await HermesSandboxEnvironment.sample_init("self check", file, {})
        yield made["default"]
        await HermesSandboxEnvironment.sample_cleanup("self check", file, made, False)


@pytest.fixture
def sandbox_env(request: pytest.FixtureRequest, environment: SandboxEnvironment) -> SandboxEnvironment:
    """What the checks are given. A case that cannot pass is named above."""
    place = request.node.callspec.params["environment"]
    reason = EXCEPTIONS.get((place, request.node.originalname))
    if reason is not None:
        # On local the one about users would make an account of this machine.
        request.node.add_marker(
            pytest.mark.xfail(reason=reason, run=(place, reason) != ("local", _OTHER_USER))
        )
    return environment
