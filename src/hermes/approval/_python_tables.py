"""Which functions of Python run commands or code, delete, write, read or send."""

from __future__ import annotations

from hermes._lazy import Lazy

from . import _marks as marks

PRINTS = {"print": "\n", "sys.stdout.write": "", "sys.stderr.write": "", "pprint.pprint": "\n"}
SHELL = frozenset(
    (
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "commands.getoutput",
        "pty.spawn",
        "platform.popen",
        "asyncio.create_subprocess_shell",
        "invoke.run",
        "fabric.api.run",
        "fabric.api.local",
        "fabric.api.sudo",
        "pexpect.spawn",
        "pexpect.spawnu",
        "pexpect.run",
        "pexpect.runu",
        "pexpect.popen_spawn.PopenSpawn",
    )
)
RUN = frozenset(f"subprocess.{name}" for name in ("run", "call", "Popen", "check_call", "check_output")) | {
    "asyncio.create_subprocess_exec"
}
TREES = frozenset(
    ("shutil.rmtree", "os.removedirs", "distutils.dir_util.remove_tree", "send2trash.send2trash")
)
REMOVES = frozenset(("os.remove", "os.unlink", "os.rmdir"))
STARTS = frozenset(
    f"os.{start}{kind}"
    for start in ("exec", "spawn", "posix_spawn")
    for kind in ("", "p", "l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
)
MOVES = frozenset(
    (
        "shutil.copy",
        "shutil.copyfile",
        "shutil.copy2",
        "shutil.copytree",
        "shutil.move",
        "os.rename",
        "os.replace",
        "os.link",
        "os.symlink",
    )
)
# What lists the files of a directory: a function of its path, or a method of that.
LISTS = frozenset(("glob.glob", "glob.iglob", "os.listdir", "os.scandir", "os.walk", "os.fwalk"))
LISTED = frozenset(("iterdir", "glob", "rglob", "walk"))
READS = frozenset(("open", "read", "read_text", "read_bytes", "readlines"))
DECODES = {
    **dict.fromkeys(
        ("b64decode", "standard_b64decode", "urlsafe_b64decode", "decodebytes", "a2b_base64"), "base64"
    ),
    "b32decode": "base32",
    **dict.fromkeys(("b16decode", "unhexlify", "a2b_hex", "fromhex"), "base16"),
    "b85decode": "base85",
    "a85decode": "ascii85",
}
METHODS = frozenset(("unlink", "rmdir", "rmtree", "removedirs", "remove_p", "rmtree_p", "removetree"))
EXECS = frozenset(
    (
        "exec",
        "eval",
        "compile",
        "execfile",
        "runpy.run_path",
        "runpy.run_module",
        "marshal.loads",
        "pickle.loads",
        "pickle.load",
        "pickle.Unpickler",
        "cPickle.load",
        "cPickle.loads",
        "dill.load",
        "dill.loads",
        "cloudpickle.load",
        "cloudpickle.loads",
        "joblib.load",
        "jsonpickle.decode",
        "shelve.open",
        "marshal.load",
        "yaml.unsafe_load",
        "yaml.unsafe_load_all",
        "importlib.import_module-x",
        "code.interact",
        "os.execfile",
    )
)
FETCHES = (
    "urllib.request.",
    "urllib.urlopen",
    "urllib2.",
    "requests.",
    "httpx.",
    "http.client.",
    "urlopen",
    "aiohttp.",
)
# These run a text as code, or call a function.
TIMED = marks.names(
    "timeit.timeit timeit.repeat timeit.Timer cProfile.run cProfile.runctx profile.run pdb.run pdb.runeval"
)
SECRET_IMPORTS = Lazy(r"(?:hermes|hermes_cli|tools)\.approval|(?:hermes|hermes_cli)\.(?!__)")
AGENT = Lazy(r"(?:hermes|hermes_cli)(?:\.|$)")
LOADS = marks.names("__import__ importlib.import_module runpy.run_module runpy._run_module_as_main")
LOOKS = marks.names("__version__ __file__ __doc__ __name__ __path__")
# What runs commands or deletes: to hand one of these on is to call it with what cannot be followed.
ACTS = SHELL | RUN | TREES | REMOVES | STARTS
ASKS = marks.names(
    "print help type repr callable hasattr dir id str isinstance inspect.signature inspect.getsource"
)
LONGEST = 10_000  # a text or a list that is put together
TURNS = 2_000  # calls in loops that are judged with each value
SHORT = frozenset(one.rpartition(".")[2] for one in ACTS)
# Methods of clients of databases, queues and clouds.
CLEARS = Lazy(
    r"flush(?:all|db)|prune_\w+|drop_(?:all|database|collection|table|index)|truncate_\w+|purge_\w+|terminate_\w+|"
    r"delete_(?:many|bucket|objects?|table|stack|db_\w+|instances?|namespace\w*|collection\w*|cluster|topics?|"
    r"queue|user|role|function|volume|snapshot|image|secret|repository|hosted_zone)"
)
GROWS = frozenset(("append", "extend", "insert", "remove", "pop", "clear", "reverse", "sort"))
BUILTINS = frozenset(("__builtins__", "builtins", "__builtin__"))
HANDED = ACTS | {"exec", "eval"}
LOADERS = marks.names("yaml.UnsafeLoader yaml.Loader yaml.CLoader")
# Objects of these run commands by their methods, here or elsewhere.
REMOTES = frozenset(("fabric", "fabric2", "invoke"))
# Modules of which some functions run commands or delete.
DANGEROUS = BUILTINS | frozenset(("os", "posix", "subprocess", "shutil", "pty", "importlib"))
