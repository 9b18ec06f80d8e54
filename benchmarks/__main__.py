"""The table."""

import os

# One core, also for BLAS: set before NumPy is imported.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import argparse  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

from benchmarks import offline_rows, online_rows, rows  # noqa: E402
from benchmarks.measure import Row, table  # noqa: E402


def main() -> None:
    """Measure row by row, saying so on stderr, and print the table."""
    every = {row.__name__: (row, module.FULL) for module in (rows, online_rows, offline_rows) for row in module.ALL}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and memory as ratios in one run.")
    parser.add_argument("only", nargs="*", metavar="ROW", help=f"all, or some of: {', '.join(every)}")
    names = parser.parse_args().only or list(every)
    if unknown := set(names) - set(every):
        parser.error(f"no row is called {', '.join(sorted(unknown))}")
    begin, found = time.perf_counter(), list[Row]()
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        row, sizes = every[name]
        found += row(sizes)
    print(table(found))
    print(
        f"\nOne core but where two are named, {time.perf_counter() - begin:.0f} s. RiverSwim {rows.FULL.states} × 2, "
        f"H = {rows.FULL.horizon}; in turns, best of {rows.FULL.repeats}."
    )


if __name__ == "__main__":
    main()
