"""Agents that lose more than they say, between people and the learner or past it."""

from dataclasses import replace

from tacit.online import UCBVI
from tacit.online.session import Session
from tacit.privacy import SecureNoise
from tacit.privacy.mechanisms.responses import SubsetSelection
from tacit.privatizers import LocalPrivatizer


class Peeking(UCBVI):
    """The policy also depends on what the last user did."""

    class Nosy(Session):
        did = 0

        def observe(self, episodes):
            super().observe(episodes)
            self.did = episodes[0][1][0]

        @property
        def policy(self):
            return (super().policy + self.did) % 2

    def session(self, **options):
        session = super().session(**options)
        session.__class__ = self.Nosy
        return session


class AnEighthOfTheNoise(UCBVI):
    """Its statement is another's."""

    class Quiet:
        def __init__(self, noise):
            self.noise = noise

        def __getattr__(self, name):
            drawn = getattr(self.noise, name)
            if name not in ("laplace", "gaussian"):
                return drawn
            return lambda *, scale, **options: drawn(scale=scale / 8, **options)

    def privatizer(self, *, noise=None, runs=1):
        return super().privatizer(noise=self.Quiet(noise or SecureNoise()), runs=runs)


class LooseDevices(UCBVI):
    """They tell the truth more often than was agreed."""

    class Loose(LocalPrivatizer):
        def observe(self, episodes):
            agreed = self.codec.selection
            loose = replace(self.codec, selection=SubsetSelection(3.0, agreed.symbols, agreed.width))
            self.server.collect(loose.randomize(self.statistic.read(episodes), self.device.noise))

    def privatizer(self, **options):
        privatizer = super().privatizer(**options)
        privatizer.__class__ = self.Loose
        return privatizer
