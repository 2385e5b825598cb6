"""Leave out of class pages what scikit-learn, NumPy and Python define: their pages say it."""

import inspect


def skip_foreign(app, what, name, member, skip, options):
    """Skip members that a class has from elsewhere."""
    function = inspect.unwrap(member) if callable(member) else member
    home = getattr(function, "__module__", None) or ""
    if what == "class" and callable(member) and not home.startswith("corrtensor"):
        return True
    return None


def setup(app):
    """Register the rule."""
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True}
