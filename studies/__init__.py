"""Studies of the library by its own project: not installed, run from a clone. See the README."""
