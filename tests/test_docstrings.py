"""Docstrings of public names, by numpydoc's own validation."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
from numpydoc.validate import validate

import corrtensor as ct

PARAMETERS = Path(__file__).parents[1] / "docs" / "parameters.md"
# As in scikit-learn: what is returned may have a name, and text may begin on either line.
IGNORED = {"RT02", "GL01", "GL02"}
# Asked of classes and functions, not of methods: an example, further words, and what to see also.
TOP_LEVEL = {"EX01", "ES01", "SA01"}
# One line may say all that a function does, and its module what is beside it.
NOT_OF_FUNCTIONS = {"ES01", "SA01"}
# A protocol is never called.
PROTOCOLS = {"corrtensor.losses.Loss"}
ALSO = ["baselines.L1TwoDPCA", "baselines.TwoDNPP", "io.open_samples", "report.write_page"]
ALSO += ["clusters.connect", "clusters.spread"]


def public_names():
    """Yield public names in the way that users write them."""
    for name in ct.__all__:
        value = getattr(ct, name)
        if inspect.ismodule(value):
            yield from (f"corrtensor.{name}.{member}" for member in value.__all__)
        elif callable(value):
            yield f"corrtensor.{name}"
    yield from (f"corrtensor.{name}" for name in ALSO)


def find(name):
    """Return the object of a name."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def methods(cls):
    """Yield the public methods and properties of a class that the package defines."""
    for name, member in inspect.getmembers(cls):
        function = inspect.unwrap(member.fget if isinstance(member, property) else member)
        home = getattr(function, "__module__", None) or ""
        # What a base class says once holds for those that are derived from it.
        inherited = function.__doc__ is None and inspect.getdoc(member)
        if name.startswith("_") or not callable(function) or inherited:
            continue
        if home.startswith("corrtensor"):
            yield name


NAMES = sorted(public_names())
CLASSES = [name for name in NAMES if inspect.isclass(find(name))]
METHODS = [f"{name}.{method}" for name in CLASSES for method in methods(find(name))]


def faults(name, ignored):
    """Return what numpydoc objects to."""
    return [fault for fault in validate(name)["errors"] if fault[0] not in ignored]


def test_the_names_are_there():
    assert {"corrtensor.CorrTensor", "corrtensor.losses.Power", "corrtensor.make"} <= set(NAMES)
    assert "corrtensor.CorrTensor.fit" in METHODS
    assert "corrtensor.CorrTensor.set_params" not in METHODS
    assert "corrtensor.losses.Loss.value" in METHODS
    assert inspect.getdoc(find("corrtensor.losses.Power").value).startswith("Return phi(s).")


@pytest.mark.parametrize("name", NAMES)
def test_public_names(name):
    ignored = IGNORED if name in CLASSES else IGNORED | NOT_OF_FUNCTIONS
    if name in PROTOCOLS:
        ignored = IGNORED | {"PR01"}
    assert not faults(name, ignored)


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    assert not faults(name, IGNORED | TOP_LEVEL)


def test_faults_are_found():
    """The tests above would pass if the validation saw nothing."""
    codes = {code for code, _ in validate("corrtensor._base.checks.require_positive")["errors"]}
    assert {"PR01", "EX01"} <= codes


SHARED = ["ranks", "order", "sample_shape", "max_iter", "tol", "n_jobs", "block_size"]
SHARED += ["callback", "checkpoint", "sample_dim", "output", "verbose", "missing_values"]


def test_shared_parameters_are_said_alike():
    """As in scikit-learn: the same words everywhere, and at length in docs/parameters.md."""
    testing = pytest.importorskip("sklearn.utils._testing")
    check = getattr(testing, "assert_docstring_consistency", None)
    if check is None:
        pytest.skip("this scikit-learn cannot compare docstrings")
    check([ct.CorrTensor, ct.MultilinearSubspace], include_params=SHARED)
    baselines = [find(f"corrtensor.baselines.{name}") for name in ("L1TwoDPCA", "TwoDNPP")]
    check(baselines, include_params=["rank", "sample_shape", "sample_dim", "output"])
    said = re.findall(r"(?m)^([a-z_]+)\n  \S", PARAMETERS.read_text(encoding="utf-8"))
    assert sorted(said) == sorted(SHARED)
