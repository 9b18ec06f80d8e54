"""Compiled: rows of a table, episode by episode, become trajectories. Imported when first needed."""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int8, int32, int64, njit, void
from numpy.typing import NDArray

from tacit._signatures import readable, writable

__all__ = ["COMPLETED", "CUT", "EMPTY", "assemble"]

EMPTY, CUT, COMPLETED = 1, 2, 4
"""What became of an episode: ⊥, or some of its rows lie behind step H, or it was completed with the end state."""

_Whole = NDArray[np.int32]


@njit(
    void(
        readable(int64, 1),
        readable(int64, 1),
        readable(int32, 1),
        readable(int32, 1),
        readable(int32, 1),
        readable(float64, 1),
        readable(int32, 1),
        boolean,
        int64,
        int64,
        int64,
        int64,
        writable(int32, 2),
        writable(int32, 2),
        writable(float64, 2),
        writable(int8, 1),
    ),
    cache=True,
    nogil=True,
)
def assemble(
    starts: NDArray[np.int64],
    places: NDArray[np.int64],
    steps: _Whole,
    row_states: _Whole,
    row_actions: _Whole,
    row_rewards: NDArray[np.float64],
    row_next: _Whole,
    has_next: bool,
    state_count: int,
    action_count: int,
    end_state: int,
    end_action: int,
    states: _Whole,
    actions: _Whole,
    rewards: NDArray[np.float64],
    outcome: NDArray[np.int8],
) -> None:
    """Write the episode of rows starts[i], …, starts[i + 1] − 1 to place places[i], unless that is negative.

    Steps count from 0; whatever could not be read is negative, or NaN among the rewards; in `row_next` −1 is a value
    that cannot be read and −2 one that is missing. `end_state` is −1 where none is declared. Everything is written, ⊥
    as −1 and NaN; `outcome` is a sum of the flags above.
    """
    H = actions.shape[1]
    led_to = np.empty(H, dtype=np.int32)
    for episode in range(places.size):
        place = places[episode]
        if place < 0:
            continue
        visited, chosen, paid = states[place], actions[place], rewards[place]
        visited[:] = -1
        good = True
        beyond = False
        count = 0
        for row in range(starts[episode], starts[episode + 1]):
            step = steps[row]
            if step < 0:
                good = False
            elif step >= H:
                beyond = True
                if step == H:  # nothing is done there, but it tells where step H − 1 led
                    good &= visited[H] == -1 and 0 <= row_states[row] < state_count
                    visited[H] = row_states[row]
            else:
                # −1 is a step not seen yet: a state that is none makes the episode ⊥ anyway.
                good &= visited[step] == -1
                good &= 0 <= row_states[row] < state_count
                good &= 0 <= row_actions[row] < action_count
                good &= not np.isnan(row_rewards[row])
                count += 1
                visited[step], chosen[step], paid[step] = row_states[row], row_actions[row], row_rewards[row]
                led_to[step] = row_next[row] if has_next else -2
        flags = CUT if beyond else 0
        if good:
            for step in range(count):
                good &= visited[step] >= 0
        if good and has_next:
            for step in range(count):
                after = led_to[step]
                if after == -2:  # only the last one may be missing
                    good &= step == count - 1
                elif after < 0 or after >= state_count:
                    good = False
                elif step < count - 1 or (count == H and visited[H] >= 0):
                    good &= visited[step + 1] == after
                elif count == H:
                    visited[H] = after
        if good and (count < H or visited[H] < 0):
            good = end_state >= 0 and not beyond
            if good:
                flags |= COMPLETED
                visited[count:] = end_state
                chosen[count:] = end_action
                paid[count:] = 0.0
        if not good:
            flags |= EMPTY
            visited[:] = -1
            chosen[:] = -1
            paid[:] = np.nan
        outcome[place] = flags
