"""The built-in agents in all their settings, as `check_agent` takes them."""

from tacit import Joint, Local, NonPrivate
from tacit.online import UCBPO, UCBVI
from tacit.testing import AgentSubject

PURE, APPROXIMATE, LOCAL = Joint(epsilon=1), Joint(epsilon=1, delta=1e-5), Local(epsilon=1)
ALWAYS, STEPS = {"schedule": "every-episode"}, {"pooled": False}
ADDITIVE, PUBLISHED = {"randomizer": "additive"}, {"calibration": "published", "schedule": "every-episode"}

SETTINGS = {
    "no privacy": (NonPrivate(), {}),
    "no privacy, every episode, per step": (NonPrivate(), ALWAYS | STEPS),
    "pure": (PURE, {}),
    "pure, per step": (PURE, STEPS),
    "pure, tree": (PURE, ALWAYS | {"counter": "tree"}),
    "pure, k-ary, per step": (PURE, ALWAYS | STEPS | {"counter": "k-ary"}),
    "pure, published": (PURE, PUBLISHED),
    "approximate": (APPROXIMATE, {}),
    "approximate, tree, per step": (APPROXIMATE, ALWAYS | STEPS | {"counter": "tree"}),
    "approximate, toeplitz, per step": (APPROXIMATE, ALWAYS | STEPS | {"counter": "toeplitz"}),
    "approximate, blt": (APPROXIMATE, ALWAYS | {"counter": "blt"}),
    "zero-concentrated": (Joint(rho=0.1), {}),
    "zero-concentrated, every episode, per step": (Joint(rho=0.1), ALWAYS | STEPS),
    "add or remove": (Joint(epsilon=1, neighbours="add-or-remove-one"), {}),
    "one step": (LOCAL, {}),
    "one step, every episode, per step": (LOCAL, ALWAYS | STEPS),
    "additive": (LOCAL, ADDITIVE),
    "additive, every episode, per step": (LOCAL, ADDITIVE | ALWAYS | STEPS),
    "additive, approximate": (Local(epsilon=1, delta=1e-5), ADDITIVE),
    "local, published": (LOCAL, PUBLISHED),
}


def subject(kind, privacy, /, *, episodes=84, **options):
    """An agent under test; `options` are settings that stay when the suite asks for another privacy."""

    def make(spec, episodes, privacy):
        return kind(spec, episodes=episodes, privacy=privacy, **options)

    return AgentSubject(make, privacy, episodes=episodes)


SUBJECTS = {
    f"{kind.__name__}, {name}": subject(kind, privacy, **options)
    for kind in (UCBVI, UCBPO)
    for name, (privacy, options) in SETTINGS.items()
}
