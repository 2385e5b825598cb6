"""The report page: one HTML file that needs nothing else, not even a network."""

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from corrtensor._base.files import replacing
from corrtensor._engine.containers import bare
from corrtensor.report.contents import check_request, page_data


def write_page(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    *,
    names: Sequence[object] | None = None,
    labels: Sequence[object] | None = None,
    clusters: Any = None,
    title: str | None = None,
    most: int = 50,
) -> Path:
    """Write a page about a fitted model and samples: one file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Where to write; an older file is replaced.
    model : estimator
        A fitted subspace, such as :class:`corrtensor.CorrTensor`.
    X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
        Samples, those of the fit or others. Arrays on disk are read block by block.
    names : sequence of str, default=None
        A name for each sample, such as its file's; by default its number, from 0.
    labels : sequence, default=None
        What each sample is said to be.
    clusters : DensityPeaksKMeans, default=None
        Clusters of these samples, fitted.
    title : str, default=None
        Heading of the page.
    most : int, default=50
        How many of the most unusual samples the table holds.

    Returns
    -------
    path : Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import corrtensor as ct
    >>> from corrtensor.report.page import write_page
    >>> X, _ = ct.datasets.dummy_outliers(ct.datasets.load_faces().images[:60], 6, rng=0)
    >>> model = ct.CorrTensor(ranks=(8, 8)).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_page(Path(folder) / "faces.html", model, X, title="Sixty faces")
    ...     page.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    X = bare(X, model)
    shape = getattr(X, "shape", None)
    n = len(X) if shape is None else int(shape[0])
    request = check_request(n, names, labels, clusters, title, most)
    text = render("page", page_data(model, X, request))
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    return Path(path)


def render(name: str, data: dict[str, Any]) -> str:
    """Fill a template; all that comes from the data is escaped."""
    try:
        from jinja2 import BaseLoader, Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError(
            f"report pages need Jinja: pip install 'corrtensor[report]' ({error})"
        ) from error
    folder = files("corrtensor.report") / "templates"
    read = {
        end: (folder / file).read_text(encoding="utf-8")
        for end, file in (("css", "page.css"), ("theme", "theme.js"), ("js", f"{name}.js"))
    }
    js = read["theme"] + read["js"]
    environment = Environment(
        loader=BaseLoader(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.from_string((folder / f"{name}.html").read_text(encoding="utf-8"))
    return template.render(
        **data,
        css=Markup(read["css"]),  # noqa: S704
        js=Markup(js),  # noqa: S704
        policy=policy(read["css"], js),
        version=version("corrtensor"),
    )


def policy(css: str, js: str) -> str:
    """Return a content security policy: this style, this script, pictures inside the page.

    With the hashes of both, nothing that a file name might smuggle in can run, and nothing can
    be fetched or sent.
    """

    def hashed(text: str) -> str:
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    return (
        f"default-src 'none'; img-src data:; style-src {hashed(css)}; script-src {hashed(js)}; "
        "base-uri 'none'; form-action 'none'"
    )
