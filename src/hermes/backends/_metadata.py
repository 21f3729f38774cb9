"""Programs that put the metadata addresses of clouds out of the reach of the network that they run in."""

from __future__ import annotations

import socket

__all__ = ["ADDRESSES", "no_metadata_script", "own_metadata_script"]

# Link-local is where clouds keep what a machine may know about itself, its credentials included; some have
# further addresses.
ADDRESSES = (
    ("169.254.0.0", 16),
    ("100.100.100.200", 32),
    ("168.63.129.16", 32),
    ("192.0.0.192", 32),
    ("fd00:ec2::254", 128),
)

# The modules beneath socket and struct: to import those takes longer than all of the rest.
NO_METADATA = """
import _socket as socket,_struct as struct,errno,sys
s=socket.socket(socket.AF_NETLINK,socket.SOCK_RAW,0)
for family,bits,dst in {routes!r}:
    body=struct.pack('8BI',family,bits,0,0,254,3,0,7,0)+struct.pack('HH',4+len(dst),1)+dst
    s.send(struct.pack('IHHII',16+len(body),24,0x605,1,0)+body)
    code=-struct.unpack('i',s.recv(4096)[16:20])[0]
    if code and code!=errno.EEXIST and family==2:sys.exit(errno.errorcode.get(code,str(code)))
try:s=socket.socket(socket.AF_NETLINK,socket.SOCK_RAW,6)
except OSError:sys.exit()
for family,bits,dst in {routes!r}:
    body=dst.ljust(16,b'\\0')+bytes(24)+struct.pack('HBBB3xiI',family,bits,0,0,0,0)
    body+=b'\\xff'*32+bytes(64)+struct.pack('IIBBBB4x',0,0,1,1,0,0)
    s.send(struct.pack('IHHII',16+len(body),19,0x605,1,0)+body)
    s.recv(4096)
"""
# A packet that names its device goes past the routes, and not past a policy for what goes out, where the
# kernel has those.


# The same where no route can be forbidden, as in gVisor: the addresses become the container's own. One to
# which packets would come from itself, or from the loopback, leads nowhere else.
OWN_METADATA = """
import socket,struct,sys
lo=socket.if_nametoindex('lo')
s=socket.socket(socket.AF_NETLINK,socket.SOCK_RAW,0)
left=[]
for family,bits,dst in {addresses!r}:
    def inside():
        try:
            with socket.socket(family,socket.SOCK_DGRAM) as probe:
                probe.connect((dst,80))
                return probe.getsockname()[0] in (dst,'127.0.0.1','::1')
        except OSError:
            return True
    if inside():continue
    raw=socket.inet_pton(family,dst)
    one=struct.pack('HH',4+len(raw),2)+raw+struct.pack('HH',4+len(raw),1)+raw
    s.send(struct.pack('IHHIIBBBBi',24+len(one),20,0x605,1,0,family,bits,0,254,lo)+one)
    s.recv(4096)
    if not inside():left.append(dst)
if left:sys.exit('in reach: '+' '.join(left))
"""


def own_metadata_script() -> str:
    """Return Python that makes the metadata addresses those of where it runs, and fails when it cannot."""
    hosts = {"169.254.0.0": "169.254.169.254"}
    addresses = [
        (int(socket.AF_INET6 if ":" in address else socket.AF_INET), bits, hosts.get(address, address))
        for address, bits in ADDRESSES
    ]
    return OWN_METADATA.format(addresses=addresses).strip()


def no_metadata_script() -> str:
    """Return Python that makes the metadata addresses unreachable in the network that it runs in."""
    routes = []
    for address, bits in ADDRESSES:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        routes.append((int(family), bits, socket.inet_pton(family, address)))
    return NO_METADATA.format(routes=routes).strip()
