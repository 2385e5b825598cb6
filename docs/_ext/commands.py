"""Directives that show what the program says itself: its help, and its table of methods."""

import os
import re

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from typer.testing import CliRunner

import corrtensor as ct
from corrtensor.cli import build_app

WIDTH = 80


def help_of(*command):
    """Return what ``corrtensor COMMAND --help`` prints on a terminal of 80 columns."""
    os.environ.update(COLUMNS=str(WIDTH), TERMINAL_WIDTH=str(WIDTH), NO_COLOR="1", TERM="dumb")
    result = CliRunner().invoke(build_app(), [*command, "--help"], prog_name="corrtensor")
    if result.exit_code:
        raise RuntimeError(f"corrtensor {' '.join(command)} --help: {result.output}")
    lines = (line.rstrip() for line in result.output.splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


class CommandHelp(Directive):
    """``.. command-help:: fit``: the help of a command, as printed."""

    optional_arguments = 1

    def run(self):
        """Return the block."""
        text = help_of(*self.arguments)
        block = nodes.literal_block(text, text, language="text", classes=["terminal"])
        return [block]


class MethodTable(Directive):
    """``.. method-table::``: the rows of ``corrtensor.METHODS``."""

    def run(self):
        """Return the table."""
        lines = [".. list-table::", "   :header-rows: 1", "", "   * - name", "     - what it is"]
        for name, method in ct.METHODS.items():
            lines += [f"   * - ``{name}``", f"     - {method.summary}"]
        node = nodes.container()
        self.state.nested_parse(StringList([*lines, ""], "METHODS"), self.content_offset, node)
        return node.children


def setup(app):
    """Register the directives."""
    app.add_directive("command-help", CommandHelp)
    app.add_directive("method-table", MethodTable)
    return {"parallel_read_safe": True}
