"""Small tables, and a literal reading of them row by row, to compare with."""

import math

import polars as pl

from tacit.mdp import EpisodeSpec
from tacit.offline import EndState, Schema

SPEC = EpisodeSpec(states=4, actions=2, horizon=3)
ROW = ("episode", "step", "state", "action", "reward", "next_state")


def table(*rows, columns=ROW):
    """Rows as a frame; every column is of numbers, whatever is missing."""
    types = {name: pl.Float64 if name == "reward" else pl.Int64 for name in columns}
    return pl.DataFrame(list(rows), schema=types, orient="row")


def episode(name, states, actions=(0, 0, 0), rewards=(0.0, 0.0, 0.0), first=0):
    """The rows of one good episode; `states` has one more than `actions`."""
    return [
        (name, first + step, states[step], action, reward, states[step + 1])
        for step, (action, reward) in enumerate(zip(actions, rewards, strict=False))
    ]


GOOD = (*episode(1, (0, 1, 2, 3)), *episode(2, (3, 2, 1, 0), (1, 1, 0), (0.5, 0.25, 1.0)))


def read(dataset, size=None):
    """All places: (states, actions, rewards) in plain numbers, None for ⊥."""
    found = []
    for batch in dataset.batches(size):
        for states, actions, rewards in zip(*(column[0] for column in batch), strict=True):
            plain = (tuple(states.tolist()), tuple(actions.tolist()), tuple(rewards.tolist()))
            empty = states.max() < 0 and actions.max() < 0 and all(math.isnan(reward) for reward in rewards)
            assert empty or states.min() >= 0
            found.append(None if empty else plain)
    return found


def bag(places):
    """Places without their order."""
    return sorted(places, key=repr)


def literal(rows, schema, *, next_given=True):
    """What each episode of a table of numbers becomes: the rules of `Dataset`, in the words of its docstring."""
    people = {}
    for row in rows:
        if row[0] is not None:
            people.setdefault(row[0], []).append(row)
    return {name: _literal_episode(mine, schema, next_given) for name, mine in people.items()}


def _literal_episode(rows, schema, next_given):
    spec, end = schema.spec, schema.end_state
    H = spec.horizon
    by_step = {}
    for _, step, state, action, reward, led_to in rows:
        if step is None or step < schema.first_step:
            return None
        if step - schema.first_step > H:
            continue
        if step - schema.first_step in by_step:
            return None
        by_step[step - schema.first_step] = (state, action, reward, led_to)
    beyond = any(row[1] - schema.first_step >= H for row in rows)
    steps = [step for step in by_step if step < H]
    if set(steps) != set(range(H if beyond else len(steps))):
        return None
    states, actions, rewards = [], [], []
    for step in sorted(by_step):
        state, action, reward, _ = by_step[step]
        if state is None or not 0 <= state < spec.states:
            return None
        states.append(state)
        if step < H:
            if action is None or not 0 <= action < spec.actions or reward is None or math.isnan(reward):
                return None
            actions.append(action)
            rewards.append(reward)
    told = None
    for step in sorted(steps) if next_given else []:
        led_to = by_step[step][3]
        if led_to is not None and not 0 <= led_to < spec.states:
            return None
        if step + 1 in by_step:
            last = step == len(steps) - 1  # the row of step H may stand in for what is missing here
            if led_to != by_step[step + 1][0] and not (led_to is None and last):
                return None
        elif led_to is None and step < len(steps) - 1:
            return None
        else:
            told = led_to
    if len(steps) == H and H in by_step:
        pass
    elif len(steps) == H and told is not None:
        states.append(told)
    elif end is None or beyond:
        return None
    while len(actions) < H:
        states.append(end.state)
        actions.append(end.action)
        rewards.append(0.0)
    if len(states) == H:
        states.append(end.state)
    return tuple(states), tuple(actions), tuple(float(reward) for reward in rewards)


def schema_of(*, end=False, first_step=0, **more):
    """A schema of SPEC."""
    return Schema(spec=SPEC, end_state=EndState(state=3, action=1) if end else None, first_step=first_step, **more)
