"""Contributions in, releases out: without privacy, central and local."""

from tacit.privatizers.adaptive import AdaptivePrivatizer, converse
from tacit.privatizers.central import COUNTERS, CentralPrivatizer, design_for
from tacit.privatizers.codecs import Report, codec_from_json, local_codec
from tacit.privatizers.local import Device, LocalPrivatizer, LocalServer
from tacit.privatizers.protocol import BudgetExhausted, PrivatizationError, Privatizer
from tacit.privatizers.vault import VaultError

__all__ = [
    "COUNTERS",
    "AdaptivePrivatizer",
    "BudgetExhausted",
    "CentralPrivatizer",
    "Device",
    "LocalPrivatizer",
    "LocalServer",
    "PrivatizationError",
    "Privatizer",
    "Report",
    "VaultError",
    "codec_from_json",
    "converse",
    "design_for",
    "local_codec",
]
