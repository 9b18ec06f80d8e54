"""Contributions in, releases out: without privacy, central and local."""

from tacit.privatizers.central import COUNTERS, CentralPrivatizer, design_for
from tacit.privatizers.local import Device, LocalPrivatizer, LocalServer, local_codec
from tacit.privatizers.protocol import BudgetExhausted, PrivatizationError, Privatizer
from tacit.privatizers.vault import VaultError

__all__ = [
    "COUNTERS",
    "BudgetExhausted",
    "CentralPrivatizer",
    "Device",
    "LocalPrivatizer",
    "LocalServer",
    "PrivatizationError",
    "Privatizer",
    "VaultError",
    "design_for",
    "local_codec",
]
