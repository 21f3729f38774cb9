"""What a sandbox may know of this machine's secrets: as little as possible, and nothing by accident.

``_home`` keeps hermes's home private, ``_declared`` knows what may travel, ``supply`` brings it into a
sandbox and keeps it fresh there, ``scrub`` takes it out of what comes back.
"""
