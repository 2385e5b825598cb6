"""Inputs that fuzzing found are read again: only documented errors, and all that they reached."""

import json
from pathlib import Path

import pytest

from tests import fuzz

DOCS = Path(__file__).parents[1] / "docs"


def kept(reader):
    return [path.read_bytes() for path in sorted((fuzz.CORPUS / reader).iterdir())]


@pytest.mark.parametrize("reader", fuzz.READERS)
def test_the_corpus_is_read_or_refused(reader, tmp_path):
    became = [fuzz.try_input(reader, content, tmp_path) for content in kept(reader)]
    assert set(became) == {"read", "refused"}


@pytest.mark.parametrize("reader", fuzz.READERS)
def test_the_corpus_reaches_most_of_its_reader(reader):
    reached, lines = fuzz.coverage(reader, kept(reader))
    assert len(reached) > 0.85 * len(lines), sorted(line for _, line in lines - reached)


def test_an_undocumented_error_comes_through(tmp_path, monkeypatch):
    def broken(path):
        raise ZeroDivisionError

    monkeypatch.setitem(fuzz.ENTRY, "matlab", ("x.mat", broken, bytes))
    with pytest.raises(ZeroDivisionError):
        fuzz.try_input("matlab", b"", tmp_path)


@pytest.mark.parametrize("reader", ["model", "checkpoint"])
def test_inputs_stand_for_files(reader, tmp_path):
    """Or nothing would get past the sums."""
    became = [fuzz.try_input(reader, content, tmp_path) for content in fuzz.seeds(reader)]
    assert became[0] == "read"
    assert became[-4:] == ["refused"] * 4


def test_the_page_quotes_the_record():
    figures = json.loads((DOCS / "records" / "fuzz.json").read_text(encoding="utf-8"))
    assert set(figures["readers"]) == set(fuzz.READERS)
    assert all(row["crashes"] == [] for row in figures["readers"].values())
    assert fuzz.table(figures) in (DOCS / "reliability.md").read_text(encoding="utf-8")
