"""From the parameters of a record to a subspace, and the rivals that every table has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corrtensor.corr_tensor import CorrTensor
from corrtensor.losses import Correntropy
from corrtensor.methods import METHODS, make
from corrtensor.subspace import MultilinearSubspace

__all__ = ["KEPT", "RIVALS", "build", "printed", "ranks_for", "rival"]

Settings = Mapping[str, Any]

RIVALS = ("2DPCA", "L1-2DPCA", "2DSVD", "R1-2DSVD", "N-2DNPP", "S-2DNPP")
# A sample of smaller weight in the first fit is left out of what follows.
KEPT = 0.5
PRINTED = "Corr"
CHANNELS = 3
# Steps of N-2DNPP and S-2DNPP: more cost minutes for each fit and move no table.
NPP_STEPS = 20


def ranks_for(npc: int, order: int = 2) -> list[int]:
    """Return the ranks that a number of principal components means: colours stay whole."""
    return [npc, npc] if order == 2 else [npc, npc, CHANNELS]


def rival(name: str, npc: int) -> dict[str, Any]:
    """Return the settings of a baseline."""
    ranks = npc if METHODS[name].one_sided else ranks_for(npc)
    steps = {"max_iter": NPP_STEPS} if name.endswith("NPP") else {}
    return {"name": name, "ranks": ranks, **steps}


def printed(
    npc: int,
    alpha: float,
    beta: float,
    *,
    p: float = 2.0,
    scale: str | None = None,
    order: int = 2,
    cap: bool = True,
) -> dict[str, Any]:
    """Return the settings of the paper's method: start from 2DSVD, beta in the data's units.

    With the cap, the weight is held flat below its peak (docs/method.md, 3.2); without it the
    sweeps of the paper's larger alphas need not converge.
    """
    return {
        "name": PRINTED,
        "ranks": ranks_for(npc, order),
        "alpha": alpha,
        "beta": beta,
        "p": p,
        "scale": scale,
        **({} if cap else {"cap": False}),
    }


def build(settings: Settings) -> Any:
    """Return the estimator that settings describe, not fitted yet.

    Parameters
    ----------
    settings : mapping
        ``name``: one of ``METHODS``, or ``"Corr"`` for the paper's own iteration; ``ranks``; all
        else goes to the estimator or, for ``"Corr"``, to the loss.

    Returns
    -------
    subspace : estimator
        To be fitted.
    """
    rest = {key: value for key, value in settings.items() if key not in ("name", "ranks")}
    ranks = settings["ranks"]
    ranks = tuple(ranks) if isinstance(ranks, list) else ranks
    if settings["name"] == PRINTED:
        return MultilinearSubspace(ranks, loss=Correntropy(**rest))
    if settings["name"] == "Corr-Tensor":
        return CorrTensor(ranks, **rest)
    return make(settings["name"], ranks, **rest)
