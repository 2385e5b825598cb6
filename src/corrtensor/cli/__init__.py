"""The command line: parses, calls, prints.

Whatever is slow to import is imported by the command that needs it, so that ``--help`` answers
at once. Exit codes: 0 done, 1 the data cannot be used, 2 the call is wrong.
"""

import sys
from typing import Any

from corrtensor.cli import demo, output

__all__ = ["build_app", "main"]


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        import typer  # noqa: F401
    except ImportError:
        print(
            "The command line needs typer and rich: pip install 'corrtensor[cli]'", file=sys.stderr
        )
        raise SystemExit(2) from None
    output.stop_on_signals()
    build_app()(prog_name="corrtensor")


def build_app() -> Any:
    """Return the command-line application."""
    import typer

    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def corrtensor() -> None:
        """Find the structure of a stack of images or tensors, and the outliers in it."""

    from corrtensor.cli import classify, cluster, fit_transform, info, outliers, repair, report

    for group in (fit_transform, repair, info, outliers, cluster, classify, report, demo):
        group.add_commands(app)
    return app
