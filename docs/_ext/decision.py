"""The picture that leads from a problem to a method: drawn here, in the colours of the theme."""

from html import escape

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

WIDTH, LEFT, GAP, RIGHT, ROW, LINE = 452, 226, 44, 178, 92, 17
PAGE = "api/generated/corrtensor.{}.html"

# Question, what leads to the right, what leads down, the name at the right, words, address.
QUESTIONS = [
    (["Can some samples, or some", "of their cells, be spoiled?"], "no", "yes", "make(\"MPCA\")",
     "or scikit-learn's PCA", PAGE.format("make")),
    (["Are single cells bad,", "and not whole samples only?"], "yes", "no",
     "cells=True", "doubts every cell", PAGE.format("CorrTensor")),
    (["Are there clean classes that", "have nothing in common?"], "yes", "no",
     "breakdown=0.1", "below the smallest share", PAGE.format("CorrTensor")),
    (["Then what lies apart from", "the others does not count."], "", "",
     "CorrTensor(ranks)", "the default", PAGE.format("CorrTensor")),
]  # fmt: skip
WANTS = [
    (["features, clean", "reconstructions"], "CorrTensor", "fit, transform"),
    (["bad and missing", "cells filled"], "CorrTensor.repair", "or corrtensor repair"),
    (["the list of", "the bad ones"], "TensorOutlierDetector", "or corrtensor outliers"),
    (["classes"], "SubspaceClassifier", "trained with outliers in"),
    (["clusters"], "DensityPeaksKMeans", "of the cores, by weight"),
]


def words(x, y, lines, css="", size=13.5, anchor="middle"):
    """Return lines of text centred about a point."""
    first = y - LINE * (len(lines) - 1) / 2 + 4.5
    return "".join(
        f'<text x="{x}" y="{first + LINE * i:.1f}" class="{css}" font-size="{size}" '
        f'text-anchor="{anchor}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )


def box(x, y, width, height, css):
    """Return a rectangle with round corners."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" class="{css}"/>'


def arrow(x1, y1, x2, y2):
    """Return an arrow, to the right or down."""
    head = (
        f"{x2},{y2} {x2 - 7},{y2 - 4} {x2 - 7},{y2 + 4}"
        if y1 == y2
        else f"{x2},{y2} {x2 - 4},{y2 - 7} {x2 + 4},{y2 - 7}"
    )
    return f'<path d="M{x1} {y1}L{x2} {y2}" class="arrow"/><polygon points="{head}" class="head"/>'


def answer(y, name, note, address):
    """Return the answer of a row, which leads to its page."""
    x = LEFT + GAP + 2
    text = words(x + RIGHT / 2, y - 8, [name], "name", 13.5)
    text += words(x + RIGHT / 2, y + 11, [note], "say", 11.5)
    return f'<a href="{address}">{box(x, y - 26, RIGHT, 52, "answer")}{text}</a>'


def draw():
    """Return the picture as SVG."""
    parts, y = [], 34
    for i, (question, right, down, *rest) in enumerate(QUESTIONS):
        parts += [box(2, y - 28, LEFT, 56, "question"), words(2 + LEFT / 2, y, question)]
        parts += [arrow(LEFT + 2, y, LEFT + GAP + 1, y), answer(y, *rest)]
        parts.append(words(LEFT + 21, y - 9, [right], "say", 12))
        if i < len(QUESTIONS) - 1:
            parts.append(arrow(2 + LEFT / 2, y + 28, 2 + LEFT / 2, y + ROW - 29))
            parts.append(words(2 + LEFT / 2 + 18, y + ROW / 2, [down], "say", 12))
            y += ROW
    y += 66
    parts.append(words(2, y - 8, ["And what do you want to have?"], "name", 14, "start"))
    for want, name, note in WANTS:
        y += 36
        parts += [words(2 + LEFT / 2, y, want), arrow(LEFT - 22, y, LEFT + GAP + 1, y)]
        owner, _, method = name.partition(".")
        anchor = f"#corrtensor.{name}" if method else ""
        parts.append(answer(y, name, note, PAGE.format(owner) + anchor))
        y += 28
    title = "Which method: four questions about the samples, then what you want to have"
    return (
        f'<div class="decision"><svg viewBox="0 0 {WIDTH} {y + 4}" role="group" '
        f'xmlns="http://www.w3.org/2000/svg" aria-label="{title}">{"".join(parts)}</svg></div>'
    )


class DecisionPicture(SphinxDirective):
    """``.. decision-picture::``: the picture of ``choosing.md``."""

    def run(self):
        """Return the picture."""
        self.env.note_dependency(__file__)
        return [nodes.raw("", draw(), format="html")]


def setup(app):
    """Register the directive."""
    app.add_directive("decision-picture", DecisionPicture)
    return {"parallel_read_safe": True}
