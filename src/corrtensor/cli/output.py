"""What the commands say, and how."""

import sys


def complain(message: str) -> None:
    """Print an error."""
    print(f"corrtensor: {message}", file=sys.stderr)
