"""What runs inside the sandbox: standard library only, Python 3.6 and newer.

These modules are packed into one payload (:mod:`hermes.channel.boot`) and started inside the
place over its own stdio. They import nothing of the rest of hermes; the host imports
:mod:`~hermes.guest.frames` and :mod:`~hermes.guest.link`, which do no I/O, so that both ends
speak through the same code.
"""
