"""Why a sample is odd, in words: only what was measured, the one or two things that stand out."""

import math

import numpy as np

UNSEEN = "no cell is seen"
NO_REASON, UNLIKE = "unusual, no single reason", "unlike all others"
# Something is said of samples beyond this share of the cut.
NEAR = 0.5
# Robust standard deviations at which something stands out, and how much darker is dark.
CLEAR, FAR = 3.0, 3.5
# The same of the share of a picture that is flat: nearly a quarter more than its likes have.
COVERED = 1.5
# A contrast this many times less than usual is next to none; and how far below the usual
# brightness what is faint is dark.
NEXT_TO_NONE, DARKER = 100.0, 2.0
# The other columns tell something if a cell is so many times as far off beside them as by itself.
MORE = 1.1
TURNED = ("turned by 90°", "upside down", "turned by 90°", "negative")


def reasons(measured: dict[str, np.ndarray], cut: float) -> list[tuple[str, ...]]:
    """Return for each sample what stands out: of outliers, and of what comes near to them."""
    said = []
    for i, score in enumerate(measured["score"].tolist()):
        near = score > NEAR * cut
        words = in_words({name: values[i] for name, values in measured.items()}) if near else ()
        said.append(words or ((NO_REASON,) if score > cut else ()))
    return said


def in_words(one: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return the one or two things that stand out of one sample, the clearest first."""
    if one["unseen"]:
        return (UNSEEN,)
    if "together" in one:
        return of_a_row(one)
    if one["faint"] > math.log(NEXT_TO_NONE):
        return ("nearly constant",)
    # A sample was turned if turning it back takes away most of what makes it unlike the others.
    turn = float(one["turn"]) if one["righted"] < one["likeness"] / 2 else 0.0
    turned = TURNED[-len(one["turned"]) :][int(one["turned"].argmax())]
    candidates = [
        (turn, CLEAR, turned),
        (float(one["detail"]), CLEAR, "noise-like"),
        (-float(one["detail"]), CLEAR, "blurred"),
        (float(one["cover"]), COVERED, "partly covered"),
        (float(one["level"]), FAR, "bright"),
        (-float(one["level"]), FAR, "dark"),
        (float(one["contrast"]), FAR, "high contrast"),
        (-float(one["contrast"]), FAR, "dark" if one["level"] < -DARKER else "faint"),
        (float(one["likeness"]), CLEAR, UNLIKE),
    ]
    clear = sorted((c for c in candidates if c[0] > c[1]), key=lambda c: -c[0] / c[1])
    # What is dark is dark by both its brightness and its contrast, and that is one reason. Without
    # contrast there is no detail either, and what was turned is unlike the others by that.
    words = dict.fromkeys(words for _, _, words in clear)
    for one_reason, other in (("dark", "blurred"), ("faint", "blurred"), (turned, UNLIKE)):
        if one_reason in words:
            words.pop(other, None)
    return tuple(words)[:2]


def of_a_row(one: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return the same of a row of a table, and the column that is the farthest off."""
    size, together = float(one["size"]), float(one["together"])
    words = []
    if size > FAR:
        words.append(f"unusual size: {one['largest']}")
    if together > max(FAR, MORE * size):
        words.insert(0, f"unlike the others in how columns go together: {one['apart']}")
    return tuple(words)
