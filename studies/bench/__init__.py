"""Speed and memory beside peers and the machine's own limits; ``docs/speed.md``."""
