"""Which room of the package imports which: the order, the walk over imports, and the picture.

``make graph`` draws it into ``docs/rooms.svg``; ``test_layers.py`` keeps the order and the picture.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "corrtensor"
PICTURE = ROOT / "docs" / "rooms.svg"

# A room imports only from rooms before it; CONTRIBUTING.md says what is in each.
ROOMS = ["_base", "losses", "correntropy", "metrics", "datasets", "io", "_engine", "_robust"]
ROOMS += ["subspace", "corr_tensor", "clusters", "baselines", "methods", "tasks", "storage"]
ROOMS += ["demo", "report", "plot", "cli"]

# What each may import from the package: what comes before it, or less.
ALLOWED = {room: set(ROOMS[:place]) for place, room in enumerate(ROOMS)}
# Pure things stand on the ground alone; none of them knows the engine or another.
ALLOWED |= {room: {"_base"} for room in ("losses", "correntropy", "metrics", "datasets", "io")}
ALLOWED["_engine"] = {"_base", "losses", "io"}
ALLOWED["_robust"] = {"_base", "losses", "_engine"}
# Classes that a model file names are looked up in a table, not imported.
ALLOWED["storage"] = {"_base", "io"}

# Of the picture: boxes, and the space between them.
WIDE, HIGH, BESIDE, ABOVE = 104, 30, 14, 44


def files(package=PACKAGE):
    """All modules but the list of public names."""
    found = sorted(package.rglob("*.py"))
    return [path for path in found if room_of(path, package) not in ("__init__", "__main__")]


def room_of(path, package=PACKAGE):
    """The room that a file is in."""
    return path.relative_to(package).parts[0].removesuffix(".py")


def imported(path, package=PACKAGE):
    """Names inside the package that a file imports, wherever in the file it does."""
    above = ["corrtensor", *path.relative_to(package).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = above[: len(above) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name == "corrtensor":
                yield "__init__"
            elif name.startswith("corrtensor."):
                yield name.removeprefix("corrtensor.")


def rooms_of(path, package=PACKAGE):
    """The rooms that a file imports from."""
    return {name.partition(".")[0] for name in imported(path, package)}


def modules():
    """Who imports whom, module by module."""
    found = {}
    for path in files():
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name] = {module_of(other) for other in imported(path)} - {name}
    return found


def module_of(name):
    """The module that defines a name, or is it."""
    while name:
        place = PACKAGE.joinpath(*name.split("."))
        if place.with_suffix(".py").exists():
            return name
        if (place / "__init__.py").exists():
            return f"{name}.__init__"
        name = name.rpartition(".")[0]
    return "__init__"


def arrows():
    """Who imports whom, room by room; what follows from other arrows is left out."""
    all_of = {room: set() for room in ROOMS}
    for path in files():
        all_of[room_of(path)] |= rooms_of(path) - {room_of(path)}
    beyond = {}
    for room in ROOMS:
        beyond[room] = set().union(*(all_of[other] | beyond[other] for other in all_of[room]))
    return {room: sorted(others - beyond[room], key=ROOMS.index) for room, others in all_of.items()}


def draw():
    """Return the picture as SVG: a room stands right below what imports it."""
    below, depth = arrows(), dict.fromkeys(ROOMS, 0)
    for room in reversed(ROOMS):
        depth |= {other: max(depth[other], depth[room] + 1) for other in below[room]}
    lowest = max(depth.values())
    floors = [[r for r in ROOMS if lowest - depth[r] == floor] for floor in range(lowest + 1)]
    most = max(map(len, floors))
    width = most * (WIDE + BESIDE) + BESIDE
    height = len(floors) * (HIGH + ABOVE) - ABOVE + 2 * BESIDE
    place = {}
    for floor, names in enumerate(floors):
        left = (width - len(names) * (WIDE + BESIDE) + BESIDE) / 2
        for i, name in enumerate(names):
            top = height - BESIDE - HIGH - floor * (HIGH + ABOVE)
            place[name] = (left + i * (WIDE + BESIDE), top)
    lines = [
        f'<path d="M{place[room][0] + WIDE / 2:g} {place[room][1] + HIGH:g}'
        f'L{place[other][0] + WIDE / 2:g} {place[other][1] - 2:g}" marker-end="url(#head)"/>'
        for room in ROOMS
        for other in below[room]
        # All stand on it.
        if other != "_base" or depth[room] == lowest - 1
    ]
    boxes = [
        f'<rect x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" rx="6"/>'
        f'<text x="{x + WIDE / 2:g}" y="{y + HIGH / 2 + 4.5:g}">{name}</text>'
        for name, (x, y) in place.items()
    ]
    style = (
        "rect{fill:#fff;stroke:#0072b2;stroke-width:1.5}path{stroke:#888;fill:none}"
        "text{font:13px sans-serif;text-anchor:middle;fill:#222}"
    )
    head = (
        '<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<polygon points="0,1 7,4 0,7" fill="#888"/></marker>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f"<title>Which room imports which</title><style>{style}</style><defs>{head}</defs>",
            *lines,
            *boxes,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
