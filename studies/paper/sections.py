"""Sections of the page on the paper: what each figure shows, in numbers from the records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from studies.pages import table
from studies.paper.figures import curve
from studies.paper.figures_tasks import accuracy_map, by_order
from studies.paper.subspaces import RIVALS
from studies.paper.tallies import Record, mean_of, pick
from studies.paper.verdicts import fig2_rows

__all__ = ["FIGURES"]

KINDS = {"noise": "Noise images added", "block": "Images partly covered"}
READINGS = ("as printed", "as printed, unit norm")


def fig1(records: Sequence[Record]) -> list[str]:
    """Say what the surfaces show."""
    tops = ", ".join(
        f"{r['result']['gamma']:.3f} at alpha = {r['parameters']['alpha']}"
        for r in sorted(pick(records), key=lambda r: r["parameters"]["alpha"])
    )
    return [
        "As in the paper: a cusp at alpha = 1, a bowl at 2, a flat floor with steep walls at 5.",
        f"Far out the loss levels off at the constant gamma: {tops}.",
    ]


def fig2(records: Sequence[Record]) -> list[str]:
    """Compare errors with those of a fit that is told who is good."""
    lines = [
        "Error of the good images. A one-sided method keeps all rows, so it stores several times",
        "as many numbers as a two-sided one of the same number of components, and its error is",
        "lower for that alone: compare ours with baselines of its own kind. *Ours* asks who is",
        "bad once, with `CorrTensor()` at its default ranks, and fits the others by least squares",
        "at the ranks asked for; *default* is `CorrTensor` at these ranks. The oracle is least",
        "squares on the truly good images. Baseline: the lowest of the six.",
        "",
    ]
    for kind, title in KINDS.items():
        rows = [
            [
                f"{row['npc']:g}",
                f"{row['as printed'] / row['oracle']:.2f}",
                f"{row['as printed, unit norm'] / row['oracle']:.2f}",
                f"{row['default'] / row['oracle']:.3f}",
                f"{row['ours'] / row['oracle']:.3f}",
                f"{row['ours, one-sided'] / row['oracle, one-sided']:.3f}",
                f"{row['ours, one-sided']:.3f}",
                f"{min(row[name] for name in RIVALS):.3f}",
            ]
            for row in fig2_rows(records, kind)
        ]
        head = ["NPC", "as printed", "unit norm", "default", "ours", "ours, one-sided"]
        lines += [
            f"{title}; the first five in times the oracle of their own kind, the last two errors:",
            "",
            *table([*head, "error of ours, one-sided", "best baseline"], rows),
            "",
        ]
    return lines[:-1]


def lowest(records: Sequence[Record], axis: str, **fixed: object) -> str:
    """Return where a curve is lowest, and its error there."""
    x, y = curve(records, "error", axis, **fixed)
    if not y:
        return "not run"
    i = min(range(len(y)), key=y.__getitem__)
    return f"{x[i]:g} (error {y[i]:.3f}; {max(y) / y[i]:.2f} times that at the worst {axis})"


def fig3(records: Sequence[Record]) -> list[str]:
    """Say at which alpha and beta the error is lowest."""
    varied = [r["case"]["npc"] for r in pick(records) if r["parameters"]["beta"] != 0.8]
    npc = varied[0] if varied else None
    rows = [
        [
            title,
            reading,
            lowest(records, "alpha", method=reading, outliers=kind, npc=npc, beta=0.8),
            lowest(records, "beta", method=reading, outliers=kind, npc=npc, alpha=1.6),
        ]
        for kind, title in KINDS.items()
        for reading in READINGS
    ]
    return [
        f"At {npc} components. The paper finds alpha = 1.6 best in both cases, and beta between",
        "0.5 and 7 (noise) or between 0.5 and 1 (block).",
        "",
        *table(["outliers", "reading", "best alpha at beta = 0.8", "best beta"], rows),
    ]


def fig4(records: Sequence[Record]) -> list[str]:
    """Say how many sweeps are needed."""
    rows = [
        [title, *(sweeps(records, name, kind) for name in (*READINGS, "default"))]
        for kind, title in KINDS.items()
    ]
    return [
        "Sweeps until the objective falls by less than a millionth and no projector turns; the",
        "paper has several. The default begins with the samples that lie apart left out.",
        "",
        *table(["outliers", *READINGS, "default"], rows),
    ]


def sweeps(records: Sequence[Record], method: str, kind: str) -> str:
    """Return the mean number of sweeps."""
    number = mean_of(pick(records, method=method, outliers=kind), "n_iter")
    return "-" if number is None else f"{number.mean:g}"


def fig5(records: Sequence[Record]) -> list[str]:
    """Say at which alpha and beta colour images are reconstructed best."""
    rows = [
        [
            reading,
            lowest(records, "alpha", method=reading, beta=0.8),
            lowest(records, "beta", method=reading, alpha=3.0),
        ]
        for reading in READINGS
    ]
    return [
        "The paper finds alpha = 3 and beta between 0.5 and 11 best, and alpha to matter more.",
        "",
        *table(["reading", "best alpha at beta = 0.8", "best beta at alpha = 3"], rows),
    ]


def fig6(records: Sequence[Record]) -> list[str]:
    """Say what the error does as the components grow."""
    x, y = curve(records, "error", "npc")
    said = ", ".join(f"{b:.3f} at {a:g}" for a, b in zip(x, y, strict=True))
    return [
        "The pages of this project show no face of a data set: its terms do not allow it. With",
        "`--data`, the same command draws the paper's person; here are pieces of a photograph in",
        f"the public domain. Mean squared error of all the good images: {said} components.",
    ]


def recognition(records: Sequence[Record], claim: str) -> list[str]:
    """Say where the accuracy is highest, and what p does."""
    alphas, betas, values = accuracy_map(records)
    best = divmod(int(np.nanargmax(values)), values.shape[1])
    worst = divmod(int(np.nanargmin(values)), values.shape[1])
    along = {
        cap: ", ".join(f"{m:.4f} at {p:g}" for p, m in zip(*by_order(records, cap), strict=True))
        for cap in (True, False)
    }
    return [
        claim,
        f"Measured: highest {values[best]:.4f} at alpha = {alphas[best[0]]:g}, beta = "
        f"{betas[best[1]]:g}; lowest {values[worst]:.4f} at alpha = {alphas[worst[0]]:g}, "
        f"beta = {betas[worst[1]]:g}. Against p, with the weight held flat below its peak "
        f"([method](method.md), 3.2): {along[True]}; without that, as printed: {along[False]}.",
    ]


def fig7(records: Sequence[Record]) -> list[str]:
    """Say where digits are recognised best."""
    sizes = sorted({r["case"]["train"] for r in records})
    return recognition(
        records,
        "The paper, with 2000 images of each digit: highest at alpha = 4, beta = 0.8, lowest at\n"
        "alpha = 1 for every beta; rising with p to 0.7874 at p = 10. Here with "
        f"{', '.join(f'{n:g}' for n in sizes)} of each.",
    )


def fig8(records: Sequence[Record]) -> list[str]:
    """Say where faces are recognised best."""
    return recognition(
        records,
        "The paper: highest, 0.5774, at alpha = 3.5; from 0.5580 at p = 2 to 0.5718 at p = 8.\n"
        "Under the reading by the norm (see Table II) the similarity does not depend on alpha,\n"
        "only the weights do, and they leave the noise images out at almost every setting.",
    )


def scores(records: Sequence[Record], metric: str) -> str:
    """Return a metric of every method, the best first."""
    found = {r["method"]: mean_of(pick(records, method=r["method"]), metric) for r in pick(records)}
    known = {name: number.mean for name, number in found.items() if number is not None}
    order = sorted(known, key=lambda name: -known[name])
    return ", ".join(f"{name} {known[name]:.2f}" for name in order)


def fig9(records: Sequence[Record]) -> list[str]:
    """Say how good the clusters from these centres are."""
    return [
        "Each image's density and its distance from the nearest denser one; diamonds are the",
        "starting centres; ours also tries random ones. AC of the clusters that grow from them: "
        f"{scores(records, 'accuracy')}.",
    ]


def fig10(records: Sequence[Record]) -> list[str]:
    """Say how good the clusters behind the squares are."""
    return [
        "Images ordered by the cluster found; lines part clusters. The paper does not say which",
        "similarity it draws: here exp(-d^2 / median of d^2) of the cores. NMI: "
        f"{scores(records, 'nmi')}.",
    ]


def fig11(records: Sequence[Record]) -> list[str]:
    """Say where the clusters are best."""
    lines = ["The paper: AC 0.9319 and NMI 0.9248 at alpha = 6, beta = 0.7, flat beyond."]
    for units in ("pixels", "unit norm"):
        chosen = pick(records, units=units)
        names = {r["method"] for r in chosen}
        found = {name: mean_of(pick(chosen, method=name), "accuracy") for name in names}
        known = {name: number.mean for name, number in found.items() if number is not None}
        if known:
            best = max(sorted(known), key=lambda name: known[name])
            low = min(known.values())
            lines.append(f"Measured, {units}: AC from {low:.2f} to {known[best]:.2f} ({best}).")
    return lines


FIGURES = {
    "fig1": ("Surfaces of the Corr-Loss", fig1),
    "fig2": ("Error against the number of components (Yale)", fig2),
    "fig3": ("Error against alpha and beta (Yale)", fig3),
    "fig4": ("Convergence (Yale)", fig4),
    "fig5": ("Colour: error against alpha and beta (LFW)", fig5),
    "fig6": ("Colour: reconstructions", fig6),
    "fig7": ("Recognition against alpha, beta and p (MNIST)", fig7),
    "fig8": ("Recognition against alpha, beta and p (LFW)", fig8),
    "fig9": ("Decision graphs (ORL)", fig9),
    "fig10": ("Similarity matrices (ORL)", fig10),
    "fig11": ("Clustering against alpha and beta (ORL)", fig11),
}
