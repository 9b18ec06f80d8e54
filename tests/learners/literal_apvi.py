"""Algorithm 1 of 001 by plain loops over its lines, and the practical rule for pooled counts: what APVI is checked
against.

Unknown rewards and other laws of noise than Gaussian are the docstring's of `tacit.learners.apvi`, not the paper's.
"""

import math
from typing import NamedTuple


class Settings(NamedTuple):
    """What the algorithm is given; `rewards` [h][s][a], or None where they are read from the release."""

    S: int
    A: int
    H: int
    beta: float
    rewards: list | None
    hoeffding: bool
    published: bool
    C1: float
    C2: float
    C: float
    scale: float


def precision_level(settings, release):
    """E: Lemma D.2, or twice the bound of all errors."""
    S, A, H = settings.S, settings.A, settings.H
    T = release.transitions.shape[1]
    levels = []
    for law in (release.errors["visits"], release.errors["transitions"]):
        if not settings.published:
            levels.append(2 * law.quantile(settings.beta / (T * S * A + T * S * A * S)))
        elif law.to_json()["law"] == "Gaussian":
            levels.append(2 * math.sqrt(2) * law.std * math.sqrt(math.log(4 * H * S**2 * A / settings.beta)))
        else:
            levels.append(2 * law.quantile(settings.beta / (2 * H * S**2 * A)))
    return max(levels)


def reconciled(row, seen, E):
    """Equation (3), by sorting: ñ(s') of n'(s') and n'."""
    a = [max(0.0, float(x)) for x in row]
    low, high = max(0.0, float(seen)) - E / 2, max(0.0, float(seen)) + E / 2
    if sum(a) < low:
        return [x + (low - sum(a)) / len(a) for x in a]
    if sum(a) <= high:
        return a
    t, ordered = max(a), sorted(a, reverse=True)
    for r in range(1, len(a) + 1):
        level = (sum(ordered[:r]) - high) / r
        if ordered[r - 1] > level:
            t = level
    return [max(0.0, x - t) for x in a]


def algorithm_1(settings, release, run):
    """Lines 2 to 9: Q[h][s][a], Γ[h][s][a] and ñ[h][s][a]."""
    S, A, H = settings.S, settings.A, settings.H
    E = precision_level(settings, release)
    iota = math.log(H * S * A / settings.beta)
    T = release.transitions.shape[1]
    Q, Gamma, N = ([[[0.0] * A for _ in range(S)] for _ in range(H)] for _ in range(3))
    V = [[0.0] * S for _ in range(H + 1)]
    for h in reversed(range(H)):
        table = h if T > 1 else 0
        for s in range(S):
            for a in range(A):
                counts = reconciled(release.transitions[run, table, s, a], release.visits[run, table, s, a], E)
                n = sum(counts)
                N[h][s][a] = n
                P = [x / n for x in counts] if n > E else [1 / S] * S
                PV = sum(P[t] * V[h + 1][t] for t in range(S))
                variance = sum(P[t] * (V[h + 1][t] - PV) ** 2 for t in range(S))
                r = settings.rewards[h][s][a] if settings.rewards is not None else 0.0
                if n > E:
                    sampling = settings.C1 * math.sqrt((H * H if settings.hoeffding else variance) * iota / (n - E))
                    gamma = sampling + settings.C2 * S * H * E * iota / n
                    if settings.rewards is None:
                        R = float(release.rewards[run, table, s, a])
                        E_R = release.errors["rewards"].quantile(settings.beta / (T * S * A))
                        if release.centred:
                            R, E_R = R + 0.5 * float(release.visits[run, table, s, a]), E_R + E / 4
                        r = min(1.0, max(0.0, R / n))
                        gamma += math.sqrt(math.log(2 * H * S * A / settings.beta) / (2 * (n - E))) + (E_R + E) / n
                    gamma *= settings.scale
                else:
                    gamma = settings.C * H
                Gamma[h][s][a] = gamma
                Q[h][s][a] = max(0.0, min(r + PV - gamma, H - h))
            V[h][s] = max(Q[h][s])
    return Q, Gamma, N


def nearest(values, mass):
    """The point of {x ≥ 0, Σ x = mass} nearest to a list of numbers: by bisection of the level."""
    if mass <= 0:
        return [0.0] * len(values)
    low, high = min(values) - mass, max(values)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(0.0, v - middle) for v in values) > mass else (low, middle)
    return [max(0.0, v - high) for v in values]


def practical_rule(S, A, H, rewards, released, sigma, run, fallback):
    """The practical rule for pooled counts and known rewards: Q[h][s][a] and where the fallback is followed, [s]."""
    cells = [float(x) for x in released[run, 0].ravel()]
    mass = sum(cells) if sum(cells) > 3 * sigma * math.sqrt(len(cells)) else 0.0
    x = nearest(cells, mass)
    felt = max(1.0, sigma)
    Q, V = [[[0.0] * A for _ in range(S)] for _ in range(H)], [0.0] * S
    row = {(s, a): x[(s * A + a) * S : (s * A + a + 1) * S] for s in range(S) for a in range(A)}
    low = max([0.0] + [y - z for y, z in zip(cells, x, strict=True) if z > 0]) if mass else math.inf
    b = max(sigma, 1e-9) / math.sqrt(2)
    mean, square = b / 2 * math.exp(-low / b), b * b * math.exp(-low / b)
    alone = A * S * mean + 0.35 * math.sqrt(A * S * (square - mean**2))
    visits = [sum(sum(row[s, a]) for a in range(A)) for s in range(S)]
    arrivals = [sum(row[s, a][t] for s in range(S) for a in range(A)) for t in range(S)]
    deferred = [(visits[s] + arrivals[s]) / 2 < max(1.0, alone) for s in range(S)]
    for h in reversed(range(H)):
        middle = (min(V) + max(V)) / 2
        norm = math.sqrt(sum((v - middle) ** 2 for v in V))
        for s in range(S):
            for a in range(A):
                n = max(sum(row[s, a]), 1e-9)
                P = [(y + felt / 2 / S) / (sum(row[s, a]) + felt / 2) for y in row[s, a]]
                PV = sum(p * v for p, v in zip(P, V, strict=True))
                variance = sum(p * (v - PV) ** 2 for p, v in zip(P, V, strict=True))
                z = felt / n
                gamma = 0.5 * math.sqrt(variance / n) + 0.1 * z * norm + 2 * z * z * (max(V) - min(V))
                Q[h][s][a] = rewards[h][s][a] + max(PV - gamma, min(V))
        V = [
            sum(p * q for p, q in zip(fallback[s], Q[h][s], strict=True)) if deferred[s] else max(Q[h][s])
            for s in range(S)
        ]
    return Q, deferred
