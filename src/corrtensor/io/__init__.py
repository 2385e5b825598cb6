"""Samples from files: folders of images, arrays, tables, multi-page TIFF, video; and into files.

Model files are read and written here, too.
"""

from corrtensor.io.opening import SUFFIXES, open_labels, open_samples
from corrtensor.io.stack import InputError, Skipped, Stack

__all__ = ["SUFFIXES", "InputError", "Skipped", "Stack", "open_labels", "open_samples"]
