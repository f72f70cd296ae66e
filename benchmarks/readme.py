"""Write the results and the picture of README.md anew: `python benchmarks/readme.py`.

Runs the demo with its defaults, puts its statistics between the markers of README.md and its picture into
docs/pictures/.
"""

import argparse
import re
import shutil
import tempfile
from pathlib import Path

from drpn.progress import Lines
from drpn.recipes.demo import demo
from drpn.recipes.table1 import table1
from provenance import ROOT, commit


def main() -> None:
    """Run the demo, write the table, copy the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        made = demo(Path(scratch) / "demo", users=given.users, seed=given.seed, progress=Lines())
        (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
        shutil.copy(Path(scratch) / "demo" / "readers.png", ROOT / "docs" / "pictures" / "readers.png")
    lines = ["| | the demo's newsroom | MIND, in the paper |", "|---|---:|---:|"]
    lines += [
        f"| {row.label.replace('  ', '&emsp;', 1)} | {row.here} | {row.paper} |" for row in table1(made.statistics)
    ]
    lines += ["", f"`drpn demo --users {given.users} --seed {given.seed}`, commit {commit()}."]
    page = ROOT / "README.md"
    marked = re.compile(r"(<!-- statistics: begin -->\n).*(<!-- statistics: end -->)", re.DOTALL)
    table = "\n".join(lines)
    page.write_text(marked.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
