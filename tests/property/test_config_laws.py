from typing import cast

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Amounts, Config, OnBadAnnotation, OnUnsatisfiable
from pinfold.policy.configuration.config_text import (
    build_config,
    format_config,
    parse_config_document,
    read_config,
)
from pinfold.policy.model.cpu_preference import BurstLevel, CpuPriority
from pinfold.policy.text.errors import ConfigError
from pinfold.policy.text.yaml_document import Document, mapping_of, merge, parse_document


def cpu_lists(first: int, last: int) -> st.SearchStrategy[str]:
    return st.sets(st.integers(first, last), min_size=1, max_size=5).map(
        lambda cpus: ",".join(str(cpu) for cpu in sorted(cpus))
    )


# Only what is available can be reserved.
EXCLUDED, RESERVED = cpu_lists(256, 511), cpu_lists(0, 255)
CONFIGS = st.builds(
    Config,
    pin_cpu=st.booleans(),
    pin_memory=st.booleans(),
    prefer_isolated_cpus=st.booleans(),
    prefer_shared_cpus=st.booleans(),
    colocate_pods=st.booleans(),
    colocate_namespaces=st.booleans(),
    reserved_pool_namespaces=st.lists(
        st.text("abc*?-yesno0123", min_size=1, max_size=8), max_size=3
    ).map(tuple),
    available_resources=st.builds(
        Amounts, cpu=st.none() | EXCLUDED.map("exclude-cpuset:{}".format)
    ),
    reserved_resources=st.builds(
        Amounts,
        cpu=st.integers(1, 9000).map("{}m".format) | RESERVED.map("cpuset:{}".format),
        memory=st.none() | st.integers(0, 2000).map("{}Mi".format),
    ),
    default_cpu_priority=st.sampled_from(CpuPriority),
    unlimited_burstable=st.sampled_from(BurstLevel),
    symmetric_affinity=st.booleans(),
    on_bad_annotation=st.sampled_from(OnBadAnnotation),
    on_unsatisfiable=st.sampled_from(OnUnsatisfiable),
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)
FIELD_NAMES = [field.encode_name for field in msgspec.structs.fields(Config)]


@settings(deadline=None, max_examples=100)
@given(CONFIGS)
def test_a_configuration_reads_back_as_it_was_written(config: Config) -> None:
    checked = read_config(format_config(config))
    assert checked.config == config


@settings(deadline=None, max_examples=60)
@given(CONFIGS, CONFIGS)
def test_a_full_document_on_top_leaves_nothing_of_the_one_below(one: Config, other: Config) -> None:
    # Fields without value are not written, so they are nulls here: "back to the default".
    text = yaml.safe_dump(msgspec.to_builtins(other))
    documents = [parse_config_document(format_config(one), "one"), parse_config_document(text, "b")]
    assert build_config(documents).config == other


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from([*FIELD_NAMES, "spec", "pinCpu"]), PLAIN, max_size=4))
def test_any_document_is_read_or_refused_with_its_place(values: dict[str, object]) -> None:
    complaint = ""
    try:
        build_config([parse_config_document(yaml.safe_dump(values), "f.yaml")])
    except ConfigError as error:
        complaint = str(error)
    assert all(line.startswith("f.yaml:") for line in complaint.splitlines())


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60) | st.text("ab:{}[]&*!-?|>'\"#, \n\t", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for fault in parse_document(text, "f.yaml").faults:
        assert fault.line.startswith("f.yaml")


@settings(deadline=None, max_examples=100)
@given(st.lists(st.dictionaries(st.text("ab", max_size=2), PLAIN, max_size=3), max_size=3))
def test_merging_knows_the_place_of_every_value(values: list[dict[str, object]]) -> None:
    merged = Document({})
    for index, one in enumerate(values):
        merged = merge(merged, parse_document(yaml.safe_dump(one, allow_unicode=True), f"{index}"))
    stack: list[tuple[tuple[str | int, ...], object]] = [((), merged.values)]
    seen = set[tuple[str | int, ...]]()
    while stack:
        path, value = stack.pop()
        seen.add(path)
        if (mapping := mapping_of(value)) is not None:
            stack.extend(((*path, key), inner) for key, inner in mapping.items())
        elif isinstance(value, list):
            items = cast("list[object]", value)
            stack.extend(((*path, index), inner) for index, inner in enumerate(items))
    assert set(merged.places) | {()} == seen


# One line each, none of which changes what another one means, and a piece of its complaint.
FAULTS = {
    "pinCPU: perhaps": "pinCPU: 'perhaps'",
    "defaultCPUPriority: hihg": "did you mean 'high'?",
    "colocatePod: true": "did you mean 'colocatePods'?",
    "pinMemory: !!binary x": "is not accepted — leave it out",
    "symmetricAffinity: true\nsymmetricAffinity: true": "is written twice",
    "reservedPoolNamespaces: [a, '[', 3]": "reservedPoolNamespaces[1]: '['",
    "availableResources: {cpu: 4}": "does not say which cpus",
    "reservedResources: {memory: 5x}": "failed to parse",
    "schedulingClasses: [{name: a, policy: fifo}, {name: b, nice: 99}]": "99 is out of range",
    "namespaceSchedulingClasses: {x: gone}": "unknown class 'gone'",
    "cpuClasses: [{name: a, minFreq: 2GHz, maxFreq: 1GHz}, {name: b, sstClosID: x}]": "swap them",
    "reservedPoolCPUClass: nobody": 'unknown reserved CPU class "nobody"',
    "instrumentation: {httpEndpoint: 'x y', reportPeriod: 5q}": "instrumentation.reportPeriod",
}


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(sorted(FAULTS)), unique=True, min_size=1))
def test_every_fault_is_told_at_once(lines: list[str]) -> None:
    complaint = ""
    try:
        read_config("\n".join(lines), "f.yaml")
    except ConfigError as error:
        complaint = str(error)
    for line in lines:
        assert FAULTS[line] in complaint
    found = [int(line.split(":")[1]) for line in complaint.splitlines()]
    assert found == sorted(found)
