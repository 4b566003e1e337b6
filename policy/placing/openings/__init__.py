"""Openings: the cpus that rules between containers leave to a newcomer, and how room is made there.

`PlaceFinder.find_by_rules` asks for them in this order, until there is a place:

1. `OpeningSearch.strict` tells of each pool the best region where every required rule holds.
2. `find_narrowings` tells where all of them hold once residents make way inside their pools, and
   `find_fillings` where they do once the newcomer takes the last cpus that others share in a
   domain; `Crowds` tells which residents in the way may make way.
3. Lifting, which is not of this package, makes room in a pool that 1 leaves whole.
4. `broken_place` tells of each pool where the fewest rules break that may.
5. Where several break there, or there is no such place, `concessions` gives up the rules that may
   break and takes back one after the other, as long as 1 or 2 have a place for the rest; the
   newcomer goes there if fewer break by it.
6. Lifting is tried once more, by those rules alone that never break; then it is refused.

All but lifting end in `Openings`, a region of each pool, among which a pool is chosen. Whether a
region has what is asked for is told by `OpeningSearch.fits`; `CpuBounds` and `sure_parts` tell it
without a look at each, where they can.

For 4 `Breaking` divides what rules leave that insist into parts on which the same rules break, and
takes the cheapest that fits by `BreakingCosts`, of equal ones the first by `PartRanks`: one part,
with the others where no more breaks, or several together. Parts that are whole narrow domains may
be thousands: `NarrowParts` makes only those that a pool may get.

The text of a refusal is made of the `Objections` to each pool, of the rules that these do not name
(`unnamed_rules`), and of who would make way in `unruled` books. Rules that did not hold before a
restart are `known_breaches`; `Regrowth` gives back what residents left, once those are gone for
whom they left it.
"""
