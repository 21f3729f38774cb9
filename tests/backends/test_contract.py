"""What the base class of all backends does by itself."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from hermes.backends.base import Backend, ByteChannel, Capabilities, GuestDirs, PlaceState, Spec
from hermes.config import Config
from hermes.errors import UnsupportedError

PLAIN = Capabilities(isolation="none")


class Least(Backend):
    """As little as a backend can say."""

    name = "least"
    can = PLAIN

    @classmethod
    async def check(cls, config: Config) -> None: ...

    @property
    def capabilities(self) -> Capabilities:
        return self.can

    async def create(self) -> dict[str, Any]:
        return {}

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        return "gone"

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        raise NotImplementedError

    def guest_dirs(self) -> GuestDirs:
        return GuestDirs("/run/x", "/var/x")

    async def destroy(self, *, keep_files: bool = False) -> None: ...


def least(can: Capabilities = PLAIN, **spec: Any) -> Least:
    backend = Least(Spec(name="x", id="0" * 8, **spec), Config())
    backend.can = can
    return backend


@pytest.mark.parametrize("operation", ["suspend", "resume", "snapshot"])
async def test_what_a_backend_does_not_say_it_can_is_refused(operation: str) -> None:
    with pytest.raises(UnsupportedError, match=f"the least backend cannot do {operation}"):
        await getattr(least(), operation)()


async def test_defaults() -> None:
    backend = least()
    assert await backend.direct_channel("/run/x") is None
    assert await backend.diagnose("cut") == ""
    assert backend.session_env() is None
    assert tuple(backend.guest_python()) == ("python3",)
    backend.check_spec()


@pytest.mark.parametrize(
    ("spec", "can"),
    [
        ({"limits": {"memory": 1}}, {"limits": frozenset({"memory"})}),
        ({"network": "off"}, {"network_off": True}),
        ({"persistent": True}, {"persistent": True}),
        ({"workspace": "private"}, {"workspace": frozenset({"private"})}),
        ({"workspace": "here"}, {"workspace": frozenset({"here"})}),
        ({"workspace": "/srv"}, {"workspace": frozenset({"path"})}),
    ],
)
def test_a_wish_is_refused_unless_the_place_can(spec: dict[str, Any], can: dict[str, Any]) -> None:
    least(Capabilities(isolation="vm", **can), **spec).check_spec()
    with pytest.raises(UnsupportedError, match="nothing was started"):
        least(Capabilities(isolation="vm"), **spec).check_spec()


def test_capabilities_and_specs_are_frozen_and_plain() -> None:
    with pytest.raises(AttributeError):
        PLAIN.isolation = "vm"  # type: ignore[misc]
    assert msgspec.to_builtins(PLAIN)["isolation"] == "none"
    assert msgspec.json.decode(msgspec.json.encode(least().spec), type=Spec) == least().spec


@pytest.mark.parametrize("kind", [Backend, ByteChannel])
def test_every_method_of_the_contract_is_described(kind: type) -> None:
    for name, member in inspect.getmembers(kind):
        if not name.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member)):
            assert (member.__doc__ or "").strip(), name
