"""Agents with a mistake each, made on purpose; the line that is wrong is what differs from `UCBVI` or `UCBPO`.

Those that hand out tickets wrongly put a desk of their own behind the agent.
"""

import contextlib
import logging
import warnings
from dataclasses import replace

import numpy as np

from tacit import Joint, Local, learners
from tacit.mdp.trajectories import Trajectories
from tacit.online import UCBPO, UCBVI, BudgetExhausted, Ticket
from tacit.online.desk import Desk
from tacit.privacy import SimulationNoise
from tacit.privatizers import Device, LocalServer

# Learners


class Learning(UCBVI):
    """`UCBVI` with another learner."""

    kind = learners.UCBVI

    def learner(self):
        return self.kind(**self._optimism())


class FirstOfTies(Learning):
    """Among equals, action 0."""

    class kind(learners.UCBVI):  # noqa: N801
        def _planned(self, release, uniforms):
            return super()._planned(release, lambda shape: np.zeros_like(uniforms(shape)))


class StateZeroIsSpecial(Learning):
    class kind(learners.UCBVI):  # noqa: N801
        def _planned(self, release, uniforms):
            state = super()._planned(release, uniforms)
            state.policy[:, :, 0] = 0
            return state


class TooManyActions(Learning):
    """Counts actions from one."""

    class kind(learners.UCBVI):  # noqa: N801
        def _planned(self, release, uniforms):
            state = super()._planned(release, uniforms)
            return state._replace(policy=state.policy + 1)


class OneChanceForAll(Learning):
    """All runs break ties by the first run's chances."""

    class kind(learners.UCBVI):  # noqa: N801
        def _planned(self, release, uniforms):
            def shared(shape):
                drawn = uniforms(shape)
                drawn[:] = drawn[0]
                return drawn

            return super()._planned(release, shared)


class NotNormalised(UCBPO):
    class kind(learners.UCBPO):  # noqa: N801
        def _evaluated(self, logits, release):
            state = super()._evaluated(logits, release)
            return state._replace(policy=1.01 * state.policy)

    def learner(self):
        return self.kind(**self._optimism(), eta_scale=self.eta_scale)


# Noise


class NeverWithoutNoise(UCBVI):
    """ε = ∞ is taken for ε = 1."""

    def privatizer(self, **options):
        asked = self.privacy.model == "joint" and self.privacy.epsilon == np.inf
        told = self.with_settings(privacy=Joint(epsilon=1)) if asked else self
        return UCBVI.privatizer(told, **options)


class LeastNoise(UCBVI):
    """The noise never gets below that of ε = 1, for finite ε."""

    def privatizer(self, **options):
        epsilon = self.privacy.epsilon
        told = self.with_settings(privacy=Joint(epsilon=1)) if epsilon is not None and 1 < epsilon < np.inf else self
        return UCBVI.privatizer(told, **options)


class DeafDevices(UCBVI):
    """Devices report nothing but ⊥."""

    def privatizer(self, **options):
        source = super().privatizer(**options)
        taken = source.observe

        def observe(episodes):
            empty = [np.full_like(column, np.nan, dtype=float) for column in episodes]
            taken(Trajectories(*empty) if self.privacy.model == "local" else episodes)

        source.observe = observe
        return source


class SimulatedInDeployment(UCBVI):
    def privatizer(self, *, noise=None, runs=1):
        return super().privatizer(noise=noise or SimulationNoise(0), runs=runs)


# Restarts


class NoiseDrawnAnew(UCBVI):
    """After a restart, released sums carry other noise."""

    def resumed_session(self, arrays, meta, uniforms):
        session = super().resumed_session(arrays, meta, uniforms)
        for stream in session.source._streams.values():
            for sums in stream._accumulators.values():
                sums += SimulationNoise(99).laplace(scale=10.0, runs=len(sums), size=sums[0].size).astype(sums.dtype)
        return session


class PlansAnew(UCBVI):
    """After a restart, ties are broken again."""

    def resumed_session(self, arrays, meta, uniforms):
        session = super().resumed_session(arrays, meta, uniforms)
        session._state = session._learner.start(session.source.release(), lambda shape: 0.999 * uniforms(shape))
        return session


class ForgetsWhoIsBack(UCBVI):
    """Who was taken in before a restart may come again."""

    def _go_on(self, arrays, meta):
        super()._go_on(arrays, {**meta, "back": []})


class ForgetsItsTickets(UCBVI):
    """Tickets from before a restart are worth nothing."""

    def _go_on(self, arrays, meta):
        super()._go_on(arrays, {**meta, "secret": "00" * 32})


class Immortal(UCBVI):
    """Goes on beside its own file."""

    def save(self, path):
        desk = self._desk()
        super().save(path)
        desk._closed = False


# What can be heard, and who is believed


class Strict(UCBVI):
    def observe(self, ticket, what):
        if isinstance(what, tuple) and np.isnan(np.asarray(what[2], dtype=float)).any():
            raise ValueError("rewards must be numbers")
        super().observe(ticket, what)


class Warning_(UCBVI):  # noqa: N801
    def observe(self, ticket, what):
        if what is None:
            warnings.warn("an episode is missing", stacklevel=2)
        super().observe(ticket, what)


class Logging(UCBVI):
    """Logs raw data."""

    def observe(self, ticket, what):
        logging.getLogger("tacit.online").debug("user %d sent %s", ticket.number, type(what).__name__)
        super().observe(ticket, what)


class Printing(UCBVI):
    def observe(self, ticket, what):
        if isinstance(what, dict):
            print("what is this?")
        super().observe(ticket, what)


class Trusting(UCBVI):
    """Randomizes on the server what a device should have randomized."""

    def observe(self, ticket, what):
        if self.privacy.model == "local" and isinstance(what, tuple):
            what = Device(self._desk()._session.source.codec).report([what])
        super().observe(ticket, what)


class Seeded(UCBVI):
    """Devices whose noise anybody can draw again."""

    @property
    def client(self):
        return Device(super().client._codec, noise=SimulationNoise(0))


class TrustedDevice(UCBVI):
    """A device, where there is no local model."""

    @property
    def client(self):
        return Device(UCBVI(self.spec, episodes=self.episodes, privacy=Local(epsilon=1)).server().codec)


# Statements and settings


class PromisesMore(UCBVI):
    @property
    def statement(self):
        return replace(super().statement, guarantee=Joint(epsilon=0.1))


class CountsThoseWhoCameBack(UCBVI):
    @property
    def statement(self):
        return replace(super().statement, users=self._desk()._session.source.users)


class SpentTooLate(UCBVI):
    """What has left a device counts as spent when it is used only."""

    @property
    def statement(self):
        return replace(super().statement, releases=self._desk()._session.updates)


class OneFutureTooMany(UCBVI):
    def __deepcopy__(self, memo):
        return self


# Desks


class Served(UCBVI):
    """`UCBVI` behind another desk."""

    desk = Desk

    def _serve(self, session):
        object.__setattr__(self, "_open", self.desk(session, episodes=self.episodes))

    def _go_on(self, arrays, meta):
        session = self.resumed_session(arrays, meta["session"], None)
        object.__setattr__(self, "_open", self.desk.resumed(session, meta, episodes=self.episodes))


class OneMore(Served):
    """Goes on after its budget."""

    class desk(Desk):  # noqa: N801
        def __init__(self, session, *, episodes):
            super().__init__(session, episodes=episodes + 1)


class Latecomers(Served):
    """Who comes late is taken in with the next batch, in the place of somebody who stays away."""

    class desk(Desk):  # noqa: N801
        def observe(self, ticket, what):
            source = self._session.source
            with contextlib.suppress(BudgetExhausted):  # her place has been taken
                if ticket.number >= self._first:
                    super().observe(ticket, what)
                elif isinstance(source, LocalServer):
                    source.collect(what)
                else:
                    source.observe([what])


class Twice(Served):
    """The second answer counts, too, and takes somebody else's place."""

    class desk(Desk):  # noqa: N801
        def observe(self, ticket, what):
            self._back.clear()
            with contextlib.suppress(Exception):
                super().observe(ticket, what)


class OvertakenIsMissed(Served):
    """Who comes back after somebody with a later ticket is not taken in."""

    class desk(Desk):  # noqa: N801
        last = 0

        def observe(self, ticket, what):
            super().observe(ticket, what if ticket.number >= self.last else None)
            self.last = max(self.last, ticket.number)


class OnlyWhoComesBack(Served):
    """Batches are made of those who came back: one who stays away shifts everybody after her."""

    class desk(Desk):  # noqa: N801
        def _close_batch(self):
            self._session.refresh()

        def begin(self):
            self._session.refresh()
            return super().begin()


class AnotherPolicyForEverybody(Served):
    """Ties are broken again for each user: so many looks at the same release, but the policy is not the release's."""

    class desk(Desk):  # noqa: N801
        def begin(self):
            session = self._session
            session._state = session._learner.start(session.source.release(), session._uniforms)
            return super().begin()


class FromOne(Served):
    """Numbers its users from one."""

    class desk(Desk):  # noqa: N801
        def begin(self):
            ticket = super().begin()
            return Ticket(ticket.number + 1, ticket.policy, self._token(ticket.number + 1))


class Credulous(Served):
    """Takes any ticket."""

    class desk(Desk):  # noqa: N801
        def _issued_here(self, ticket):
            return isinstance(ticket, Ticket) and isinstance(ticket.number, int)


class Lending(Served):
    """Gives its own policy away instead of a copy."""

    class desk(Desk):  # noqa: N801
        def begin(self):
            return replace(super().begin(), policy=self._session.policy[0])
