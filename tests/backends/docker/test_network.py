"""The network of a container: on, off, internal, and the host's."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess

import pytest

import hermes
from _containers import IMAGES, ONE_ENGINE, engine, inspect, sandbox, text
from hermes.approval import Decision, Request
from hermes.errors import Refused


class AskAll:
    """A judge that knows nothing."""

    name = "ask-all"

    def judge(self, request: Request, state: object = None) -> Decision:
        return Decision(action="ask", reason="everything is asked")


REACH = """
import errno, socket, sys
for address in sys.argv[1:]:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
        print("open")
    except TimeoutError:
        print("nothing")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


FIRST = """
import ipaddress
for line in open("/proc/net/route").read().splitlines()[1:]:
    fields = line.split()
    if fields[1] != "00000000" and fields[7] not in ("00000000", "FFFFFFFF"):
        turned = bytes(reversed(bytes.fromhex(fields[1])))
        print(ipaddress.ip_address(int.from_bytes(turned, "big") + 1))
"""


async def reach(box: hermes.Sandbox, *addresses: str) -> list[str]:
    return (await text(box, "python3 - " + " ".join(addresses), stdin=REACH.encode())).split()


async def inside(box: hermes.Sandbox) -> list[str]:
    return (await text(box, "ls /sys/class/net")).split()


async def test_off_has_its_own_loopback_and_nothing_else(place: str) -> None:
    async with sandbox(place, network="off") as box:
        assert (await text(box, "ls /sys/class/net")).split() == ["lo"]
        assert await reach(box, "1.1.1.1:80", "169.254.169.254:80", "172.17.0.1:80") == ["ENETUNREACH"] * 3
        assert (await box.exec("getent hosts example.org")).exit_code != 0
        server = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 0.5; "
        assert "Directory" in await text(box, server + "curl -s http://127.0.0.1:8000/")


@ONE_ENGINE
async def test_on_reaches_out(place: str) -> None:
    """As far as can be told here, where nothing answers outside: there is a way, and names are asked for."""
    async with sandbox(place) as box:
        assert set((await text(box, "ls /sys/class/net")).split()) > {"lo"}
        routes = (await text(box, "cat /proc/net/route")).splitlines()[1:]
        assert [line for line in routes if line.split()[1] == "00000000"]
        assert "nameserver" in await text(box, "cat /etc/resolv.conf")


@pytest.mark.root_only
async def test_internal_reaches_those_beside_it_and_no_further(place: str) -> None:
    async with sandbox(place, network="internal") as box:
        network = (await inspect(box))["NetworkSettings"]["Networks"]
        assert len(network) == 1
        name = next(iter(network))
        assert name.startswith("hermes-tmp-")
        beside = await engine(
            place,
            *("run", "--detach", "--rm", "--network", name, IMAGES[place]),
            *("python3", "-m", "http.server", "8000"),
        )
        try:
            form = f'{{{{(index .NetworkSettings.Networks "{name}").IPAddress}}}}'
            address = await engine(place, "inspect", "--format", form, beside)
            for _ in range(20):
                found = await reach(box, f"{address}:8000")
                if found == ["open"]:
                    break
                await asyncio.sleep(0.1)
            assert found == ["open"]
            assert "open" not in await reach(box, "1.1.1.1:80", "8.8.8.8:53", "169.254.169.254:80")
        finally:
            await engine(place, "kill", beside)
    for _ in range(20):
        if name not in await engine(place, "network", "ls"):
            break
        await asyncio.sleep(0.1)
    assert name not in await engine(place, "network", "ls")


@pytest.mark.root_only
async def test_internal_does_not_reach_what_listens_on_this_machine(place: str) -> None:
    """On none of its addresses, and not at that of the network itself, of either kind of address."""
    with socket.socket(socket.AF_INET6) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", 0))
        server.listen(64)
        port = server.getsockname()[1]
        async with sandbox(place, network="internal") as box:
            # As they are while the network is there.
            shown = await asyncio.to_thread(
                subprocess.run, ["ip", "-json", "addr"], capture_output=True, check=True
            )
            found = [one["local"] for link in json.loads(shown.stdout) for one in link.get("addr_info", ())]
            own = [f"{one}%eth0" if one.startswith("fe80:") else one for one in found]
            first = (await text(box, "python3 -", stdin=FIRST.encode())).split()
            addresses = {*own, *first} - {"127.0.0.1", "::1"}
            assert "172.17.0.1" in addresses or place != "docker"
            assert first
            answers = await reach(box, *(f"{one}:{port}" for one in sorted(addresses)))
            assert "open" not in answers, dict(zip(sorted(addresses), answers, strict=True))
        _, writer = await asyncio.open_connection("127.0.0.1", port)  # there is something to be reached
        writer.close()
        await writer.wait_closed()


@pytest.mark.root_only
@ONE_ENGINE
async def test_the_hosts_network_is_no_sandbox_and_says_so(place: str) -> None:
    async with sandbox(place, network="host") as box:
        said = box.describe()
        assert said["reaches_host"] == ["it is in the network of this machine"]
        assert said["isolation"] == "none"
        assert said["judge"] is not None
        here = await asyncio.to_thread(os.listdir, "/sys/class/net")
        assert set(await inside(box)) == set(here)


@ONE_ENGINE
async def test_metadata_may_be_allowed(place: str) -> None:
    async with sandbox(place, metadata="allowed") as box:
        routes = (await text(box, "cat /proc/net/route")).splitlines()[1:]
        assert "0000FEA9" not in {line.split()[1] for line in routes}


@pytest.mark.root_only
@ONE_ENGINE
async def test_what_must_be_asked_is_refused_where_the_host_is_reached(place: str) -> None:
    """With nobody to ask, and a judge that asks about everything."""
    for options, judged in (({}, False), ({"network": "host"}, True)):
        async with sandbox(place, judge=AskAll(), approval="ask", **options) as box:
            assert box._place is not None and box._place.capabilities.judged is judged
            if judged:
                with pytest.raises(Refused):
                    await box.run("true")
            else:
                assert (await box.run("echo ran")).text == "ran\n"


@pytest.mark.root_only
@ONE_ENGINE
async def test_a_published_port_is_no_way_in_unless_asked(place: str) -> None:
    async with sandbox(place) as box:
        assert not any((await inspect(box))["NetworkSettings"].get("Ports", {}).values())
