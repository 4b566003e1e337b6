import json
import re
import textwrap

import pytest

from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.manifests.manifest import parse_manifests, pods_of
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec, SizedContainer, pod_size
from pinfold.policy.model.container import QosClass, Resources
from pinfold.policy.text.yaml_fields import FieldError, read_fields


def parse(text: str) -> tuple[PodSpec, ...]:
    return parse_manifests(textwrap.dedent(text), "pods.yaml")


def pod(container: str) -> PodSpec:
    (one,) = parse(
        f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: web, namespace: shop, labels: {{app: web}}}}
        spec:
          containers:
          - {{name: main, resources: {container}}}
        """
    )
    return one


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        pytest.param("{}", QosClass.BEST_EFFORT, id="nothing asked is best effort"),
        pytest.param(
            "{requests: {cpu: 0}, limits: {memory: '0'}}",
            QosClass.BEST_EFFORT,
            id="zero amounts count as nothing",
        ),
        pytest.param("{requests: {cpu: 1}}", QosClass.BURSTABLE, id="a request alone is burstable"),
        pytest.param(
            "{limits: {cpu: 2, memory: 1Gi}}",
            QosClass.GUARANTEED,
            id="limits alone are requests too, hence guaranteed",
        ),
        pytest.param(
            "{requests: {cpu: 1500m, memory: 1Gi}, limits: {cpu: 1.5, memory: 1024Mi}}",
            QosClass.GUARANTEED,
            id="equal amounts may be spelt differently",
        ),
        pytest.param(
            "{requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi}}",
            QosClass.BURSTABLE,
            id="a smaller request is burstable",
        ),
        pytest.param(
            "{limits: {cpu: 2}}", QosClass.BURSTABLE, id="cpu without memory is burstable"
        ),
    ],
)
def test_qos_is_that_of_kubernetes(resources: str, qos: QosClass) -> None:
    assert pod(resources).qos is qos


def test_pod_keeps_everything_the_policy_needs() -> None:
    (one,) = parse(
        """
        apiVersion: v1
        kind: Pod
        metadata:
          name: web
          annotations: {hide-hyperthreads.resource-policy.nri.io/pod: "true"}
        spec:
          initContainers:
          - {name: setup}
          - {name: proxy, restartPolicy: Always}
          containers:
          - name: main
            resources:
              requests: {cpu: 250m, memory: 100M}
              limits: {memory: 200M, hugepages-2Mi: 4Mi}
        """
    )
    assert one == PodSpec(
        name="web",
        annotations={"hide-hyperthreads.resource-policy.nri.io/pod": "true"},
        qos=QosClass.BURSTABLE,
        resources=Resources(
            cpu_request_milli=250,
            memory_request_bytes=100_000_000,
            memory_limit_bytes=200_000_000,
        ),
        init_containers=(
            ContainerSpec(name="setup", keeps_running=False),
            ContainerSpec(name="proxy", keeps_running=True),
        ),
        containers=(
            ContainerSpec(
                name="main",
                resources=Resources(
                    cpu_request_milli=250,
                    memory_request_bytes=100_000_000,
                    memory_limit_bytes=200_000_000,
                    hugepage_bytes={2 << 20: 4 << 20},
                ),
            ),
        ),
    )


def test_an_init_container_without_limits_spoils_guaranteed() -> None:
    (one,) = parse(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec:
          initContainers: [{name: setup}]
          containers: [{name: main, resources: {limits: {cpu: 1, memory: 1Gi}}}]
        """
    )
    assert one.qos is QosClass.BURSTABLE


def test_pod_level_resources_decide_the_class() -> None:
    (one,) = parse(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec:
          resources: {limits: {cpu: 2, memory: 1Gi}}
          containers: [{name: main}]
        """
    )
    assert one.qos is QosClass.GUARANTEED


@pytest.mark.parametrize(
    ("kind", "spec", "names"),
    [
        pytest.param("Deployment", "replicas: 3", ["w-0", "w-1", "w-2"], id="replicas are counted"),
        pytest.param("Deployment", "replicas: 0", [], id="a deployment scaled to nothing"),
        pytest.param("StatefulSet", "", ["w-0"], id="one replica unless told"),
        pytest.param("DaemonSet", "", ["w-0"], id="a daemon set has one pod on a node"),
        pytest.param(
            "Job", "parallelism: 4, completions: 2", ["w-0", "w-1"], id="a job ends with its work"
        ),
    ],
)
def test_controllers_make_pods(kind: str, spec: str, names: list[str]) -> None:
    fields = spec.replace(", ", "\n          ")
    pods = parse(
        f"""
        apiVersion: apps/v1
        kind: {kind}
        metadata: {{name: w, namespace: shop, labels: {{only: controller}}}}
        spec:
          {fields}
          template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c}}]}}}}
        """
    )
    assert [one.name for one in pods] == names
    assert all(one.labels == {"a": "b"} and one.namespace == "shop" for one in pods)


def test_a_cron_job_makes_the_pods_of_one_run() -> None:
    text = """
        kind: CronJob
        metadata: {name: w}
        spec:
          jobTemplate:
            spec: {%s, template: {spec: {containers: [{name: c}]}}}
        """
    assert [one.name for one in parse(text % "parallelism: 4, completions: 2")] == ["w-0", "w-1"]
    with pytest.raises(FieldError, match=r"spec\.jobTemplate\.spec\.parallelism: -1 is out of"):
        parse(text % "parallelism: -1")


def of_group(version: str, kind: str, spec: str) -> str:
    return f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: w}}, spec: {{{spec}}}}}\n"


TEMPLATE = "template: {spec: {containers: [{name: c}]}}"


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        pytest.param(
            [
                of_group("batch/v1", "Job", TEMPLATE),
                of_group(
                    "batch.volcano.sh/v1alpha1",
                    "Job",
                    f"tasks: [{{name: t, replicas: 2, {TEMPLATE}}}]",
                ),
            ],
            ["w-0", "w-t-0", "w-t-1"],
            id="an operator's job has its templates where its operator wants them",
        ),
        pytest.param(
            [
                of_group("apps/v1", "StatefulSet", f"replicas: 1, {TEMPLATE}"),
                of_group("apps.kruise.io/v1alpha1", "StatefulSet", f"replicas: 2, {TEMPLATE}"),
                of_group("other.example/v1", "StatefulSet", f"replicas: 1, {TEMPLATE}"),
            ],
            ["w-0", "w-statefulset-0", "w-statefulset-1", "w-statefulset.other.example-0"],
            id="sets of one kind and of three groups are three",
        ),
        pytest.param(
            [
                of_group("apps/v1", "Deployment", f"replicas: 1, {TEMPLATE}"),
                of_group("batch/v1", "Job", TEMPLATE),
            ],
            ["w-0", "w-job-0"],
            id="two kinds of Kubernetes",
        ),
    ],
)
def test_objects_are_told_apart_by_their_api_group_too(
    objects: list[str], names: list[str]
) -> None:
    assert [one.name for one in parse("---\n".join(objects))] == names
    assert not lint_manifests("---\n".join(objects))


JOB_SET = """
kind: JobSet
metadata: {name: w, namespace: shop}
spec:
  replicatedJobs:
  - {name: driver, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 3
        completions: 2
        template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            JOB_SET,
            ["w-driver-0", "w-workers-0", "w-workers-1", "w-workers-2", "w-workers-3"],
            id="a job set makes replicas of jobs, each with pods side by side",
        ),
        pytest.param(
            "{kind: Rollout, metadata: {name: w},"
            " spec: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}",
            ["w-0", "w-1"],
            id="a rollout has replicas as a deployment has",
        ),
        pytest.param(
            "{kind: Rollout, metadata: {name: w},"
            " spec: {replicas: 0, template: {spec: {containers: [{name: c}]}}}}",
            [],
            id="and none where it is scaled to nothing",
        ),
        pytest.param(
            "{kind: MPIJob, metadata: {name: w}, spec: {mpiReplicaSpecs: {"
            "Launcher: {template: {spec: {containers: [{name: c}]}}},"
            " Worker: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}}}",
            ["w-launcher-0", "w-worker-0", "w-worker-1"],
            id="parts without names are called by their keys",
        ),
        pytest.param(
            "{kind: Pair, metadata: {generateName: w}, spec: {both: ["
            "{template: {spec: {containers: [{name: c}]}}},"
            " {template: {spec: {containers: [{name: c}]}}}]}}",
            ["w-both-0", "w-both-1"],
            id="parts of one name are counted on",
        ),
        pytest.param(
            "kind: List\nitems:\n- &a {kind: Own, metadata: {name: w},"
            " spec: {template: {spec: {containers: [{name: c}]}}}}\n"
            "- {kind: Own, metadata: {name: v},"
            " spec: {template: {spec: {containers: [{name: c}]}}}}",
            ["w-0", "v-0"],
            id="each object has pods of its own",
        ),
        pytest.param(
            "kind: JobList\napiVersion: batch.example/v1\nitems:\n"
            "- {metadata: {name: w}, spec: {workers: {template: {spec: {containers: [{name: c}]}},"
            " replicas: 2}}}",
            ["w-0", "w-1"],
            id="items of a list that do not name their kind are of the operator's, too",
        ),
    ],
)
def test_kinds_of_operators_make_pods_by_the_counts_in_them(text: str, names: list[str]) -> None:
    (document,) = read_fields(text, "own.yaml")
    found = pods_of([document])
    assert [one.name for one in found.pods] == names
    assert len(found.remarks) == len({one.name[0] for one in found.pods} or {"w"})
    many = "1 pod" if len(names) / len(found.remarks) == 1 else f"{len(names)} pods"
    assert f"is taken for {many}, as the counts in it tell — " in found.remarks[0]


def test_pods_of_an_operators_kind_have_its_namespace_and_labels_of_the_template() -> None:
    pods = parse(JOB_SET)
    assert {one.namespace for one in pods} == {"shop"}
    assert [dict(one.labels) for one in pods] == [{}, *([{"a": "b"}] * 4)]


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        pytest.param(
            "kind: PodTemplate\ntemplate: {spec: {containers: [{name: c}]}}",
            "own.yaml:1:1: a PodTemplate makes no pods: left out — write a Pod to have one placed",
            id="a pod template alone",
        ),
        pytest.param(
            "kind: Own\nspec:\n  replicas: 50%\n  template: {spec: {containers: [{name: c}]}}",
            "own.yaml:3:13: replicas: '50%' is not an integer — write a whole number"
            " (a template of Own 'own' that is left out)",
            id="a count that is none",
        ),
        pytest.param(
            "kind: Own\nspec: {template: {spec: {containers: [{image: c}]}}}",
            "own.yaml:2:39: spec.containers[0].name: is missing — write a value for it"
            " (a template of Own 'own' that is left out)",
            id="a template of which others may fill in the rest",
        ),
    ],
)
def test_what_is_left_out_is_told(text: str, remark: str) -> None:
    found = pods_of(read_fields(text, "own.yaml"))
    assert (found.pods, found.remarks) == ((), (remark,))


def test_objects_of_an_operators_kind_whose_names_are_made_up_may_be_several() -> None:
    one = "kind: Own\nmetadata: {%s}\nspec: {template: {spec: {containers: [{name: c}]}}}"
    texts = [one % each for each in ("generateName: w-", "generateName: w-", "", "", "name: v")]
    assert [one.name for one in parse("\n---\n".join(texts))] == [
        "w-0",
        "w-1",
        "own-0",
        "own-1",
        "v-0",
    ]


def test_more_pods_of_an_operators_kind_than_a_text_may_create_are_refused() -> None:
    text = "kind: Own\nspec: {replicas: 10000, parallelism: 10000, template: {spec: {containers: "
    with pytest.raises(FieldError, match="more than 10000 pods"):
        parse(text + "[{name: c}]}}}")


def test_documents_lists_and_other_kinds_keep_their_order() -> None:
    pods = parse(
        """
        apiVersion: v1
        kind: List
        items:
        - {apiVersion: v1, kind: Service, metadata: {name: s}}
        - {kind: Pod, metadata: {name: b}, spec: {containers: [{name: x}]}}
        - {kind: Pod, metadata: {name: a}, spec: {containers: [{name: x}]}}
        ---
        ---
        kind: Pod
        metadata: {generateName: r-}
        spec: {containers: [{name: x}]}
        ---
        kind: CronJob
        metadata: {name: n}
        spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: x}]}}}}}
        """
    )
    assert [one.name for one in pods] == ["b", "a", "r-0", "n-0"]


def test_items_of_a_list_of_one_kind_need_not_name_it() -> None:
    """As the API server answers: only the list has kind and apiVersion."""
    pods = parse(
        """
        kind: PodList
        apiVersion: v1
        items:
        - {metadata: {name: a}, spec: {containers: [{name: x}]}}
        ---
        kind: DeploymentList
        apiVersion: apps/v1
        items:
        - metadata: {name: d}
          spec: {replicas: 2, template: {spec: {containers: [{name: x}]}}}
        - {kind: Pod, apiVersion: v1, metadata: {name: b}, spec: {containers: [{name: x}]}}
        ---
        kind: ServiceList
        apiVersion: v1
        items: [{metadata: {name: s}}]
        """
    )
    assert [one.name for one in pods] == ["a", "d-0", "d-1", "b"]


POD_WITH = (
    "- {kind: Pod, metadata: {name: %s}, spec: {containers: [{name: x}]}, status: {phase: %s}}"
)


@pytest.mark.parametrize(
    ("phases", "names", "remarks"),
    [
        pytest.param(["Running", "Pending", "Unknown"], ["p0", "p1", "p2"], (), id="none"),
        pytest.param(
            ["Running", "Succeeded"],
            ["p0"],
            ("list.yaml:4:3: items[1]: without a pod that has ended: p1",),
            id="one of a job",
        ),
        pytest.param(
            ["Failed"] * 7,
            [],
            ("list.yaml:3:3: items[0]: without 7 pods that have ended: p0, p1, p2, p3, p4, …",),
            id="many",
        ),
    ],
)
def test_pods_that_have_ended_are_left_out(
    phases: list[str], names: list[str], remarks: tuple[str, ...]
) -> None:
    """A list of what a node has, as the API server gives it, has them, too."""
    items = [POD_WITH % (f"p{number}", phase) for number, phase in enumerate(phases)]
    text = "\n".join(["kind: List", "items:", *items])
    found = pods_of(read_fields(text, "list.yaml"))
    assert [one.name for one in found.pods] == names
    fix = " — take the status out of what is to be placed"
    assert found.remarks == tuple(one + fix for one in remarks)


def test_an_item_of_a_list_of_any_kind_has_to_name_its_own() -> None:
    with pytest.raises(FieldError, match="no 'kind'"):
        parse("kind: List\nitems: [{metadata: {name: a}, spec: {containers: [{name: x}]}}]")


def test_pods_of_objects_of_two_kinds_with_one_name_are_told_apart() -> None:
    pods = parse(
        """
        kind: Deployment
        metadata: {name: a}
        spec: {replicas: 2, template: {spec: {containers: [{name: x}]}}}
        ---
        kind: StatefulSet
        metadata: {name: a}
        spec: {replicas: 3, template: {spec: {containers: [{name: x}]}}}
        ---
        kind: Database
        metadata: {name: a}
        spec: {template: {spec: {containers: [{name: x}]}}}
        ---
        kind: DaemonSet
        metadata: {name: a, namespace: b}
        spec: {template: {spec: {containers: [{name: x}]}}}
        """
    )
    assert [one.name for one in pods] == [
        *("a-0", "a-1"),
        *("a-statefulset-0", "a-statefulset-1", "a-statefulset-2"),
        "a-database-0",
        "a-0",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "pods.yaml:2:1: not valid YAML", id="no YAML"),
        pytest.param("kind: Pod\nkind: Job", "pods.yaml:2:1: 'kind' is given twice", id="twice"),
        pytest.param("[]", "pods.yaml:1:1: is not a mapping", id="a list at the top"),
        pytest.param("a: 1", "pods.yaml:1:1: no 'kind'", id="no manifest"),
        pytest.param("kind: Pod", "pods.yaml:1:1: metadata.name: is missing", id="no name"),
        pytest.param(
            "{kind: Pod, metadata: {name: a}, spec: {containers: []}}",
            "spec.containers: is empty",
            id="no containers",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: x}, {name: x}]}}",
            "two containers have the name 'x'",
            id="one name for two containers",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: a, annotations: {k: true}},"
            " spec: {containers: [{name: x}]}}",
            "metadata.annotations.k: 'true' is not a text — put it in quotes",
            id="an annotation that is no text",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: a}, spec: {containers:"
            " [{name: x, resources: {limits: {cpu: 1x}}}]}}",
            "spec.containers[0].resources.limits.cpu: ",
            id="no quantity",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: a}, spec: {containers:"
            " [{name: x, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}}",
            "requests.cpu: is more than the limit",
            id="more requested than the limit",
        ),
        pytest.param(
            "{kind: Deployment, metadata: {name: a}, spec: {replicas: 10001,"
            " template: {spec: {containers: [{name: x}]}}}}",
            "spec.replicas: 10001 is out of range",
            id="too many replicas",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: x}]}}\n---\n"
            "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: x}]}}",
            "pods.yaml:3:1: pod 'default/a' is defined twice",
            id="one name for two pods",
        ),
        pytest.param(
            "---\n".join(
                [
                    "{kind: Job, metadata: {name: a}, spec: {template: {spec: {containers:"
                    " [{name: x}]}}}}\n"
                ]
                * 2
            ),
            "pods.yaml:3:1: pod 'default/a-0' is defined twice",
            id="one name for two objects of a kind",
        ),
        pytest.param(
            of_group("apps/v1", "Deployment", TEMPLATE)
            + "---\n"
            + of_group("extensions/v1beta1", "Deployment", TEMPLATE),
            "pods.yaml:3:1: pod 'default/w-0' is defined twice",
            id="one name for two objects of a kind that had another group once",
        ),
        pytest.param(
            "{kind: Job, metadata: {name: a}, spec: {template: {spec: {containers: [{name: x}]}}}}"
            "\n---\n{kind: Pod, metadata: {name: a-0}, spec: {containers: [{name: x}]}}",
            "pods.yaml:3:1: pod 'default/a-0' is defined twice",
            id="a pod with a name that was made up for another one",
        ),
        pytest.param(
            "a0: &a0 {kind: List}\n"
            + "".join(
                f"a{n}: &a{n} {{kind: List, items: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n"
                for n in range(1, 9)
            )
            + "kind: List\nitems: [*a8]",
            "more than 10000 objects",
            id="aliases that multiply",
        ),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse_manifests(text, "pods.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("written", "name", "message"),
    [
        pytest.param(
            "resources: {limit: {cpu: 1}}",
            "limit:",
            ".resources: unknown field 'limit' — did you mean 'limits'?",
            id="a limit in the singular",
        ),
        pytest.param(
            "resources: {cpu: 1}",
            "cpu:",
            ".resources: unknown field 'cpu' — write it inside limits or requests",
            id="an amount beside limits and requests",
        ),
        pytest.param(
            "resources: {vendor.com/gpu: 1}",
            "vendor.com/gpu:",
            ".resources: unknown field 'vendor.com/gpu' — write it inside limits or requests",
            id="a device beside limits and requests",
        ),
        pytest.param(
            "resources: {limits: {cpu: 1}, request: {cpu: 1}}",
            "request:",
            ".resources: unknown field 'request' — did you mean 'requests'?",
            id="a request in the singular beside limits",
        ),
        pytest.param(
            "resource: {limits: {cpu: 1}}",
            "resource:",
            ": unknown field 'resource' — did you mean 'resources'?",
            id="a resource in the singular",
        ),
        pytest.param(
            "resources: {limits: {cpus: 1}}",
            "cpus:",
            ".resources.limits: unknown resource 'cpus' — did you mean 'cpu'?",
            id="cpus in the plural",
        ),
        pytest.param(
            "resources: {requests: {mem: 1Gi}}",
            "mem:",
            ".resources.requests: unknown resource 'mem' — did you mean 'memory'?",
            id="memory cut short",
        ),
        pytest.param(
            "resources: {limits: {hugepage-2Mi: 4Mi}}",
            "hugepage-2Mi:",
            ".resources.limits: unknown resource 'hugepage-2Mi' — did you mean 'hugepages-2Mi'?",
            id="huge pages in the singular",
        ),
        pytest.param(
            "resources: {limits: {gpu: 1}}",
            "gpu:",
            ".resources.limits: unknown resource 'gpu' — one of cpu, memory, ephemeral-storage,"
            " hugepages-SIZE, or a device with its domain, as in vendor.com/gpu",
            id="a device without its domain, which is not meant for cpus",
        ),
        pytest.param(
            "resources: {limits: {nvidia.com: 1}}",
            "nvidia.com:",
            ".resources.limits: unknown resource 'nvidia.com' — one of cpu, memory,"
            " ephemeral-storage, hugepages-SIZE, or a device with its domain and its name, as in"
            " nvidia.com/gpu",
            id="a domain alone",
        ),
        pytest.param(
            "resources: {limits: {vendor.com/: 1}}",
            "vendor.com/:",
            ".resources.limits: unknown resource 'vendor.com/' — write a domain, '/' and a name of"
            " letters, digits, '-', '_' and '.': vendor.com/NAME",
            id="a device without its name",
        ),
    ],
)
def test_a_misspelt_name_in_resources_is_refused_at_its_place(
    written: str, name: str, message: str
) -> None:
    text = f"{{kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{name: x, {written}}}]}}}}"
    with pytest.raises(FieldError) as caught:
        parse_manifests(text, "pods.yaml")
    place = f"pods.yaml:1:{text.index(name) + 1}: spec.containers[0]"
    assert str(caught.value) == place + message


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("storage", "ephemeral-storage"),
        ("ephemeralStorage", "ephemeral-storage"),
        ("disk", "ephemeral-storage"),
        ("requests.memory", "memory"),
        ("limits.cpu", "cpu"),
        ("core", "cpu"),
        ("hugepages", "hugepages-2Mi"),
        ("huge-pages-1Gi", "hugepages-1Gi"),
        ("hugepages1Gi", "hugepages-1Gi"),
        ("hugpages-2MiB", "hugepages-2Mi"),
        ("pods", None),
        ("nvidia.com", None),
        ("-gpu", None),
        ("g:pu", None),
        ("ünï", None),
        ("x" * 64, None),
        ("vendor.com/gpu_of_me", ""),
        ("vendor.com/ünï", None),
        ("/gpu", None),
        ("a/b/c", None),
    ],
)
def test_a_resource_is_suggested_that_is_one_and_likely_meant(
    written: str, meant: str | None
) -> None:
    """None: nothing is likely; empty: it is one itself."""
    resources = f"{{limits: {{{json.dumps(written, ensure_ascii=False)}: 1}}}}"
    if meant == "":
        assert pod(resources).containers[0].devices == {written: 1}
        return
    with pytest.raises(FieldError) as caught:
        pod(resources)
    message = str(caught.value)
    found = re.search(r"did you mean '(.*)'\?", message)
    assert (found and found[1]) == meant, message
    example = re.search(r"(?:as in|and '\.':) (.*)$", message)
    if example and not example[1].endswith("/NAME"):
        assert pod(f"{{limits: {{{example[1]}: 1}}}}").containers[0].devices == {example[1]: 1}


def test_a_device_of_which_there_is_none_is_not_asked_for() -> None:
    one = pod("{limits: {rdma/hca: 0, vendor.com/gpu: 2}}")
    assert one.containers[0].devices == {"vendor.com/gpu": 2}


def test_a_misspelt_resource_of_the_pod_as_a_whole_is_refused_too() -> None:
    with pytest.raises(FieldError, match=r"spec\.resources\.limits: unknown resource 'cpus'"):
        sized_pod("{limits: {cpus: 1}}", "containers: [{name: x}]")


def test_resources_of_all_names_that_the_api_server_takes_are_taken() -> None:
    one = pod(
        "{limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 1Gi, hugepages-2Mi: 4Mi,"
        " vendor.com/gpu: 1}, requests: {ephemeral-storage: 1Gi}, claims: [{name: c}]}"
    )
    assert one.containers[0].devices == {"vendor.com/gpu": 1}


def test_directives_of_a_patch_are_no_resources() -> None:
    one = pod("{requests: {$patch: replace, cpu: 1}, limits: {$patch: delete}}")
    assert one.containers[0].resources.cpu_request_milli == 1000


def test_a_field_that_is_like_none_of_the_resources_is_left_to_kubernetes() -> None:
    (one,) = parse(
        """
        kind: Pod
        metadata: {name: a}
        spec:
          resourceClaims: [{name: gpu}]
          containers:
          - {name: x, resizePolicy: [], restartPolicy: Always, resources: {later: {cpu: 1}}}
        """
    )
    assert one.qos is QosClass.BEST_EFFORT


def test_a_page_of_no_size_is_refused_where_it_is_read() -> None:
    with pytest.raises(FieldError, match="'0' is no size of a page"):
        pod("{limits: {hugepages-0: 2Mi}}")


WHOLE = Resources(
    cpu_request_milli=4000,
    cpu_limit_milli=4000,
    memory_request_bytes=4 << 30,
    memory_limit_bytes=4 << 30,
)


def sized_pod(resources: str, containers: str) -> PodSpec:
    (one,) = parse(
        f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: p}}
        spec:
          resources: {resources}
          {containers}
        """
    )
    return one


@pytest.mark.parametrize(
    ("resources", "own", "qos", "milli"),
    [
        pytest.param(
            "{limits: {cpu: 4, memory: 4Gi}}",
            "{}",
            QosClass.GUARANTEED,
            4000,
            id="the limits of a pod are its requests where no container has any",
        ),
        pytest.param(
            "{limits: {cpu: 4, memory: 4Gi}}",
            "{limits: {cpu: 1, memory: 1Gi}}",
            QosClass.BURSTABLE,
            1000,
            id="the requests of its containers are those of a pod with limits alone",
        ),
        pytest.param(
            "{requests: {cpu: 4, memory: 4Gi}, limits: {cpu: 4, memory: 4Gi}}",
            "{limits: {cpu: 1, memory: 1Gi}}",
            QosClass.GUARANTEED,
            4000,
            id="requests of a pod that are written are its own",
        ),
    ],
)
def test_a_pod_with_resources_of_its_own_has_their_size_and_class(
    resources: str, own: str, qos: QosClass, milli: int
) -> None:
    one = sized_pod(resources, f"containers: [{{name: a, resources: {own}}}]")
    assert one.qos is qos
    assert one.resources is not None
    assert one.resources.cpu_request_milli == milli


def test_a_container_without_resources_shows_those_of_its_pod() -> None:
    one = sized_pod("{limits: {cpu: 4, memory: 4Gi}}", "containers: [{name: a}, {name: b}]")
    assert one.resources == WHOLE
    assert [container.resources for container in one.containers] == [WHOLE, WHOLE]


@pytest.mark.parametrize(
    ("pages", "shown"),
    [
        pytest.param("", [110, 60, 50], id="a pod has those of its containers"),
        pytest.param(", hugepages-2Mi: 200Mi", [200, 60, 50], id="or as many as it says"),
    ],
)
def test_a_container_without_huge_pages_shows_those_of_its_pod(
    pages: str, shown: list[int]
) -> None:
    one = sized_pod(
        f"{{limits: {{cpu: 4, memory: 4Gi{pages}}}}}",
        "containers: [{name: a}, {name: b, resources: {limits: {cpu: 1, hugepages-2Mi: 60Mi}}},"
        " {name: c, resources: {limits: {cpu: 1, hugepages-2Mi: 50Mi}}}]",
    )
    mib = 1 << 20
    assert [each.resources.hugepage_bytes for each in one.containers] == [
        {2 * mib: count * mib} for count in shown
    ]


@pytest.mark.parametrize(
    ("containers", "milli"),
    [
        pytest.param("a: 1, b: 2", 3000, id="containers run together"),
        pytest.param("init x: 4, a: 1", 4000, id="an init container runs before them"),
        pytest.param("sidecar x: 2, a: 1", 3000, id="a sidecar runs with them"),
        pytest.param(
            "sidecar x: 2, init y: 3, a: 1", 5000, id="an init container runs with sidecars before"
        ),
        pytest.param("init y: 3, sidecar x: 2, a: 1", 3000, id="and without those after it"),
    ],
)
def test_the_size_of_a_pod_is_the_most_it_has_at_one_time(containers: str, milli: int) -> None:
    sizes: list[SizedContainer] = []
    for text in containers.split(", "):
        words, _, cpus = text.partition(": ")
        role = words.split()[0]
        sizes.append(
            SizedContainer(
                resources=Resources(cpu_request_milli=1000 * int(cpus)),
                is_init=role in ("init", "sidecar"),
                keeps_running=role != "init",
            )
        )
    assert pod_size(sizes).cpu_request_milli == milli
