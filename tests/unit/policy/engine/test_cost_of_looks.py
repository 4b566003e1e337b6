"""What looks at many residents cost: nothing is asked once more for each of them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
from msgspec.structs import replace

from pinfold.policy.books.books import Books
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.policy.placing.judging.judgement import Judgement
from pinfold.policy.placing.judging.rule_look import RuleLook
from tests.unit.counted_calls import count_calls
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    PREFERRED,
    apart,
    container_of,
    engine_of,
    near,
    term,
)

_IS_SHOP: Final = {"key": "app", "operator": "In", "values": ["shop"]}
_SYSTEM: Final = {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["system"]}]}
_WIDE: Final = {"poolAffinity": {PREFERRED: [{"weight": 9, "preference": _SYSTEM}]}}


def test_a_look_at_many_asks_once_where_those_are_whom_rules_keep_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = 60
    engine = engine_of("socket:1 numa:1 core:8 thread:2 mem:32G")
    rules = {"podAntiAffinity": {LASTING: [term("core", "web"), term("numa", "web")]}}
    for number in range(many):
        engine.create(container_of(f"web{number}", 0.01, rules, app="web"))
    asked = _asked_for(monkeypatch)
    assert any(engine.look_at_rules().values())
    assert len(asked) < 5 * many


def test_a_resize_asks_where_those_are_whom_rules_keep_away_before_it_and_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = 40
    engine = engine_of("socket:1 numa:1 core:8 thread:2 mem:32G")
    for number in range(many):
        web = container_of(f"web{number}", 0.01, apart(term("core", "web")), app="web")
        engine.create(web)
    asked, (resized, *_) = _asked_for(monkeypatch), engine.containers.values()
    assert engine.decisions[resized.id].unmet
    more = replace(resized.resources, cpu_request_milli=20)
    assert isinstance(engine.update(resized.id, more).result, Grant)
    assert len(asked) < 3 * many


def test_nobody_of_a_crowd_that_is_spread_unevenly_is_looked_at_as_one_of_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:32G")
    full = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    engine.create(container_of("full", 4, annotations=full))
    spread = {"topologySpread": [{**term("numa", "web"), "maxSkew": 1}]}
    for number in range(70):
        engine.create(container_of(f"web{number}", 0.01, spread, app="web"))
    last = ContainerId("web69-main")
    while engine.compact(last):
        pass
    assert engine.decisions[last].unmet
    looked_at, judgement = list[ContainerId](), RuleLook.judgement

    def counted(look: RuleLook, container_id: ContainerId) -> Judgement | None:
        looked_at.append(container_id)
        return judgement(look, container_id)

    monkeypatch.setattr(RuleLook, "judgement", counted)
    engine.remove(ContainerId("web0-main"))
    while engine.compact(last):
        pass
    assert not looked_at


def test_nobody_of_a_crowd_is_looked_at_as_one_more_comes_to_the_crowded_domain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:32G")
    full = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    engine.create(container_of("full", 4, annotations=full))
    spread = {"topologySpread": [{**term("numa", "web"), "maxSkew": 1}]}
    first = ContainerId("web1-main")

    def created(name: str, at: Mapping[str, str], rules: Mapping[str, Any] | None = None) -> None:
        engine.create(container_of(name, 0.01, rules, app="web", annotations=at))
        while engine.compact(first):
            pass

    for number in range(72):
        created(f"web{number}", {}, spread)
    told = engine.decisions[first].unmet
    assert told
    looked_at, judgement = list[ContainerId](), RuleLook.judgement

    def counted(look: RuleLook, container_id: ContainerId) -> Judgement | None:
        looked_at.append(container_id)
        return judgement(look, container_id)

    monkeypatch.setattr(RuleLook, "judgement", counted)
    created("web72", {}, spread)
    assert not looked_at
    engine.remove(ContainerId("full-main"))
    for number in range(71):
        created(f"other{number}", full)
    assert engine.decisions[first].unmet, "73 are two more than 71"
    assert engine.decisions[first].unmet != told, "it names how many there may be"
    created("other71", full)
    assert not any(decision.unmet for decision in engine.decisions.values())


def test_one_of_a_crowd_is_looked_at_for_all_as_one_more_comes_to_the_emptiest_domain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The text of each names what that domain may hold."""
    engine, crowd, few = engine_of("socket:1 numa:2 core:4 mem:32G"), 120, 8
    full = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    spread = {"topologySpread": [{**term("numa", "web"), "maxSkew": 1}]}
    engine.create(container_of("full", 4, annotations=full))
    for number in range(crowd):
        engine.create(container_of(f"web{number}", 0.01, spread, app="web"))
    engine.remove(ContainerId("full-main"))
    while engine.compact(ContainerId("")):
        pass
    looked_at, judgement = list[ContainerId](), RuleLook.judgement

    def counted(look: RuleLook, container_id: ContainerId) -> Judgement | None:
        looked_at.append(container_id)
        return judgement(look, container_id)

    monkeypatch.setattr(RuleLook, "judgement", counted)
    for number in range(few):
        engine.create(container_of(f"other{number}", 0.01, app="web", annotations=full))
        while engine.compact(ContainerId("")):
            pass
    told = [engine.decisions[ContainerId(f"web{number}-main")].unmet for number in range(1, crowd)]
    wanted = f"it wants a NUMA node with at most {few} of these containers, as that of cpus 4-7"
    assert {text.rpartition(": ")[2] for (text,) in told} == {wanted}
    assert len({text for (text,) in told}) == crowd - 1, "each names its owner"
    assert len(looked_at) < few * crowd / 10


def test_who_breaks_another_rule_is_not_looked_at_for_spread_that_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:32G")
    spread = {"topologySpread": [{**term("numa", "web"), "maxSkew": 1}]}
    nowhere = {"pool-name.pinfold.dev/pod": "NUMA node #7"}
    webs = [container_of(f"web{n}", 0.01, spread, app="web", annotations=nowhere) for n in range(3)]
    engine.create(webs[0])
    assert engine.decisions[webs[0].id].unmet
    looked_at, judgement = list[ContainerId](), RuleLook.judgement

    def counted(look: RuleLook, container_id: ContainerId) -> Judgement | None:
        looked_at.append(container_id)
        return judgement(look, container_id)

    monkeypatch.setattr(RuleLook, "judgement", counted)
    for one in webs[1:]:
        engine.create(one)
        while engine.compact(one.id):
            pass
    assert not looked_at


def _asked_for(monkeypatch: pytest.MonkeyPatch) -> list[ContainerId]:
    """The containers of which it is asked where they are, from now on."""
    asked, reaches = list[ContainerId](), Books.reaches

    def counted(books: Books, container_ids: Iterable[ContainerId]) -> list[int]:
        ids = [*container_ids]
        asked.extend(ids)
        return reaches(books, ids)

    monkeypatch.setattr(Books, "reaches", counted)
    return asked


def test_who_is_required_is_asked_once_for_all_who_made_way_for_one_that_leaves() -> None:
    few, many = (_calls_of_the_departure_of_a_shop(webs) for webs in (2, 10))
    assert many < few + 8 * 250


def _calls_of_the_departure_of_a_shop(webs: int) -> int:
    """Of one for whom so many made way, each of whom as many rules may require."""
    engine = engine_of("socket:2 numa:2 core:4 thread:2 mem:4G")
    for n in range(webs):
        rules = {**apart(term("numa", "shop")), **_WIDE}
        engine.create(container_of(f"web{n}", 0.1, rules, app="web"))
    shop = container_of("shop", 0.1, app="shop")
    assert engine.create(shop).changes
    for n in range(40):
        absent = {"key": f"k{n}", "operator": "DoesNotExist"}
        rule = {"topologyKey": "socket", "labelSelector": {"matchExpressions": [absent, _IS_SHOP]}}
        engine.create(container_of(f"fan{n}", 0.01, near(rule)))
    return count_calls(lambda: engine.stop(shop.id))


def test_a_turn_looks_at_fewer_owners_where_each_is_apart_from_hundreds() -> None:
    few, many = (_owners_in_one_turn(webs) for webs in (50, 400))
    assert (few, many) == (20, 14)


def _owners_in_one_turn(webs: int) -> int:
    engine = engine_of("socket:1 numa:1 core:8 thread:2 mem:32G")
    rules = {"podAntiAffinity": {LASTING: [term("core", "web")]}}
    for number in range(webs):
        engine.create(container_of(f"web{number}", 0.01, rules, app="web"))
    return len(engine.look_at_rules())
