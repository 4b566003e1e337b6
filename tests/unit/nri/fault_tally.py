"""A tally of what tests ask for besides: updates, missing hints and faults of ours."""

from pinfold.nri.dispatch.report import Crashed, Happening, HintsMissing, Tally, Updated


class FaultTally(Tally):
    takes = (*Tally.takes, Updated, HintsMissing, Crashed)

    def __init__(self) -> None:
        super().__init__()
        self.updates = 0
        self.failed_updates = 0
        self.unhinted = 0
        """Containers that were placed before what they are near was known."""
        self.crashes = 0

    def __call__(self, happening: Happening) -> None:
        match happening:
            case Updated(containers=containers, error=""):
                self.updates += len(containers)
            case Updated(containers=containers):
                self.failed_updates += len(containers)
            case HintsMissing(containers=containers):
                self.unhinted += containers
            case Crashed():
                self.crashes += 1
            case _:
                super().__call__(happening)
