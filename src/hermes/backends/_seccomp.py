"""Filters of system calls: what no command in a sandbox needs, and what a way out may be made of."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

__all__ = ["REFUSED", "SOCKETS", "program"]

_REFUSED = """
    acct add_key bpf delete_module finit_module fsconfig fsmount fsopen fspick init_module
    io_uring_enter io_uring_register io_uring_setup ioperm iopl kexec_file_load kexec_load keyctl mount
    mount_setattr move_mount open_by_handle_at open_tree perf_event_open pivot_root quotactl reboot
    request_key setns swapoff swapon umount umount2 unshare userfaultfd
"""
REFUSED = tuple(_REFUSED.split())
"""Names of system calls."""

SOCKETS = (38, 40)
"""Families of sockets that no namespace holds: the kernel's ciphers, a virtual machine's host."""

# All machines give a call the same number since 424. What came after this one is not known here: refused, as
# by a kernel that has none of it, so that a new way to mount (open_tree_attr, 467) is none out.
_LAST = 466

# By the kernel's name of the machine: its number in the audit system, and those of the calls.
_NUMBERS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        dict(
            acct=163, add_key=248, bpf=321, delete_module=176, finit_module=313, fsconfig=431, fsmount=432,
            fsopen=430, fspick=433, init_module=175, io_uring_enter=426, io_uring_register=427,
            io_uring_setup=425, ioperm=173, iopl=172, kexec_file_load=320, kexec_load=246, keyctl=250,
            mount=165, mount_setattr=442, move_mount=429, open_by_handle_at=304, open_tree=428,
            perf_event_open=298, pivot_root=155, quotactl=179, reboot=169, request_key=249, setns=308,
            swapoff=168, swapon=167, umount2=166, unshare=272, userfaultfd=323,
            clone=56, clone3=435, ioctl=16, setsockopt=54, socket=41,
        ),
    ),
    "aarch64": (
        0xC00000B7,
        dict(
            acct=89, add_key=217, bpf=280, delete_module=106, finit_module=273, fsconfig=431, fsmount=432,
            fsopen=430, fspick=433, init_module=105, io_uring_enter=426, io_uring_register=427,
            io_uring_setup=425, kexec_file_load=294, kexec_load=104, keyctl=219, mount=40, mount_setattr=442,
            move_mount=429, open_by_handle_at=265, open_tree=428, perf_event_open=241, pivot_root=41,
            quotactl=60, reboot=142, request_key=218, setns=268, swapoff=225, swapon=224, umount2=39,
            unshare=97, userfaultfd=282,
            clone=220, clone3=435, ioctl=29, setsockopt=208, socket=198,
        ),
    ),
}  # fmt: skip
_NAMESPACES = 0x7E020000  # the flags of clone that make one
_TYPING = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: input for a terminal that somebody else reads
# Packets that name a device go where the device leads, whatever the routes forbid: level and options.
_DEVICES = ((1, (25, 62)), (0, (50,)), (41, (76,)))  # SO_BINDTODEVICE, SO_BINDTOIFINDEX, IP(V6)_UNICAST_IF
_X32 = 0x40000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_ALLOW = 0x7FFF0000


def program(machine: str, *, sockets: Iterable[int] = SOCKETS) -> bytes | None:
    """Return the filter as the kernel takes it, None for a machine whose numbers are not known here.

    :param machine: as ``uname -m`` says it
    :param sockets: families of sockets that are refused
    """
    if machine not in _NUMBERS:
        return None
    arch, numbers = _NUMBERS[machine]
    # A call of another kind of program (32 bits) has other numbers.
    code = [_load(_ARCH), _jump(arch, 1, 0), _refuse(errno.ENOSYS), _load(_NUMBER)]
    if machine == "x86_64":
        code += [_jump(_X32, 0, 1, kind=0x35), _refuse(errno.ENOSYS)]
    code += [_jump(_LAST, 0, 1, kind=0x25), _refuse(errno.ENOSYS)]
    for name in REFUSED:
        if name in numbers:
            # With this error libraries do without.
            missing = name.startswith("io_uring")
            code += [_jump(numbers[name], 0, 1), _refuse(errno.ENOSYS if missing else errno.EPERM)]
    # Its flags are in memory, where no filter looks; libraries then turn to clone.
    code += [_jump(numbers["clone3"], 0, 1), _refuse(errno.ENOSYS)]
    code += _when(numbers["clone"], 0, [_jump(_NAMESPACES, 0, 1, kind=0x45), _refuse(errno.EPERM)])
    code += _when(numbers["ioctl"], 1, _any(_TYPING, errno.EPERM))
    code += _when(numbers["socket"], 0, _any(sockets, errno.EAFNOSUPPORT))
    for level, options in _DEVICES:
        inner = [_load(_ARGUMENTS + 16), *_any(options, errno.EPERM)]
        code += _when(numbers["setsockopt"], 1, [_jump(level, 0, len(inner)), *inner])
    code.append(struct.pack("HBBI", 0x06, 0, 0, _ALLOW))
    return b"".join(code)


def _when(number: int, argument: int, inner: list[bytes]) -> list[bytes]:
    """Return what looks at an argument of one system call."""
    return [
        _jump(number, 0, len(inner) + 2),
        _load(_ARGUMENTS + 8 * argument),  # the lower half: all that counts here, as both are little-endian
        *inner,
        _load(_NUMBER),
    ]


def _any(values: Iterable[int], code: int) -> list[bytes]:
    return [part for value in values for part in (_jump(value, 0, 1), _refuse(code))]


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", 0x20, 0, 0, offset)


def _jump(value: int, yes: int, no: int, *, kind: int = 0x15) -> bytes:
    return struct.pack("HBBI", kind, yes, no, value)


def _refuse(code: int) -> bytes:
    return struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | code)
