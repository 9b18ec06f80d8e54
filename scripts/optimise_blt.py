"""Recompute the table of BLT parameters in src/tacit/privacy/counters/table.py.

Minimises the largest prefix standard deviation, ‖c‖₂·‖b‖₂ over the first n coefficients, where C(x) =
Π(1−θ̂_i x)/Π(1−θ_i x) and B = A C⁻¹. Poles and zeros interlace, 1 > θ_1 > θ̂_1 > θ_2 > …, so we search over positive
increments of −ln(1−·). Usage: python scripts/optimise_blt.py > src/tacit/privacy/counters/table.py
"""

import sys

import numpy as np
from scipy.optimize import minimize

LENGTHS = sorted({round(2 ** (half / 2)) for half in range(2, 49)})


def unpack(increments):
    x = np.cumsum(np.exp(increments))[::-1]
    points = -np.expm1(-x)
    return points[0::2], points[1::2]


def sums(rates, weights, constant, n):
    """Σ_{k=1}^{n−1} (constant + Σ_i weights_i rates_i^{k−1})², in closed form."""
    r = np.append(rates, 1.0)
    w = np.append(weights, constant)
    product = np.outer(r, r)
    with np.errstate(divide="ignore", invalid="ignore"):
        geometric = np.where(product == 1.0, n - 1.0, -np.expm1((n - 1) * np.log(product)) / (1.0 - product))
    return w @ geometric @ w


def residues(poles, zeros):
    differences = poles[:, None] - poles[None, :]
    np.fill_diagonal(differences, 1.0)
    return np.prod(poles[:, None] - zeros[None, :], axis=1) / np.prod(differences, axis=1)


def objective(increments, n):
    poles, zeros = unpack(increments)
    v, w = residues(poles, zeros), residues(zeros, poles)
    c = 1.0 + sums(poles, v, 0.0, n)
    # b_k = 1 + Σ_i w_i (1 − θ̂_i^k)/(1 − θ̂_i)
    share = w / (1.0 - zeros)
    b = 1.0 + sums(zeros, -share * zeros, 1.0 + share.sum(), n)
    value = 0.5 * (np.log(c) + np.log(b)) if c > 0 and b > 0 else np.inf
    return value if np.isfinite(value) else 50.0


def best(d, n, warm):
    spread = np.log(np.log(4.0 * n + 8.0) / (2 * d))
    starts = [np.full(2 * d, spread), *warm]
    found = None
    with np.errstate(all="ignore"):
        for start in starts:
            x = start
            for _ in range(4):
                x = minimize(
                    objective,
                    x,
                    args=(n,),
                    method="Nelder-Mead",
                    options={"maxiter": 4000, "maxfev": 4000, "xatol": 1e-7, "fatol": 1e-12},
                ).x
                x = minimize(objective, x, args=(n,), method="BFGS").x
            value = objective(x, n)
            if found is None or value < found[0]:
                found = (value, x)
    return found


def main():
    print('"""BLT parameters: (releases, poles θ, zeros θ̂) for 1 to 6 buffers, made by scripts/optimise_blt.py."""\n')
    print("# ruff: noqa: E501\n# fmt: off")
    print("BLT: dict[int, tuple[tuple[int, tuple[float, ...], tuple[float, ...]], ...]] = {")
    for d in (1, 2, 3, 4, 5, 6):
        print(f"    {d}: (")
        warm = []
        for n in LENGTHS:
            value, x = best(d, n, warm)
            warm = [x]
            poles, zeros = unpack(x)
            text = [", ".join(f"{p:.12g}" for p in points) for points in (poles, zeros)]
            printed = [float(f"{point:.12g}") for pair in zip(poles, zeros, strict=True) for point in pair]
            if any(low >= high for high, low in zip([1.0, *printed], [*printed, 0.0], strict=True)):
                continue  # more buffers than so short a stream can use: the next length's entry serves
            print(f"        ({n}, ({text[0]},), ({text[1]},)),")
            print(d, n, np.exp(value), file=sys.stderr)
        print("    ),")
    print("}")


if __name__ == "__main__":
    main()
