"""What the records say about the paper's claims and about our own bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.paper.subspaces import RIVALS
from studies.paper.tables import OURS, at, best_printed, rows_of
from studies.paper.tallies import Number, Record, Studies, column_of, mean_of, pick, small

__all__ = ["Verdict", "fig2_rows", "verdicts"]

TABLE1_BAR, TABLE2_BAR, TABLE3_BAR, ORACLE_BAR = 0.94, 0.75, 0.95, 1.02
TABLE2_COLUMN = 0.7
ALPHAS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Verdict:
    """A claim, what was measured, and whether it holds."""

    claim: str
    measured: str
    holds: bool

    def row(self) -> list[str]:
        """Return the line of a table."""
        return [self.claim, self.measured, "**holds**" if self.holds else "does not hold"]


def columns_of(records: Sequence[Record]) -> list[float]:
    """Return the columns of a table."""
    return sorted({column_of(r) for r in records})


def best(records: Sequence[Record], rows: Sequence[str], column: float, metric: str) -> float:
    """Return the best of some rows in a column."""
    numbers = [at(pick(records, method=row), column, metric) for row in rows]
    return max((n.mean for n in numbers if n is not None), default=float("nan"))


def joined(values: Sequence[float], digits: int = 3) -> str:
    """Return numbers along the columns."""
    return " / ".join(f"{value:.{digits}f}" for value in values)


def beats_printed(where: str, records: Sequence[Record], metric: str) -> Verdict | None:
    """Say whether ours is above the best printed cell of every column."""
    columns = columns_of(records)
    paper = [best_printed(where, column, metric) for column in columns]
    if any(value is None for value in paper):
        return None
    ours = [best(records, OURS, column, metric) for column in columns]
    name = "AC" if metric == "accuracy" else "NMI"
    printed = [value for value in paper if value is not None]
    return Verdict(
        f"ours above the best printed {name} in every column ({joined(printed)})",
        joined(ours),
        all(mine > theirs for mine, theirs in zip(ours, printed, strict=True)),
    )


def above_rivals(where: str, records: Sequence[Record]) -> Verdict:
    """Say whether the best printed setting of the paper's method is above all six baselines."""
    rows = [row for row in rows_of(where) if row not in RIVALS]
    gains = [
        best(records, rows, column, "accuracy") - best(records, RIVALS, column, "accuracy")
        for column in columns_of(records)
    ]
    return Verdict(
        "as printed: the paper's method above all six baselines in every column",
        f"by {joined(gains)}",
        all(gain > 0 for gain in gains),
    )


def alpha_order(records: Sequence[Record]) -> Verdict:
    """Say whether Table I rises up to alpha = 4 and is lower at 5."""
    columns = columns_of(records)
    right = 0
    for column in columns:
        values = [
            at(pick(records, method=f"alpha={alpha}, beta=0.8"), column, "accuracy")
            for alpha in ALPHAS
        ]
        v = [n.mean for n in values if n is not None]
        right += len(v) == 5 and v[0] < v[1] < v[2] < v[3] > v[4]
    return Verdict(
        "as printed: accuracy rises up to alpha = 4 and is lower at 5",
        f"in {right} of {len(columns)} columns",
        right == len(columns),
    )


def error_at(records: Sequence[Record], method: str, kind: str, npc: int) -> Number | None:
    """Return the mean error of a method in Fig. 2."""
    return mean_of(pick(records, method=method, outliers=kind, npc=npc), "error")


def fig2_rows(records: Sequence[Record], kind: str) -> list[dict[str, float]]:
    """Return for every number of components the errors of Fig. 2 that matter."""
    rows = []
    for npc in sorted({r["case"]["npc"] for r in records}):
        found = {
            name: error_at(records, name, kind, npc)
            for name in (
                *RIVALS, "default", "ours", "ours, one-sided", "oracle", "oracle, one-sided",
                "as printed", "as printed, unit norm",
            )
        }  # fmt: skip
        if all(number is not None for number in found.values()):
            known = {name: number.mean for name, number in found.items() if number is not None}
            rows.append({"npc": float(npc), **known})
    return rows


def near_oracle(records: Sequence[Record], name: str, kinds: Sequence[str]) -> Verdict:
    """Say whether ours stays near the fit that is told who is good."""
    oracle = name.replace("ours", "oracle")
    ratios = [row[name] / row[oracle] for kind in kinds for row in fig2_rows(records, kind)]
    worst = max(ratios, default=float("nan"))
    return Verdict(
        f"Fig. 2, {name}: at most {ORACLE_BAR:g} times the oracle at every number of components",
        f"at most {worst:.4f}",
        worst <= ORACLE_BAR,
    )


def below_rivals(records: Sequence[Record], kinds: Sequence[str]) -> Verdict:
    """Say whether ours is below all six baselines everywhere in Fig. 2."""
    shares = [
        row["ours, one-sided"] / min(row[name] for name in RIVALS)
        for kind in kinds
        for row in fig2_rows(records, kind)
    ]
    worst = max(shares, default=float("nan"))
    return Verdict(
        "Fig. 2, ours, one-sided: below all six baselines at every number of components",
        f"at most {worst:.3f} of the best baseline",
        worst < 1,
    )


def lowest_two_sided(records: Sequence[Record], kind: str, reading: str) -> Verdict:
    """Say whether the paper's own method has the lowest error of the two-sided ones."""
    rows = fig2_rows(records, kind)
    lower = sum(row[reading] < min(row["2DSVD"], row["R1-2DSVD"]) for row in rows)
    return Verdict(
        f"Fig. 2, {reading}, {kind}: below 2DSVD and R1-2DSVD at every number of components",
        f"at {lower} of {len(rows)}",
        lower == len(rows),
    )


def smaller_alpha(records: Sequence[Record]) -> Verdict:
    """Say whether alpha = 1.6 leaves a lower error than 2 in Fig. 3."""
    cells = sorted({(r["case"]["outliers"], r["case"]["npc"]) for r in records})
    lower = 0
    for kind, npc in cells:
        here = pick(records, method="as printed", outliers=kind, npc=npc, beta=0.8)
        small_one, two = (mean_of(pick(here, alpha=a), "error") for a in (1.6, 2.0))
        lower += small_one is not None and two is not None and small_one.mean < two.mean
    return Verdict(
        "Fig. 3, as printed: a lower error at alpha = 1.6 than at 2, every number of components",
        f"at {lower} of {len(cells)}, both kinds of outliers",
        lower == len(cells),
    )


def best_alpha(records: Sequence[Record]) -> Verdict:
    """Say whether alpha = 3 is best in Fig. 5."""
    chosen = pick(records, method="as printed", beta=0.8)
    alphas = sorted({r["parameters"]["alpha"] for r in chosen})
    means = {a: mean_of(pick(chosen, alpha=a), "error") for a in alphas}
    errors = {a: number.mean for a, number in means.items() if number is not None}
    found = min(errors, key=lambda a: errors[a])
    return Verdict(
        "Fig. 5, as printed: alpha = 3 is best at beta = 0.8", f"best at {found:g}", found == 3
    )


def verdicts(studies: Studies) -> list[Verdict]:
    """Return all that can be said from the records there are.

    Parameters
    ----------
    studies : mapping
        Records by study.

    Returns
    -------
    verdicts : list of Verdict
        In the order of the paper.
    """
    found: list[Verdict | None] = []
    # Bars and printed numbers are about the paper's data.
    known = {name for name, records in studies.items() if not small(records)}
    if "fig2" in studies:
        records, kinds = studies["fig2"], ("noise", "block")
        found += [near_oracle(records, name, kinds) for name in ("ours", "ours, one-sided")]
        found.append(below_rivals(records, kinds))
        found += [
            lowest_two_sided(records, kind, reading)
            for reading in ("as printed", "as printed, unit norm")
            for kind in kinds
        ]
    if "fig3" in known:
        found.append(smaller_alpha(studies["fig3"]))
    if "fig5" in known:
        found.append(best_alpha(studies["fig5"]))
    if "table1" in known:
        records = studies["table1"]
        ours = [best(records, OURS, column, "accuracy") for column in columns_of(records)]
        text = f"Table I, ours: at least {TABLE1_BAR:g} in every column"
        holds = all(value >= TABLE1_BAR for value in ours)
        found.append(Verdict(text, joined(ours), holds))
        found += [
            prefixed("Table I", beats_printed("table1", records, "accuracy")),
            prefixed("Table I", above_rivals("table1", records)),
            prefixed("Table I", alpha_order(records)),
        ]
    if "table2" in known:
        records = studies["table2"]
        value = best(records, OURS, TABLE2_COLUMN, "accuracy")
        text = f"Table II, ours: at least {TABLE2_BAR:g} at 70 %"
        found.append(Verdict(text, f"{value:.3f}", value >= TABLE2_BAR))
        found += [
            prefixed("Table II", beats_printed("table2", records, "accuracy")),
            prefixed("Table II", above_rivals("table2", records)),
        ]
    if "table3" in known:
        records = studies["table3"]
        ours = [best(records, OURS, column, "accuracy") for column in columns_of(records)]
        text = f"Table III, ours: an AC of at least {TABLE3_BAR:g} in every column"
        found.append(Verdict(text, joined(ours), all(value >= TABLE3_BAR for value in ours)))
        found += [
            prefixed("Table III", beats_printed("table3", records, metric))
            for metric in ("accuracy", "nmi")
        ]
        found.append(prefixed("Table III", above_rivals("table3", records)))
    return [verdict for verdict in found if verdict is not None]


def prefixed(where: str, verdict: Verdict | None) -> Verdict | None:
    """Return a verdict that names its table."""
    if verdict is None:
        return None
    return Verdict(f"{where}, {verdict.claim}", verdict.measured, verdict.holds)
