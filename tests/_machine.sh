#!/bin/sh
# Be another machine: one with a name, homes and temporary files of its own, where nothing but sshd runs.
# usage: unshare --mount --uts --pid --fork --kill-child --mount-proc sh tests/_machine.sh DIRECTORY NAME SSHD-CONFIG
# A file DIRECTORY/prepare is sourced before sshd starts, for what else that machine has or lacks.
set -eu
dir=$1
tester=hermes-tester
mount --make-rprivate /
echo "$2" >/proc/sys/kernel/hostname
mkdir -p "$dir/home" "$dir/root" "$dir/tmp" "$dir/var-tmp" /run/sshd
chown "$tester:" "$dir/home"
chmod 700 "$dir/root"
chmod 1777 "$dir/tmp" "$dir/var-tmp"
mount --bind "$dir/home" "$(getent passwd "$tester" | cut -d : -f 6)"
mount --bind "$dir/root" /root
mount --bind "$dir/tmp" /tmp
mount --bind "$dir/var-tmp" /var/tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
cat /proc/sys/kernel/random/uuid >"$dir/boot_id"
mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
[ ! -e "$dir/prepare" ] || . "$dir/prepare"
cd /
exec /usr/sbin/sshd -D -e -f "$3" 2>>"$dir/sshd.log"
