"""`python -m tests.bench`: everything that can be measured anywhere, in about a minute.

A process of its own: the garbage collector has the daemon's objects to look at, and no test
runner's.
"""

from tests.bench.benchmarks import benchmarks
from tests.bench.figure import HEADER, OUTPUT, Figure, write_json
from tests.bench.population import UNREAD_PERCENT

CONDITIONS = f"""\
Garbage is collected as in the daemon, between events. Half of the pods have affinity rules;
{UNREAD_PERCENT} of 100 pods are of a workload that is new to the policy, the others are replicas.
"""


def main() -> None:
    """Print a table line by line, and write it to `bench.json`."""
    print(CONDITIONS)
    print(HEADER)
    figures: list[Figure] = []
    for benchmark in benchmarks():
        figures.append(benchmark.measure())
        print(figures[-1].row(), flush=True)
    write_json(OUTPUT, figures)


if __name__ == "__main__":
    main()
