"""The site: ``make docs``. A page that is looked at fetches nothing from elsewhere."""

import importlib.util
import os
import sys
from pathlib import Path

from sphinx.util.fileutil import copy_asset_file

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent / "src"))
# Examples of fits run beside one another on small machines; figures need no screen.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "agg"

import corrtensor  # noqa: E402

project = "corrtensor"
author = "The corrtensor developers"
copyright = author
version = release = corrtensor.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "commands",
    "decision",
    "own_members",
    "project_pages",
]
exclude_patterns = ["_build", "_ext", "_templates", "records", "**.ipynb"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
add_module_names = False
toc_object_entries_show_parents = "hide"

# MathJax draws with paths: one file, no fonts, and it follows the colours of the theme.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"svg": {"fontCache": "local"}, "options": {"enableMenu": False}}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("corrtensor",),
    "reference_url": {"corrtensor": None},
    "matplotlib_animations": False,
    "image_srcset": ["2x"],
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "corrtensor"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {
        "text": "corrtensor",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
    },
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 5,
    "show_nav_level": 2,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
PAGES_WITHOUT_SECTIONS = ("index", "start", "choosing", "command-line", "changelog", "contributing")
html_sidebars = {page: [] for page in PAGES_WITHOUT_SECTIONS}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def copy_mathjax(app, error):
    """Copy the one file of MathJax that pages load."""
    if error is None and app.builder.format == "html":
        folder = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent
        target = Path(app.outdir) / "_static" / "mathjax"
        target.mkdir(exist_ok=True)
        copy_asset_file(folder / "static" / "mathjax" / "tex-svg.js", target)


def setup(app):
    """Connect what this file adds."""
    app.connect("build-finished", copy_mathjax)
