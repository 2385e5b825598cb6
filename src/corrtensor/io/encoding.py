"""Fitted models as JSON and arrays, and back: what a model file may hold, and nothing else.

A value that JSON has (``None``, a bool, an int, a finite float, a string) stands for itself; any
other is an object with one key that says what it is, see ``docs/model-files.md``. Classes are
looked up in the two tables below, never by a name that a file brings.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

ESTIMATORS: Mapping[str, str] = MappingProxyType(
    {
        "CorrTensor": "corrtensor.corr_tensor",
        "MultilinearSubspace": "corrtensor.subspace",
        "L1TwoDPCA": "corrtensor.baselines",
        "TwoDNPP": "corrtensor.baselines",
        "CorrentropyCenterClassifier": "corrtensor.tasks",
        "SubspaceClassifier": "corrtensor.tasks",
        "DensityPeaksKMeans": "corrtensor.tasks",
        "TensorOutlierDetector": "corrtensor.tasks",
        "FrozenEstimator": "sklearn.frozen",
    }
)
RECORDS: Mapping[str, str] = MappingProxyType(
    {
        "Correntropy": "corrtensor.losses",
        "Power": "corrtensor.losses",
        "DecisionGraph": "corrtensor.tasks.density_peaks",
        "Normal": "corrtensor.tasks.profile",
        "Profile": "corrtensor.tasks.profile",
        "Spread": "corrtensor.tasks.table",
        "TableProfile": "corrtensor.tasks.table",
        "Frame": "corrtensor._robust.metric",
        "Metric": "corrtensor._robust.metric",
        "Stream": "corrtensor._engine.stream",
        "State": "corrtensor._engine.state",
        "Snapshot": "corrtensor._engine.state",
        "Labels": "corrtensor._engine.labels",
        "Group": "corrtensor._robust.verdict",
        "Completion": "corrtensor._robust.completion",
    }
)
# How a fit was watched and where it was kept on the way is no part of the model.
NOT_STORED = ("callback", "checkpoint", "verbose")
# Fitted attributes end in an underscore; these are the private ones that a model needs.
PRIVATE = ("_stream", "_sklearn_output_config")
ARRAY_KINDS = "biufcSUmM"


def _class_of(table: Mapping[str, str], name: Any) -> Any:
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"{name!r} is none of {', '.join(table)}")
    return getattr(import_module(table[name]), name)


def _listed(table: Mapping[str, str], value: Any) -> bool:
    name = type(value).__name__
    return name in table and type(value) is _class_of(table, name)


def encode(value: Any) -> tuple[Any, list[np.ndarray]]:
    """Return a value as something JSON can hold, and the arrays, each once, that it refers to.

    The value is an estimator of this package, or what its parameters and attributes may be.
    """
    encoder = _Encoder()
    return encoder.encode(value, type(value).__name__), encoder.arrays


class _Encoder:
    """Collects arrays on the way; one that occurs twice is stored once, and shared when read."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.places: dict[int, int] = {}

    def encode(self, value: Any, where: str) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), where)["array"]}
        if type(value) is tuple:
            return {"tuple": [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]}
        if type(value) is list:
            return {"list": [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]}
        if type(value) is dict:
            pairs = [[self.encode(k, where), self.encode(v, where)] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.encode(value.get_state(legacy=True), where)}
        if _listed(RECORDS, value) and is_dataclass(value):
            parts = {f.name: getattr(value, f.name) for f in fields(value)}
            return {"record": type(value).__name__, "fields": self._named(parts, where)}
        if _listed(ESTIMATORS, value):
            return self._estimator(value, where)
        raise TypeError(
            f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which a model file "
            f"cannot hold; it holds plain values, arrays, {', '.join([*ESTIMATORS, *RECORDS])}"
        )

    def _named(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        return {name: self.encode(value, f"{where}.{name}") for name, value in values.items()}

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        if value.dtype == object:
            items = self.encode(value.ravel().tolist(), where)["list"]
            return {"objects": items, "shape": list(value.shape)}
        if value.dtype.kind not in ARRAY_KINDS:
            raise TypeError(f"{where} is an array of {value.dtype}, which a model file cannot hold")
        if id(value) not in self.places:
            self.places[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return {"array": self.places[id(value)]}

    def _estimator(self, value: Any, where: str) -> dict[str, Any]:
        params = value.get_params(deep=False)
        stored = {k: v for k, v in params.items() if k not in NOT_STORED}
        state = {k: v for k, v in vars(value).items() if k not in params}
        return {
            "estimator": type(value).__name__,
            "params": self._named(stored, where),
            "state": self._named(state, where),
        }


def decode(tree: Any, arrays: list[np.ndarray]) -> Any:
    """Return the value that :func:`encode` was given, built from the classes of the tables alone.

    From a file, the tree may hold anything.
    """
    return _Decoder(arrays).decode(tree)


class _Decoder:
    """Builds values around the arrays."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays
        self.readers: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
            "float": lambda v, _: float(v),
            "array": lambda v, _: self.arrays[_place(v, self.arrays)],
            "scalar": lambda v, _: self.arrays[_place(v, self.arrays)][()],
            "objects": self._objects,
            "tuple": lambda v, _: tuple(self.decode(item) for item in v),
            "list": lambda v, _: [self.decode(item) for item in v],
            "dict": lambda v, _: {self.decode(key): self.decode(item) for key, item in v},
            "random_state": self._random_state,
            "record": self._record,
            "estimator": self._estimator,
        }

    def decode(self, tree: Any) -> Any:
        if not isinstance(tree, dict):
            if isinstance(tree, list):
                raise ValueError("a list without a key that says what it is")
            return tree
        kind = next(iter(tree), None)
        if kind not in self.readers:
            raise ValueError(f"a value of the unknown kind {kind!r}")
        return self.readers[kind](tree[kind], tree)

    def _objects(self, items: Any, tree: Mapping[str, Any]) -> np.ndarray:
        values = np.empty(len(items), dtype=object)
        values[:] = [self.decode(item) for item in items]
        return values.reshape(tree["shape"])

    def _random_state(self, state: Any, _: Mapping[str, Any]) -> np.random.RandomState:
        random = np.random.RandomState(0)
        random.set_state(self.decode(state))
        return random

    def _record(self, name: Any, tree: Mapping[str, Any]) -> Any:
        return _class_of(RECORDS, name)(**{k: self.decode(v) for k, v in tree["fields"].items()})

    def _estimator(self, name: Any, tree: Mapping[str, Any]) -> Any:
        value = _class_of(ESTIMATORS, name)(
            **{k: self.decode(v) for k, v in tree["params"].items()}
        )
        for attribute, content in tree["state"].items():
            public = attribute.endswith("_") and not attribute.startswith("_")
            if not public and attribute not in PRIVATE:
                raise ValueError(f"{name} has no attribute {attribute!r}")
            vars(value)[attribute] = self.decode(content)
        return value


def _place(index: Any, items: list[Any]) -> int:
    if type(index) is not int or not 0 <= index < len(items):
        raise ValueError(f"entry {index!r} of {len(items)}")
    return index
