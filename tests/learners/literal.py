"""Algorithms 1 and 2 of 000 by plain loops over their lines: what learners are checked against.

Costs are mirrored to rewards. Counts are per step, as the paper's, or pooled: one table for all steps.
"""

import itertools
import math
from typing import NamedTuple


class Theorem(NamedTuple):
    """What the paper fixes, and the factors on the two parts of its bonus, which are 1 there."""

    S: int
    A: int
    H: int
    K: int
    beta: float
    statistical: float = 1.0
    privacy: float = 1.0


def events(theorem, release):
    """SAT, as in every logarithm of the lemmas; a pooled cell has up to HK visits instead of K."""
    SAT = theorem.S * theorem.A * theorem.K * theorem.H
    return SAT * theorem.H if release.transitions.shape[1] == 1 else SAT


def precision_levels(theorem, release):
    """E_N, E_R and E_P of Assumption 1: a third of β for each family, shared by all its cells and episodes.

    The paper's are E₁, E₁ and E₂. E_R is that of Σ r, so half a visit's error comes on top where r − ½ was summed.
    """
    n = theorem.S * theorem.A * theorem.K * release.transitions.shape[1]  # SAT, or SAK for pooled counts
    E_N = theorem.privacy * release.errors["visits"].quantile(theorem.beta / 3 / n)
    E_R = theorem.privacy * release.errors["rewards"].quantile(theorem.beta / 3 / n)
    E_P = theorem.privacy * release.errors["transitions"].quantile(theorem.beta / 3 / (n * theorem.S))
    if release.centred:
        E_R = E_R + E_N / 2
    return E_N, E_R, E_P


def private_means(theorem, release, run, h, s, a):
    """Equation (1): D = max{1, Ñ + E₁}, r̃ = R̃/D and P̃(s') = Ñ(s')/D."""
    table = h if release.transitions.shape[1] > 1 else 0
    E_N, _, _ = precision_levels(theorem, release)
    N = float(release.visits[run, table, s, a])
    R = float(release.rewards[run, table, s, a])
    if release.centred:
        R = R + N / 2
    D = max(1.0, N + E_N)
    return D, R / D, [float(release.transitions[run, table, s, a, t]) / D for t in range(theorem.S)]


def beta_c(theorem, release, D):
    """Lemma 3.1: L_c/√D + 3E₁/D."""
    E_N, E_R, _ = precision_levels(theorem, release)
    L_c = math.sqrt(2 * math.log(4 * events(theorem, release) / theorem.beta))
    return theorem.statistical * L_c / math.sqrt(D) + (E_R + 2 * E_N) / D


def beta_p(theorem, release, D):
    """Lemma 3.1: L_p/√D + (S·E₂ + 2E₁)/D."""
    E_N, _, E_P = precision_levels(theorem, release)
    L_p = math.sqrt(4 * theorem.S * math.log(6 * events(theorem, release) / theorem.beta))
    return theorem.statistical * L_p / math.sqrt(D) + (theorem.S * E_P + 2 * E_N) / D


def beta_pv(theorem, release, D):
    """Lemma 4.1: H·L_c/√D + H(S·E₂ + 2E₁)/D."""
    E_N, _, E_P = precision_levels(theorem, release)
    L_c = math.sqrt(2 * math.log(4 * events(theorem, release) / theorem.beta))
    return theorem.statistical * theorem.H * L_c / math.sqrt(D) + theorem.H * (theorem.S * E_P + 2 * E_N) / D


def truncated(theorem, h, value):
    """Line 8 (9 of Algorithm 1): min{H − h + 1, max{0, ·}}, where the first step is h = 0."""
    return min(theorem.H - h, max(0.0, value))


def algorithm_2(theorem, release, run):
    """Lines 4 to 9 of Private-UCB-VI: Q[h][s][a]."""
    S, A, H = theorem.S, theorem.A, theorem.H
    Q = [[[0.0] * A for _ in range(S)] for _ in range(H)]
    V = [[0.0] * S for _ in range(H + 1)]
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                D, r, P = private_means(theorem, release, run, h, s, a)
                bonus = beta_c(theorem, release, D) + beta_pv(theorem, release, D)
                ahead = sum(P[t] * V[h + 1][t] for t in range(S))
                Q[h][s][a] = truncated(theorem, h, r + ahead + bonus)
            V[h][s] = max(Q[h][s])
    return Q


def policy_evaluation(theorem, release, run, pi):
    """Lines 5 to 10 of Private-UCB-PO: Q[h][s][a]."""
    S, A, H = theorem.S, theorem.A, theorem.H
    Q = [[[0.0] * A for _ in range(S)] for _ in range(H)]
    V = [[0.0] * S for _ in range(H + 1)]
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                D, r, P = private_means(theorem, release, run, h, s, a)
                bonus = beta_c(theorem, release, D) + H * beta_p(theorem, release, D)
                ahead = sum(V[h + 1][t] * P[t] for t in range(S))
                Q[h][s][a] = truncated(theorem, h, r + ahead + bonus)
            V[h][s] = sum(Q[h][s][a] * pi[h][s][a] for a in range(A))
    return Q


def mirror_descent(theorem, pi, Q, eta):
    """Line 13 of Private-UCB-PO: π(a|s)·exp(ηQ), normalised."""
    S, A, H = theorem.S, theorem.A, theorem.H
    improved = [[[0.0] * A for _ in range(S)] for _ in range(H)]
    for h in range(H):
        for s in range(S):
            weights = [pi[h][s][a] * math.exp(eta * Q[h][s][a]) for a in range(A)]
            improved[h][s] = [weight / sum(weights) for weight in weights]
    return improved


def algorithm_1(theorem, releases, run, eta_scale=1.0):
    """Private-UCB-PO: (π, Q) after each release. Between two of them, line 13 is repeated for each episode."""
    S, A, H, K = theorem.S, theorem.A, theorem.H, theorem.K
    eta = eta_scale * math.sqrt(2 * math.log(A) / (H**2 * K))
    pi = [[[1 / A] * A for _ in range(S)] for _ in range(H)]
    Q = policy_evaluation(theorem, releases[0], run, pi)
    found = [(pi, Q)]
    for before, release in itertools.pairwise(releases):
        for _ in range(release.episodes - before.episodes):
            pi = mirror_descent(theorem, pi, Q, eta)
        Q = policy_evaluation(theorem, release, run, pi)
        found.append((pi, Q))
    return found
