"""A process that Landlock and a filter of system calls hold, and all that it starts. Run as a program.

It is given a descriptor from which it reads what is allowed, and the command that it becomes. It uses the
standard library only, as it is run without anything else.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys

_NO_NEW_PRIVS, _SECCOMP, _BOUNDING, _AMBIENT = 38, 22, 24, 47
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on all machines
_CAPSET = {"x86_64": 126, "aarch64": 91}
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read files, read directories
_WRITE = _READ | 0b1_0111_1011_0010 | 1 << 13 | 1 << 14  # everything but devices
_DEVICE = 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what a rule for a file may say

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """Return the version of Landlock that the kernel has in use, 0 when it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc.syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def _call(number: int, *args: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *args))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _prctl(*args: int) -> int:
    return int(_libc.prctl(*(ctypes.c_ulong(one) for one in (*args, 0, 0, 0, 0)[:5])))


def _hold_files(allowed: dict[str, list[str]]) -> None:
    """Allow nothing but what is below some paths; in later versions also no signals and abstract sockets."""
    version = abi()
    handled = (1 << 13) - 1
    handled |= (
        (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0) | (1 << 15 if version >= 5 else 0)
    )
    attributes = struct.pack("QQQ", handled, 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _call(_CREATE, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    for kind, rights in (("read", _READ), ("write", _WRITE), ("device", _DEVICE)):
        for path in allowed[kind]:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            granted = rights & handled
            if not os.path.isdir(path):
                granted &= _FILE
            elif kind == "device":
                granted |= 1 << 3
            _call(
                _ADD,
                ctypes.c_int(rules),
                ctypes.c_int(1),
                struct.pack("=Qi", granted, fd),
                ctypes.c_uint32(0),
            )
            os.close(fd)
    _call(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)


def _drop_rights() -> None:
    """Give up every capability, for good."""
    for number in range(64):
        _prctl(_BOUNDING, number)
    _prctl(_AMBIENT, 4)
    _call(_CAPSET[os.uname().machine], struct.pack("Ii", 0x20080522, 0), bytes(24))


def _filter(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

    held = Program(len(program) // 8, program)
    if _libc.prctl(
        ctypes.c_int(_SECCOMP), ctypes.c_ulong(2), ctypes.byref(held), ctypes.c_ulong(0), ctypes.c_ulong(0)
    ):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def main() -> None:
    """Become the command, held."""
    with open(int(sys.argv[1]), "rb") as file:
        told = json.load(file)
    if _prctl(_NO_NEW_PRIVS, 1):
        raise OSError("no_new_privs cannot be set")
    os.chdir(told["cwd"])
    if os.geteuid() == 0:
        _drop_rights()
    _hold_files(told["allowed"])
    _filter(bytes.fromhex(told["filter"]))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
