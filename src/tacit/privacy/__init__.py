"""Guarantees, noise, mechanisms, continual counters, accounting and statements; nothing of reinforcement learning.

Sources: `guarantees` (what is promised), `accounting` (what is spent), `mechanisms` (noise ↔ guarantee, one module
each), `counters` (continual release), `noise` (where randomness comes from), `errors` (laws of the noise in a
release), `calibration` (where a guarantee meets a mechanism), `statements` (the page for a privacy officer).
"""

from tacit.privacy.accounting import Loss, budget_of, compose
from tacit.privacy.calibration import Calibration, calibrate, price
from tacit.privacy.guarantees import Central, Guarantee, GuaranteeError, Joint, Local, NonPrivate, Shuffle
from tacit.privacy.noise import NoiseSource, NoNoise, SecureNoise, SimulationNoise
from tacit.privacy.sensitivity import Sensitivity
from tacit.privacy.statements import Statement

__all__ = [
    "Calibration",
    "Central",
    "Guarantee",
    "GuaranteeError",
    "Joint",
    "Local",
    "Loss",
    "NoNoise",
    "NoiseSource",
    "NonPrivate",
    "SecureNoise",
    "Sensitivity",
    "Shuffle",
    "SimulationNoise",
    "Statement",
    "budget_of",
    "calibrate",
    "compose",
    "price",
]
