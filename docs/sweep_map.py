"""Draws docs/sweep_map.png, for docs/howto/sweep.md: ``python docs/sweep_map.py [FOLDER]``; FOLDER keeps checkpoints.

κ and t for three problems: lr and br of the paper, and the one of the page. It takes a few minutes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import boundcheck as bc
from boundcheck.sweeps import maps
from boundcheck.sweeps.groups import names
from boundcheck.views.figures.value_map import Panel, ValueMap, value_map

HERE = Path(__file__).parent
METHOD, WHAT = "itd", "a-priori"
OVER = {"kappa": "10:1e5:5:log", "t": [10, 30, 100, 300, 1000]}
SMALLER = {"features": 20, "size": 20}


def main() -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        page = (HERE / "howto" / "sweep.md").read_text(encoding="utf-8")
        found = re.search(r'```python title="mine.py"\n(.*?)```', page, flags=re.S)
        assert found is not None
        (folder / "mine.py").write_text(found[1], encoding="utf-8")
        problems = {"lr": ("lr", SMALLER), "br": ("br", SMALLER), "ridge": (f"{folder / 'mine.py'}:make", {})}
        panels = []
        for name, (problem, options) in problems.items():
            sweep = bc.sweep(problem, OVER, methods=[METHOD], options=options, jobs=2, out=folder / name)
            print(name, *sweep.table().splitlines()[:3], sep="\n  ")
            panels.append(Panel(name, maps.panel(sweep, METHOD, WHAT, "t", "kappa").tiles))
        columns, rows = names(sweep.grid.values("t")), names(sweep.grid.values("kappa"))
    headline = f"{METHOD}: the best a priori bound over the error"
    figure = value_map(ValueMap(headline, "t", "kappa", columns, rows, panels, maps.shades(WHAT)))
    bc.plot.save(figure, HERE / "sweep_map.png")


if __name__ == "__main__":
    main()
