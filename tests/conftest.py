"""Shared data: small stacks with a planted subspace, and the folder of the real ones."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

SHAPES = {1: (12,), 2: (8, 7), 3: (6, 5, 4), 4: (5, 4, 3, 3)}
RANKS = {1: (3,), 2: (3, 2), 3: (2, 2, 2), 4: (2, 2, 2, 1)}


def pytest_addoption(parser):
    parser.addoption("--brief", action="store_true", help="nothing but failures and the sum")


def pytest_configure(config):
    """With workers beside each other, one thread of BLAS each: more would wait for one another.

    What hangs on several threads of BLAS asks for them itself; ``make test-kernels`` runs the
    numeric tests with two.
    """
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_report_teststatus(report, config):
    if config.getoption("--brief") and report.when == "call" and report.passed:
        return "passed", "", ""
    if config.getoption("--brief") and report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped", "", ""
    return None


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_setupnodes(config):
    """Say nothing of workers that come up; those that go down are told."""
    reporter = config.pluginmanager.getplugin("terminaldistreporter")
    if config.getoption("--brief") and reporter is not None:
        reporter.ensure_show_status = lambda: None


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


def planted(order, n=60, n_bad=8, noise=0.05, seed=0):
    """Samples near a subspace of rank ``RANKS[order]``; the first ``n_bad`` are noise instead.

    Directions of a mode differ in strength, so that every eigenvalue is alone.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, *RANKS[order]))
    for mode, (a, k) in enumerate(zip(SHAPES[order], RANKS[order], strict=True), start=1):
        U = orthonormal(rng, a, k) * 2.0 ** -np.arange(k)
        X = np.moveaxis(np.tensordot(X, U, axes=(mode, 1)), -1, mode)
    X += 0.3 * rng.normal(size=SHAPES[order]) + noise * rng.normal(size=X.shape)
    X[:n_bad] = rng.normal(size=(n_bad, *SHAPES[order]))
    return X


@pytest.fixture(scope="session")
def make_samples():
    """The function that draws planted samples of an order."""
    return planted


@pytest.fixture(scope="session")
def ranks_of():
    """The ranks of the planted subspace of each order."""
    return RANKS


@pytest.fixture
def images():
    """Sixty 8 x 7 matrices of ranks (3, 2), the first eight of them noise."""
    return planted(2)


@pytest.fixture
def clean_images():
    """Sixty 8 x 7 matrices of ranks (3, 2)."""
    return planted(2, n_bad=0)


@pytest.fixture(scope="session")
def data_dir():
    """The folder of the real data sets: ``CORRTENSOR_DATA``, or beside the project."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CORRTENSOR_DATA", beside))
    if not (folder / "yale.npz").is_file():
        pytest.skip(f"no real data in {folder}")
    return folder


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


@pytest.fixture
def call_study(capsys):
    """Call the main function of a study as its command line does."""

    def call(main, *arguments):
        try:
            code = main(list(arguments))
        except SystemExit as stopped:
            code = stopped.code
        return Answer(code or 0, *capsys.readouterr())

    return call
