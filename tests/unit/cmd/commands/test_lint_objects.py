"""`pinfold lint` about objects that no API server takes, whatever their annotations."""

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template: {spec: {containers: [{name: c}]}}
"""
JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: workers
    replicas: -2
    template: {spec: {template: {spec: {containers: [{name: c}]}}}}
"""
POD_LIST = """\
apiVersion: v1
kind: PodList
items:
- {metadata: {name: one}, spec: {containers: [{name: c}]}}
"""
OTHER_KINDS = (
    *("Service", "ConfigMap", "Secret", "Node", "Namespace", "Event", "PersistentVolume"),
    *("ServiceList", "NodeList", "ControllerRevision", "Ingress", "Status", "Template"),
    *("Binding", "PodStatusResult", "ResourceQuota", "TemplateList", "Endpoints"),
)
NO_KIND = (
    "manifest: no 'kind' — a Kubernetes manifest begins with apiVersion and kind; a configuration"
    " is one document without '---'"
)


def lint(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", "-", *arguments], input=text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            DEPLOYMENT.replace("replicas: 3", "replicas: -1"),
            "5:13: spec.replicas: -1 is out of range — 0 to 10000",
            id="fewer pods than none",
        ),
        pytest.param(
            DEPLOYMENT.replace("replicas: 3", "replicas: many"),
            "5:13: spec.replicas: 'many' is not an integer — write a whole number",
            id="pods that nobody can count",
        ),
        pytest.param(
            JOB_SET,
            "7:15: replicas: -2 is out of range — 0 to 10000",
            id="fewer pods of an operator's kind than none",
        ),
        pytest.param(
            POD.replace("apiVersion: v1", "apiVersion: [v1]"),
            "1:13: apiVersion: is a list or a mapping — write a single value",
            id="a pod whose API is a list",
        ),
        pytest.param(
            POD.replace("apiVersion: v1", "apiVersion: 1"),
            "1:13: apiVersion: '1' is not a text — put it in quotes",
            id="a pod whose API is a number",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: [p]}"),
            "3:18: metadata.name: is a list or a mapping — write a single value",
            id="a pod of a name that is none",
        ),
        pytest.param(
            POD.replace("{name: p}", "[]"),
            "3:11: metadata: is not a mapping — write 'key: value' lines",
            id="a pod whose metadata are a list",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: web}", "web"),
            "3:11: metadata: is not a mapping — write 'key: value' lines",
            id="a deployment whose metadata are its name",
        ),
        pytest.param(
            POD.replace("{name: p}", "{generateName: [p]}"),
            "3:26: metadata.generateName: is a list or a mapping — write a single value",
            id="a pod of a prefix that is none",
        ),
        pytest.param(
            POD + "---\n" + POD.replace("kind: Pod\n", ""),
            f"6:1: {NO_KIND}",
            id="a pod of no kind beside another",
        ),
        pytest.param(
            "pinCPU: true\n---\npinMemory: true\n",
            f"1:1: {NO_KIND}",
            id="a configuration in two documents",
        ),
        pytest.param(
            POD.replace("kind: Pod", "kind: pod"),
            "2:7: kind: 'pod' is no kind that an API server knows — did you mean 'Pod'?",
            id="a pod in small letters",
        ),
        pytest.param(
            POD + "---\n" + POD.replace("kind: Pod", "kind: Pods"),
            "7:7: kind: 'Pods' is no kind that an API server knows — did you mean 'Pod'?",
            id="pods in the plural beside one that is right",
        ),
        pytest.param(
            DEPLOYMENT.replace("Deployment", "deployment"),
            "2:7: kind: 'deployment' is no kind that an API server knows — did you mean"
            " 'Deployment'?",
            id="a deployment in small letters, which no operator has",
        ),
        pytest.param(
            DEPLOYMENT.replace("Deployment", "statefulset"),
            "2:7: kind: 'statefulset' is no kind that an API server knows — did you mean"
            " 'StatefulSet'?",
            id="a stateful set as kubectl takes it on the command line",
        ),
        pytest.param(
            POD_LIST.replace("PodList", "podList"),
            "2:7: kind: 'podList' is no kind that an API server knows — did you mean 'PodList'?",
            id="a list of pods in small letters",
        ),
        pytest.param(
            "apiVersion: config.nri/v1alpha1\nkind: topologyAwarePolicy\nspec: {pinCPU: true}\n",
            "2:7: kind: 'topologyAwarePolicy' is no kind that an API server knows — did you mean"
            " 'TopologyAwarePolicy'?",
            id="a configuration in small letters",
        ),
        pytest.param(
            "kind: TopologyAwarePolicy\nspec: {pinCPU: true}\n",
            "1:1: apiVersion is missing — expected 'config.nri/v1alpha1', or the fields of its"
            " spec alone",
            id="a configuration of no API",
        ),
        pytest.param(
            POD + "---\n" + POD,
            "6:1: manifest: pod 'default/p' is defined twice — rename one",
            id="a pod twice",
        ),
        pytest.param(
            DEPLOYMENT + "---\n" + DEPLOYMENT,
            "8:1: manifest: Deployment 'default/web' is defined twice — rename one",
            id="a deployment twice",
        ),
        pytest.param(
            POD + "---\nhello\n",
            "6:1: manifest: is not a mapping — write 'key: value' lines",
            id="a word beside a pod",
        ),
        pytest.param(
            "- a\n- b\n",
            "1:1: manifest: is not a mapping — write 'key: value' lines",
            id="a list",
        ),
    ],
)
def test_what_no_api_server_takes_is_found(text: str, complaint: str) -> None:
    found = lint(text)
    assert found.exit_code == 1, found.output
    assert f"standard input:{complaint}" in found.stdout.splitlines()
    assert "None" not in found.output
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            POD.replace("{name: p}", "{labels: {a: b}}"),
            "3:11: metadata.name: is missing — name the pod",
            id="a pod without a name",
        ),
        pytest.param(
            DEPLOYMENT.replace("metadata: {name: web}\n", ""),
            "1:1: metadata.name: is missing — name the Deployment",
            id="a deployment without a name",
        ),
        pytest.param(
            POD.replace("apiVersion: v1\n", ""),
            "1:1: apiVersion: is missing — write it, as in 'apiVersion: v1'",
            id="a pod of no API",
        ),
        pytest.param(
            POD.replace("apiVersion: v1\n", "apiVersion:\n"),
            "1:12: apiVersion: is missing — write it, as in 'apiVersion: v1'",
            id="a pod of an API that is left empty",
        ),
        pytest.param(
            DEPLOYMENT.replace("  template: {spec: {containers: [{name: c}]}}\n", ""),
            "5:3: spec.template: is missing — a Deployment needs a pod template",
            id="a deployment of nothing",
        ),
    ],
)
def test_what_a_fragment_has_no_need_of_is_advice(text: str, complaint: str) -> None:
    found = lint(text)
    place, _, rest = complaint.partition(": ")
    assert f"standard input:{place}: advice: {rest}" in found.stdout.splitlines()
    assert (found.exit_code, found.stderr) == (0, "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(POD.replace("name: p", "generateName: p-"), id="a pod named when it is made"),
        pytest.param(
            DEPLOYMENT.replace("name: web", "generateName: web-"),
            id="a deployment named when it is made",
        ),
        pytest.param(POD_LIST, id="a list of pods, which the API server writes without their API"),
        pytest.param(POD + "---\n" + DEPLOYMENT, id="two objects"),
        pytest.param(
            POD + "---\n" + POD.replace("{name: p}", "{name: p, namespace: shop}"),
            id="pods of one name in two namespaces",
        ),
        pytest.param(
            DEPLOYMENT + "---\n" + DEPLOYMENT.replace("Deployment", "StatefulSet"),
            id="objects of one name and two kinds",
        ),
        pytest.param(POD + "---\n# nothing here\n---\nnull\n", id="a pod and empty documents"),
        pytest.param(
            POD + "---\napiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n",
            id="an object that is none of ours, whatever it has",
        ),
        pytest.param(
            POD + "".join(f"---\napiVersion: v1\nkind: {one}\n" for one in OTHER_KINDS),
            id="objects of other kinds of Kubernetes, and of what is like it",
        ),
        pytest.param(
            POD + "---\n" + JOB_SET.replace("JobSet", "Jobs").replace("-2", "2"),
            id="an operator's kind that is near to one of Kubernetes",
        ),
    ],
)
def test_what_an_api_server_takes_is_passed_over(text: str) -> None:
    found = lint(text)
    assert (found.exit_code, found.output) == (0, "")


def test_pods_of_a_misspelt_kind_are_not_left_out_of_a_simulation_in_silence() -> None:
    text = POD + "---\n" + DEPLOYMENT.replace("Deployment", "deployment")
    placed = CliRunner().invoke(main, ["simulate", "-", "--machine", "core:4 mem:1G"], input=text)
    assert placed.exit_code == 2, placed.output
    assert "standard input:7:7: kind: 'deployment' is no kind" in placed.stderr
    assert "did you mean 'Deployment'?" in placed.stderr


def test_a_missing_name_is_told_once_for_each_object() -> None:
    found = lint(POD.replace("{name: p}", "{}") + "---\n" + POD.replace("{name: p}", "{}"))
    assert found.stdout.count("is missing") == 2


def test_objects_named_when_they_are_made_have_names_of_their_own() -> None:
    deployment = DEPLOYMENT.replace("name: web", "generateName: web-")
    machine = ("--machine", "core:4 mem:1G")
    text = deployment + "---\n" + deployment
    placed = CliRunner().invoke(main, ["simulate", "-", *machine], input=text)
    assert placed.exit_code == 0, placed.output
    names = [line.split()[0] for line in placed.stdout.splitlines() if "/c " in line]
    assert names == [f"web-{each}-{pod}/c" for each in range(2) for pod in range(3)]
