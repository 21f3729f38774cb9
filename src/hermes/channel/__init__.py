"""The host's end of the channel to a guest: boot it, speak to it, find it again after a break."""
