"""Where containers are: how many in each domain."""

from pinfold.policy.books.books import Books
from pinfold.policy.books.whereabouts import Whereabouts
from pinfold.policy.configuration.config import Config
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level


def test_domains_are_counted_for_each_kind_of_cpus() -> None:
    books = Books(machine_from_spec("socket:2 core:2 mem:1G"), Config())
    whereabouts = Whereabouts(books)
    assert whereabouts.domains_by_count(Level.SOCKET, 0, 0b0001) == {0: 0b0001}
    assert whereabouts.domains_by_count(Level.SOCKET, 0, 0b1111) == {0: 0b0101}
