"""What an instance runs as it starts: the guest, and a watch that ends the instance when it has no work."""

from __future__ import annotations

from ._options import HOME, RUN, SCRATCH

__all__ = ["ASK", "clean_environment", "start_script"]

CHECK_EVERY = 10

# Those that the client sets, which would confuse a shell inside or tell of the host.
_UNSET = "PS1 PROMPT_COMMAND BASH_ENV ENV USER_PATH OLDPWD " + " ".join(
    f"{kind}_{name}"
    for kind in ("APPTAINER", "SINGULARITY")
    for name in ("COMMAND", "APPNAME", "BIND", "CONTAINER", "INSTANCE", "NAME", "ENVIRONMENT")
)


def clean_environment() -> str:
    """Return shell text that makes the environment the sandbox's own; PATH and the like are the image's."""
    return (
        f"unset {_UNSET}; export HOME={HOME} TMPDIR={SCRATCH} USER=hermes LOGNAME=hermes"
        '; [ "${LANG:-C}" != C ] || export LANG=C.UTF-8'
    )


# The first process passes a signal on to this script's group, and ends when there is none any more. The watch
# is in a session of its own, so that it survives the script; what it counts at the beginning is not work.
_SCRIPT = """#!/bin/sh
cd /
{clean}
if [ -r {run}/boot.py ]; then
  (python3 -I -S {run}/boot.py </dev/null >/dev/null 2>{run}/boot.err || : >{run}/no-guest) &
else
  : >{run}/no-guest
fi
if [ {watched} = yes ]; then
  watch='{watch}'
  if command -v setsid >/dev/null 2>&1; then
    setsid /bin/sh -c "$watch" hermes-watch </dev/null >/dev/null 2>&1 &
  else
    python3 -I -S -c 'import os,sys;os.fork() and os._exit(0);os.setsid();os.execv("/bin/sh",sys.argv[1:])' \\
      /bin/sh -c "$watch" hermes-watch </dev/null >/dev/null 2>&1
  fi
fi
"""
_WATCH = """PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
quiet=0
while sleep {every}; do
  set -- /proc/[0-9]*
  if [ $# -gt {own} ]; then quiet=0; else quiet=$((quiet + {every})); fi
  if [ {idle} -gt 0 ] && [ $quiet -ge {idle} ]; then
    : >{run}/ended; kill -TERM 1; sleep 1; kill -TERM 1
  fi
  if [ -e {run}/want ]; then
    rm -f {run}/want
    python3 -I -S {run}/boot.py </dev/null >/dev/null 2>{run}/boot.err
  fi
done"""

# For processes that join by a step of SLURM, which ends whatever was started in it: the guest must not be.
ASK = f"""s={RUN}/guest/guest.sock; if [ -r {RUN}/boot.py ] && [ ! -S $s ]; then : >{RUN}/want; i=0
while [ ! -S $s ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done; fi"""


def start_script(idle: float, *, asked: bool = False) -> str:
    """Return the script.

    :param idle: seconds with nothing running after which the instance ends, 0 for never
    :param asked: whether it is asked for a guest as `ASK` does
    """
    every = 1 if asked else max(1, min(CHECK_EVERY, int(idle) or CHECK_EVERY))
    watch = _WATCH.format(every=every, idle=int(idle), run=RUN, own=2)
    watched = "yes" if idle or asked else "no"
    return _SCRIPT.format(clean=clean_environment(), run=RUN, watched=watched, watch=watch)
