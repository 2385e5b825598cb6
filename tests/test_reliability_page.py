"""The page on reliability says what the record of the long run says."""

import json
import re
from pathlib import Path

import pytest

from studies.torture.faults import FAULTS
from studies.torture.reading import READERS
from studies.torture.table import torture_table

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def figures():
    return json.loads((DOCS / "records" / "torture.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page():
    return (DOCS / "reliability.md").read_text(encoding="utf-8")


def test_the_page_quotes_the_record(page, figures):
    assert torture_table(figures) in page


def test_the_record_is_of_a_long_run_without_failures(figures):
    assert figures["inputs"] >= 100_000
    assert figures["failures"] == 0
    assert set(figures["readers"]) == set(READERS)
    assert set(figures["injected"]) == set(FAULTS)
    assert figures["load"]["growth"] < 4 << 20


def test_the_tests_it_names_exist(page):
    named = re.findall(r"`(test_\w+\.py)`", page)
    assert named
    assert all((DOCS.parent / "tests" / name).is_file() for name in named)
