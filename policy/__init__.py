"""Placement of containers: pure functions of values, from annotations to a `Decision`.

No I/O, clock, logger or environment. Imports `topology` only. The folders in order, each of which
may import those before it: text, model, cpus, configuration, pools, annotations, rules, manifests,
hints, memory, tuning, books, placing, engine, inquiry, scenarios.
"""
