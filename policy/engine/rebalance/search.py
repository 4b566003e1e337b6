"""A search for better placements: simulated annealing, then single moves and exchanges.

Chance is seeded and effort is counted in steps, not in seconds: the same containers in the same
places have the same outcome. Everything is in integers.
"""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from .model import PlacementModel

_STAGES: Final = 60
"""Temperatures, from hot to cold."""
_HALVINGS: Final = 8
"""How often the temperature is halved from the first stage to the last."""
_64_BITS: Final = (1 << 64) - 1
_FRIENDLY_PERCENT: Final = 80
"""So many of the pools that are tried are those of friends."""
_SHARES: Final = 1 << 10
# What -ln of a share is: a loss is taken with the chance e^(-loss/temperature).
_LOGARITHMS: Final = tuple(
    round(_SHARES * -math.log((share + 0.5) / _SHARES)) for share in range(_SHARES)
)


class Effort(Struct, frozen=True, kw_only=True):
    """The length of a search."""

    steps: int
    """Moves tried while annealing, over all restarts."""
    restarts: int = 1
    seed: int = 1


class Chance:
    """Numbers by chance, the same for the same seed on every machine.

    A linear congruential generator of 64 bits, of which the upper half is used. Source: Knuth, The
    Art of Computer Programming, volume 2, section 3.3.4 (MMIX).
    """

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, count: int) -> int:
        """A number from 0 to below `count`, which is at most 2^32."""
        self._state = state = (self._state * 6364136223846793005 + 1442695040888963407) & _64_BITS
        return (state >> 32) * count >> 32


def improve(model: PlacementModel, effort: Effort) -> int:
    """Bring a model's containers to a better placement; what that gains, never less than 0."""
    search = _Search(model, Chance(effort.seed))
    return search.run(effort)


class _Search:
    """One search over the movable containers of a model."""

    def __init__(self, model: PlacementModel, chance: Chance) -> None:
        self._model = model
        self._chance = chance
        self._movable = [index for index in model.movable if model.tenants[index].targets]
        self._friends: list[list[int]] = [[] for _ in model.tenants]
        for weights in model.weights:
            for index, own in enumerate(weights):
                self._friends[index] += [other for other, weight in own.items() if weight > 0]
        self._caring = [
            index
            for index in range(len(model.tenants))
            if any(weights[index] for weights in model.weights)
        ]
        movable = set(self._movable)
        self._active = [index for index in self._caring if index in movable]
        self._targets = [frozenset(map(int, one.targets)) for one in model.tenants]

    def run(self, effort: Effort) -> int:
        """The gain of the best placement that is found; the model is left there."""
        model = self._model
        best, best_gain = list(model.place), 0
        if not self._active:
            return 0
        # A first look downhill costs little, and is often near enough for a few containers.
        gain = self.descend()
        if gain > best_gain:
            best, best_gain = list(model.place), gain
        for restart in range(effort.restarts):
            if restart:
                model.put(best)
                gain = best_gain
            places, gain = self._anneal(effort.steps // effort.restarts, self._hot(restart), gain)
            model.put(places)
            gain += self.descend()
            if gain > best_gain:
                best, best_gain = list(model.place), gain
        model.put(best)
        return best_gain

    def _hot(self, restart: int) -> int:
        """The first temperature, by what others can count to a container; higher every time."""
        model = self._model
        total = sum(
            abs(weight) * layer.most
            for layer, weights in zip(model.objective.layers, model.weights, strict=True)
            for index in self._active
            for weight in weights[index].values()
        )
        return max(1, (total << restart) // len(self._active) // 8)

    def _anneal(self, steps: int, hot: int, gain: int) -> tuple[Sequence[int], int]:
        """The best placement on the way, and its gain."""
        model, below = self._model, self._chance.below
        best, best_gain = list(model.place), gain
        active, count = self._active, len(self._active)
        place, worth, fits = model.place, model.worth, model.fits
        per_stage = max(1, steps // _STAGES)
        for stage in range(_STAGES):
            temperature = max(1, hot >> (_HALVINGS * stage // _STAGES))
            for _ in range(per_stage):
                index = active[below(count)]
                target = self._target(index)
                source = place[index]
                if target == source:
                    continue
                limit = -temperature * _LOGARITHMS[below(_SHARES)] // _SHARES
                own = worth(index, target) - worth(index, source)
                if fits(index, target):
                    if own >= limit:
                        model.move(index, target)
                        gain += own
                        if gain > best_gain:
                            best, best_gain = list(place), gain
                    continue
                members = model.members[target]
                if not members:
                    continue
                other = list(members)[below(len(members))]
                if source not in self._targets[other]:
                    continue
                own = model.swapped(index, other, own)
                if own >= limit and model.swap_fits(index, other):
                    model.move(index, target)
                    model.move(other, source)
                    gain += own
                    if gain > best_gain:
                        best, best_gain = list(place), gain
        return best, best_gain

    def _target(self, index: int) -> int:
        """A pool to try: that of a friend most of the time, else any."""
        below = self._chance.below
        friends, targets = self._friends[index], self._model.tenants[index].targets
        if friends and below(100) < _FRIENDLY_PERCENT:
            target = self._model.place[friends[below(len(friends))]]
            if target in self._targets[index]:
                return target
        return targets[below(len(targets))]

    def descend(self) -> int:
        """Move single containers and exchange pairs as long as that gains; the gain."""
        total, has_moved = 0, True
        while has_moved:
            has_moved = False
            for index in self._active:
                gain = self._best_move(index)
                total += gain
                has_moved |= gain > 0
        return total

    def _best_move(self, index: int) -> int:
        model = self._model
        source = model.place[index]
        here = model.worth(index, source)
        pairs = zip(model.worths(index), model.tenants[index].targets, strict=True)
        ranked = sorted([(one - here, target) for one, target in pairs if one > here], reverse=True)
        for gain, target in ranked:
            if model.fits(index, target):
                model.move(index, target)
                return gain
            for other in list(model.members[target]):
                if source not in self._targets[other]:
                    continue
                exchanged = model.swapped(index, other, gain)
                if exchanged > 0 and model.swap_fits(index, other):
                    model.move(index, target)
                    model.move(other, source)
                    return exchanged
        return 0
