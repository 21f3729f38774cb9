"""Attempts to get out of a sandbox, or to harm the host from in it, that are the same in several places."""

from __future__ import annotations

import os

SYSCALL = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    held = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in args]
    result = libc.syscall(ctypes.c_long(number), *held)
    if result < 0:
        print(errno.errorcode[ctypes.get_errno()])
        sys.exit(1)
    print("done", result)
"""


def system_call(code: str) -> str:
    """Return shell text that makes a system call (x86-64) and fails as it does."""
    return f"python3 - <<'CODE'\n{SYSCALL}{code}\nCODE"


# What fails has an exit code other than 0 and says nothing of use.
ATTEMPTS: dict[str, str] = {
    "write /usr": "cp /bin/true /usr/bin/evil",
    "write /etc/passwd": "echo evil::0:0::/:/bin/sh >>/etc/passwd",
    "write /etc/ld.so.preload": "echo /scratch/evil.so >/etc/ld.so.preload",
    "write another's run directory": "mkdir /run/hermes/../../var/run/../../usr/x",
    "remount the root writable": "mount -o remount,rw /",
    "mount memory": "mount -t tmpfs none /mnt",
    "mount a fresh proc": "mkdir -p /scratch/p; mount -t proc proc /scratch/p",
    "mount the host's disk": "mkdir -p /scratch/d; mount /dev/vda /scratch/d || mount /dev/sda1 /scratch/d",
    "bind over a system file": "touch /scratch/f; mount --bind /scratch/f /etc/passwd",
    "unmount what hides": "umount /proc/keys || umount /proc/sys || umount /sys/firmware",
    "the new mount calls": system_call("call(430, b'tmpfs', 0)"),
    "move a mount": system_call("call(428, -100, b'/', 1)"),
    "make a disk's device": "mknod /scratch/disk b 254 0 && head -c 512 /scratch/disk >/dev/null",
    "make the kernel's memory": "mknod /scratch/mem c 1 1 && head -c 1 /scratch/mem",
    "read a disk that is there": "cat /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg /dev/fuse",
    "read the kernel's memory": "head -c 1 /proc/kcore; test -s /proc/kcore",
    "trace a process of the host": system_call(f"call(101, 16, {os.getpid()}, 0, 0)"),
    "memory of a process of the host": f"head -c 1 /proc/{os.getpid()}/mem",
    "memory of the host's by call": system_call(
        "data = ctypes.create_string_buffer(8)\n"
        "vector = (ctypes.c_size_t * 2)(ctypes.addressof(data), 8)\n"
        f"call(310, {os.getpid()}, ctypes.addressof(vector), 1, ctypes.addressof(vector), 1, 0)"
    ),
    "a setuid program": "cp /usr/bin/id /scratch/id; chmod u+s /scratch/id; "
    "setpriv --reuid 4321 --regid 4321 --clear-groups /scratch/id -u | grep -qx 0",
    "su": "echo | su -c id nobody",
    "sudo": "sudo -n id",
    "become another user": "python3 -c 'import os; os.setuid(4321); os.setgid(4321)'",
    "raise capabilities": "setpriv --inh-caps +sys_admin --ambient-caps +sys_admin true",
    "chroot": "chroot / true",
    "pivot the root": system_call("call(155, b'/', b'/')"),
    "a user namespace": "unshare -U true",
    "a user namespace by clone": system_call("call(56, 0x10000011, 0, 0, 0, 0)"),
    "a mount namespace": "unshare -m true",
    "a network namespace": "unshare -n true",
    "a process namespace": "unshare -fp true",
    "join a namespace": "nsenter -t 1 -m true",
    "open by handle": system_call("call(304, 3, 0, 0)"),
    "write /proc/sys": "echo 1 >/proc/sys/kernel/randomize_va_space",
    "core_pattern": "echo '|/scratch/evil' >/proc/sys/kernel/core_pattern",
    "modprobe path": "echo /scratch/evil >/proc/sys/kernel/modprobe",
    "binfmt": "echo evil >/proc/sys/fs/binfmt_misc/register",
    "sysrq": "echo b >/proc/sysrq-trigger",
    "interrupts": "echo 1 >/proc/irq/default_smp_affinity",
    "write /sys": "echo 0 >/sys/kernel/mm/transparent_hugepage/enabled",
    "uevent helper": "echo /scratch/evil >/sys/kernel/uevent_helper",
    "release_agent": "echo /scratch/evil >/sys/fs/cgroup/memory/release_agent",
    "a release_agent of its own": "mkdir -p /scratch/cg; mount -t cgroup -o memory cgroup /scratch/cg",
    "lift its own limit": "cd /sys/fs/cgroup; for f in memory/memory.limit_in_bytes memory.max; do "
    "[ -e $f ] && echo -1 >$f && exit 0; done; false",
    "allow itself devices": "echo a >/sys/fs/cgroup/devices/devices.allow",
    "leave its control group": "mkdir /sys/fs/cgroup/pids/out",
    "load a module": system_call("call(175, b'', 0, b'')"),
    "load a module by file": system_call("call(313, 0, b'', 0)"),
    "kexec": system_call("call(246, 0, 0, 0, 0)"),
    "reboot": system_call("call(169, 0xfee1dead, 672274793, 0, 0)"),
    "bpf": system_call("call(321, 0, 0, 0)"),
    "perf_event_open": system_call("call(298, 0, 0, -1, -1, 0)"),
    "keyctl": system_call("call(250, 0, -3, 0)"),
    "add_key": system_call("call(248, b'user', b'a', b'b', 1, -3)"),
    "userfaultfd": system_call("call(323, 0)"),
    "the kernel's log": "dmesg",
    "change the clock": "date -s 2001-01-01",
    "change the host's name": "hostname evil",
    "swap": system_call("call(167, b'/scratch/f', 0)"),
    "a raw socket": "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'",
    "forge ARP": "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x806)'",
    "change routes": 'python3 -c "import socket, struct; s = socket.socket(16, 3, 0); '
    "s.send(struct.pack('IHHII8BI', 28, 25, 5, 1, 0, 2, 16, 0, 0, 254, 3, 0, 7, 0) + "
    "struct.pack('HH4B', 8, 1, 169, 254, 0, 0)); "
    "code = struct.unpack('i', s.recv(4096)[16:20])[0]; raise SystemExit(code != 0)\"",
    "the metadata service": "curl -s -m 2 http://169.254.169.254/",
    "the engine's socket": "find / -xdev -type s 2>/dev/null | grep -v ^/run/hermes/ || "
    "ls /var/run/docker.sock /run/podman /run/containerd",
    "ulimits above the host's": "ulimit -Hn 99999999",
}
