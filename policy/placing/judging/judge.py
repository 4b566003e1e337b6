"""Judges of newcomers: required and preferred rules, held against the containers that are there."""

from ...annotations.annotations import effective
from ...books.books import Books
from ...books.ties import is_held, is_tied
from ...configuration.config import Config
from ...model.container import Container, ContainerId
from ...model.request import Request
from ...rules.podaffinity.rule_set import NO_PLACEMENT_RULES, PlacementRules
from ..wishes.own_cpus import HIDE_KEY
from .judgement import Judgement
from .restriction import Restriction
from .rule_reading import RuleReading
from .scene import Scene
from .uncounted_rules import first_of_each_namespace


class Judge:
    """Reads the rules of newcomers and of those that are there, and changes nothing."""

    def __init__(self, books: Books, config: Config) -> None:
        """Reads the books, never changes them."""
        self._books = books
        self._config = config

    def judge(
        self,
        container: Container,
        rules: PlacementRules,
        request: Request,
        scene: Scene | None = None,
        *,
        has_pulls: bool = True,
    ) -> Judgement | None:
        """The judgement about a container; None where no rule has anything to say.

        `scene`: that of a judgement before it, where nobody's place has changed since.
        `has_pulls`: whether preferred rules count, too; where nobody is placed by it they need not.
        """
        standing = self._books.standing
        cores = self._whole_cores(container, request) if request.whole_cores else None
        if rules is NO_PLACEMENT_RULES and not standing.rules and cores is None:
            return None
        matching, uncounted = first_of_each_namespace(standing.matching(container))
        about_it = matching
        if not has_pulls:
            matching = [one for one in matching if one.is_required_anti]
        if not rules and not matching and cores is None:
            return None
        pen_id = self._books.pen_around(container.id)
        known = scene or Scene(self._books, pen_id)
        reading = RuleReading(
            self._books, self._config, container, rules, request, known, has_pulls, about_it
        )
        if cores is not None:
            (reading.own if pen_id is None else reading.inside).append(cores)
        found = reading.read(matching, uncounted)
        return None if found.is_silent else found

    def _whole_cores(self, container: Container, request: Request) -> Restriction:
        """The cpus outside of idle cores, as those that a container must not have."""
        ledger, root = self._books.ledger, self._books.tree.root
        free = ledger.slice(root.id) | ledger.free_isolated[root.id]
        held = ledger.grants.get(container.id)
        own = held.exclusive.mask if held is not None else 0
        idle = self._books.picker.cores.idle_full(root.cpus.mask, free | own)
        setting = effective(container.pod.annotations, HIDE_KEY, container.name)
        return Restriction(
            text=setting.key if setting is not None else HIDE_KEY,
            owner=container.path,
            owner_id=container.id,
            can_break=request.fallback is not None,
            wanted="idle cores",
            forbidden=root.cpus.mask & ~idle,
        )

    def is_bound(self, container_id: ContainerId) -> bool:
        """Whether rules of its own, or anti-affinity of others, hold a resident where it is.

        And a pen, where they hold one of the containers in it.
        """
        standing, ledger = self._books.standing, self._books.ledger
        if not standing.rules:
            return False
        if container_id in ledger.pens:
            return any(map(self.is_bound, ledger.members(container_id)))
        grant = ledger.grants[container_id]
        if grant.within is not None or is_held(standing.of(container_id)):
            return True
        container = self._books.affinity.residents.container(container_id)
        return standing.is_kept_apart(container)

    def is_tied(self, container_id: ContainerId) -> bool:
        """Whether to move a resident might break a required rule, of its own or of others."""
        books, standing = self._books, self._books.standing
        container = books.affinity.residents.container(container_id)
        grant = books.ledger.grants[container_id]
        return is_tied(container, grant, standing) or standing.spreads.is_counted(container)
