"""Reports: who is told what."""

from pinfold.nri.dispatch.report import Connected, Disconnected, Fanout, Happening


class Listener:
    """A report that takes one kind."""

    takes = (Connected,)

    def __init__(self) -> None:
        self.heard: list[Happening] = []

    def __call__(self, happening: Happening) -> None:
        self.heard.append(happening)


def test_a_report_is_told_what_it_takes_alone() -> None:
    listener, everything = Listener(), list[Happening]()
    tell = Fanout([listener, everything.append])
    happenings: list[Happening] = [
        Connected("containerd"),
        Disconnected("gone", None),
        Connected("again"),
    ]
    for one in happenings:
        tell(one)
    assert listener.heard == [happenings[0], happenings[2]]
    assert everything == happenings
