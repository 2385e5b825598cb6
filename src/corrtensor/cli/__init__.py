"""The command line: parses, calls, prints.

Whatever is slow to import is imported by the command that needs it, so that ``--help`` answers
at once. Exit codes: 0 done, 1 the data cannot be used, 2 the call is wrong, 128 + signal stopped.
"""

import sys
from importlib.metadata import version
from typing import Any

from corrtensor.cli import output

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

    from corrtensor.cli import (
        classify,
        cluster,
        demo,
        fit_transform,
        info,
        outliers,
        repair,
        report,
    )

    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def tell_version(asked: bool) -> None:
        if asked:
            print(f"corrtensor {version('corrtensor')}")
            raise typer.Exit

    @app.callback()
    def corrtensor(
        _: bool = typer.Option(
            False, "--version", callback=tell_version, is_eager=True, help="Print it and exit."
        ),
    ) -> None:
        """Find the structure of a stack of images or tensors, and the outliers in it."""

    commands: list[Any] = [fit_transform.fit, fit_transform.transform, fit_transform.reconstruct]
    commands += [repair.repair, info.info, outliers.outliers, outliers.restore]
    commands += [cluster.cluster, classify.classify, report.report, demo.demo]
    for command in commands:
        app.command()(command)
    return app
