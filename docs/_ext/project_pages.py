"""Pages at the root of the project, shown in the site with their links turned."""

from pathlib import Path

# What links of CONTRIBUTING.md and CHANGELOG.md point to, and where that is in the site.
TURNED = {
    "](docs/decisions)": "](decisions/index.md)",
    "](docs/": "](",
    "](CHANGELOG.md)": "](changelog.md)",
    "](CONTRIBUTING.md)": "](contributing.md)",
}


def turn_links(app, relative_path, parent, content):
    """Turn the links of an included page."""
    if Path(relative_path).suffix != ".md":
        return
    for before, after in TURNED.items():
        content[0] = content[0].replace(before, after)


def setup(app):
    """Register the turning of links."""
    app.connect("include-read", turn_links)
    return {"parallel_read_safe": True}
