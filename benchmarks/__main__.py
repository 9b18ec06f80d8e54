"""The table."""

import os

# One core, also for BLAS: set before NumPy is imported.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import sys  # noqa: E402
import time  # noqa: E402

from benchmarks.measure import Row, table  # noqa: E402
from benchmarks.rows import ALL, FULL  # noqa: E402


def main() -> None:
    """Measure row by row, saying so on stderr, and print the table."""
    begin, rows = time.perf_counter(), list[Row]()
    for row in ALL:
        print(f"{row.__name__} …", file=sys.stderr, flush=True)
        rows += row(FULL)
    print(table(rows))
    print(
        f"\nOne core, {time.perf_counter() - begin:.0f} s. RiverSwim {FULL.states} × 2, H = {FULL.horizon}; "
        f"in turns, best of {FULL.repeats}."
    )


if __name__ == "__main__":
    main()
