import pytest

from pinfold.policy.annotations.annotation_keys import CRI_DOMAIN, KEYS, NRI_DOMAIN, OWN_DOMAIN
from pinfold.policy.annotations.annotations import (
    NO_ANNOTATIONS,
    Scope,
    annotation_problems,
    effective,
    own_annotations,
    read_annotations,
)
from pinfold.policy.model.container import Pod, PodId

MEMORY = "memory-type"


def memory(annotations: dict[str, str], container: str = "main") -> tuple[str, Scope] | None:
    setting = effective(annotations, MEMORY, container)
    return (setting.value, setting.scope) if setting else None


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({"memory-type.resource-policy.nri.io": "dram"}, ("dram", Scope.UNSCOPED)),
        ({"memory-type.resource-policy.nri.io/pod": "dram"}, ("dram", Scope.POD)),
        ({"memory-type.resource-policy.nri.io/container.main": "hbm"}, ("hbm", Scope.CONTAINER)),
        ({"memory-type.resource-policy.nri.io/container.other": "hbm"}, None),
        (
            {
                "memory-type.resource-policy.nri.io": "dram",
                "memory-type.resource-policy.nri.io/container.main": "hbm",
                "memory-type.resource-policy.nri.io/pod": "pmem",
            },
            ("hbm", Scope.CONTAINER),
        ),
        (
            {
                "memory-type.resource-policy.nri.io": "dram",
                "memory-type.resource-policy.nri.io/pod": "pmem",
            },
            ("pmem", Scope.POD),
        ),
        ({"memory-type.cri-resource-manager.intel.com/pod": "hbm"}, ("hbm", Scope.POD)),
        (
            {
                "memory-type.cri-resource-manager.intel.com/pod": "hbm",
                "memory-type.resource-policy.nri.io/pod": "dram",
            },
            ("dram", Scope.POD),
        ),
        (
            {
                "memory-type.cri-resource-manager.intel.com/container.main": "hbm",
                "memory-type.resource-policy.nri.io/pod": "dram",
            },
            ("hbm", Scope.CONTAINER),
        ),
        (
            {"resource-policy.nri.io/memory-type": "main: hbm\nother: dram\n"},
            ("hbm", Scope.CONTAINER),
        ),
        (
            {"resource-policy.nri.io/memory-type": "main: [hbm, dram]"},
            ("hbm,dram", Scope.CONTAINER),
        ),
        ({"cri-resource-manager.intel.com/memory-type": "main: hbm"}, ("hbm", Scope.CONTAINER)),
        ({"cri-resource-manager.intel.com/memory-type": "hbm"}, ("hbm", Scope.POD)),
        ({"resource-policy.nri.io/memory-type": "other: hbm"}, None),
        (
            {
                "resource-policy.nri.io/memory-type": "main: hbm",
                "memory-type.cri-resource-manager.intel.com/container.main": "dram",
            },
            ("dram", Scope.CONTAINER),
        ),
        ({"memory-type.pinfold.dev/pod": "hbm"}, None),
    ],
)
def test_the_most_specific_setting_counts(
    annotations: dict[str, str], expected: tuple[str, Scope] | None
) -> None:
    assert memory(annotations) == expected


def test_a_map_of_maps_gives_each_container_its_own() -> None:
    text = "main:\n  duration: 60s\nother:\n  duration: 5s\n"
    setting = effective({"resource-policy.nri.io/cold-start": text}, "cold-start", "main")
    assert setting is not None
    assert setting.value == '{"duration": "60s"}'


def test_a_map_that_is_a_value_is_not_taken_for_containers() -> None:
    annotations = {"cri-resource-manager.intel.com/cold-start": "duration: 60s"}
    setting = effective(annotations, "cold-start", "anyone")
    assert setting is not None
    assert (setting.value, setting.scope) == ("duration: 60s", Scope.POD)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_key_of_the_table_is_known_in_all_its_forms(key: object) -> None:
    for known in [one for one in KEYS if one is key]:
        for domain in known.domains:
            forms = [f"{known.name}.{domain}{end}" for end in ("", "/pod", "/container.x")]
            written = [f"{domain}/{known.name}"] if known.is_plain else forms
            assert known.written(domain) in written
            for form in written:
                assert read_annotations({form: "x: y"}).problems == ()


@pytest.mark.parametrize(
    ("key", "what", "fix"),
    [
        ("prefer-isolated-cpu.resource-policy.nri.io/pod", "unknown annotation", "-cpus.resource-"),
        ("prefer_shared_cpus.resource-policy.nri.io", "unknown annotation", "prefer-shared-cpus."),
        (
            "resource-policy.nri.io/afinity",
            "unknown annotation",
            "'resource-policy.nri.io/affinity'",
        ),
        ("afinity.pinfold.dev/pod", "unknown annotation", "'affinity.pinfold.dev/pod'"),
        ("affinity.resource-policy.nri.io/pod", "unknown", "'resource-policy.nri.io/affinity'"),
        ("memory-type.pinfold.dev/pod", "unknown", "'memory-type.resource-policy.nri.io/pod'"),
        ("smt.resource-policy.nri.io/container.a", "unknown", "'smt.pinfold.dev/container.a'"),
        ("pinfold.dev/smt", "unknown", "'smt.pinfold.dev/pod'"),
        ("nodeSelector.pinfold.dev/pod", "unknown", "'pool-selector.pinfold.dev/pod'"),
        (
            "pinfold.dev/rack",
            "unknown annotation 'rack'",
            "it is a label: write 'pinfold.dev/rack'",
        ),
        ("rack.pinfold.dev/pod", "unknown annotation 'rack'", "it is a label: write"),
        (
            "pinfold.dev/resource_set",
            "unknown annotation",
            "write 'pinfold.dev/resource-set' under",
        ),
        ("podAffinty.pinfold.dev/pod", "unknown", "podAffinity in 'affinity.pinfold.dev/pod'"),
        ("pinfold.dev/pod-anti-afinity", "unknown", "podAntiAffinity in 'affinity.pinfold.dev/"),
        (
            "affinity.pinfold.dev/podAffinty",
            "unknown scope 'podAffinty'",
            "write podAffinity inside 'affinity.pinfold.dev/pod'",
        ),
        ("affinity.pinfold.dev/topology-spread", "unknown scope", "write topologySpread inside"),
        ("pinfold.dev/nodeName", "unknown annotation", "'pool-name.pinfold.dev/pod'"),
        ("node-affinity.pinfold.dev/container.a", "unknown", "write poolAffinity in 'affinity.pin"),
        ("podAntiAffinity.pinfold.dev/pod", "unknown", "write podAntiAffinity in 'affinity."),
        ("topologySpreadConstraints.pinfold.dev/pod", "unknown", "write topologySpread in 'aff"),
        (
            "pinfold.dev/xyzzy",
            "unknown annotation 'xyzzy'",
            "one of affinity, anti-affinity, exclusive, ",
        ),
        ("memory-type.resource-policy.nri.io/pods", "unknown scope 'pods'", "container.NAME"),
        ("memory-type.resource-policy.nri.io/container.", "unknown scope", "container.NAME"),
        ("memory-type.resource-policy.nri.io/", "unknown scope ''", "container.NAME"),
        ("resource-policy.nri.io/memory-type", "not a mapping", "memory-type.resource-policy"),
        ("resource-manager.nri.io/affinity", "unknown domain", "'resource-policy.nri.io/affinity'"),
        (
            "prefer-shared-cpus.resource-manager.nri.io/pod",
            "unknown domain",
            "'prefer-shared-cpus.resource-policy.nri.io/pod'",
        ),
        ("resource-policy.nri.com/affinity", "unknown domain", "'resource-policy.nri.io/affinity'"),
        (
            "cpu.preserve.resource-polcy.nri.io/pod",
            "unknown domain",
            "'cpu.preserve.resource-policy",
        ),
        ("smt.pinfold.de/pod", "unknown domain 'pinfold.de'", "'smt.pinfold.dev/pod'"),
        ("resource-policy.nri.io", "unknown annotation ''", "write 'KEY."),
    ],
)
def test_a_wrong_key_is_reported_with_what_was_meant(key: str, what: str, fix: str) -> None:
    (problem,) = read_annotations({key: "true"}).problems
    assert problem.where == key
    assert what in problem.what
    assert fix in problem.fix
    assert not problem.is_fatal


@pytest.mark.parametrize(
    "key",
    [
        "kubernetes.io/config.seen",
        "prometheus.io/scrape",
        "memory-qos.nri.io/class.main",
        "required-plugins.noderesource.dev/pod",
        "noderesource.dev/resources",
        "devices.nri.io/pod",
        "example.com/resource-quota",
        "",
        "/",
    ],
)
def test_annotations_of_others_are_none_of_our_business(key: str) -> None:
    assert not read_annotations({key: "[broken: {"}).problems


def test_a_pod_without_our_annotations_is_not_read_at_all() -> None:
    foreign = {"kubernetes.io/config.seen": "now", "checksum/config": "abc"}
    assert own_annotations(foreign) == ()
    assert read_annotations(foreign) is NO_ANNOTATIONS


def test_a_broken_map_is_a_problem_with_a_place() -> None:
    key = "resource-policy.nri.io/memory-type"
    pod = Pod(id=PodId("p"), name="web", annotations={key: "main: hbm\nmain: dram"})
    (problem,) = annotation_problems(pod)
    assert str(problem).startswith(f"{key} of default/web:2:1: 'main' is given twice")


def test_the_domains_are_all_different() -> None:
    assert len({OWN_DOMAIN, NRI_DOMAIN, CRI_DOMAIN}) == 3
