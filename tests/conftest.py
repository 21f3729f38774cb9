"""What every test gets; the plug-ins in `_plugins` say how."""

import hypothesis

pytest_plugins = [
    "_plugins.blocking",
    "_plugins.isolation",
    "_plugins.leaks",
    "_plugins.parts",
    "_plugins.pythons",
    "_plugins.transports",
    "pytester",
]

# A busy machine is no failure: a test's own time limit is the bound. The same code gets the same examples, so
# that a run of all tests tells of the change alone; `--hypothesis-profile=search` looks for new ones.
hypothesis.settings.register_profile("hermes", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None, print_blob=True, derandomize=False)
hypothesis.settings.load_profile("hermes")
