import textwrap

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.manifests.manifest import pods_of
from pinfold.policy.text.yaml_fields import read_fields
from tests.unit.policy.manifests.finding_texts import finding_text

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c}]}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template: {spec: {containers: [{name: c}]}}
"""
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: n}
spec:
  jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}
"""
JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - template: {spec: {template: {spec: {containers: [{name: c}]}}}}
"""
OURS = "{smt.pinfold.dev/pod: pack}"
TERM = "{topologyKey: topology.pinfold.dev/numa, labelSelector: {}}"
TERMS = f"requiredDuringSchedulingIgnoredDuringExecution: [{TERM}]"
OF_NODES = "to Kubernetes' scheduler 'topology.pinfold.dev/numa' is a label of whole nodes"


def found(text: str) -> list[str]:
    return [finding_text(one, "x.yaml").splitlines()[0] for one in lint_manifests(text)]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        pytest.param(
            POD + f"annotations: {OURS}\n",
            "5:1: annotations: nobody reads annotations here — move them to metadata.annotations",
            id="annotations beside a pod's metadata",
        ),
        pytest.param(
            POD.replace("{name: c}", f"{{name: c, annotations: {OURS}}}"),
            "4:31: spec.containers[0].annotations: nobody reads annotations here — move them to"
            " metadata.annotations",
            id="annotations of a container",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", f"{{name: d, annotation: {OURS}}}"),
            "3:21: metadata.annotation: unknown field 'annotation' — did you mean 'annotations'?",
            id="annotations of a deployment in the singular",
        ),
        pytest.param(
            POD.replace("spec: {", f"spec: {{annotations: {OURS}, "),
            "4:8: spec.annotations: nobody reads annotations here — move them to"
            " metadata.annotations",
            id="annotations in a pod's spec",
        ),
        pytest.param(
            POD.replace("spec: {", "spec: {annotations: {app: web}, "),
            "4:8: spec.annotations: nobody reads annotations here — move them to"
            " metadata.annotations",
            id="annotations of others in a pod's spec, which are lost all the same",
        ),
        pytest.param(
            POD.replace("spec: {", "spec: {labels: {app: web}, "),
            "4:8: spec.labels: nobody reads labels here — move them to metadata.labels",
            id="labels in a pod's spec",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: p, smt.pinfold.dev/pod: pack}"),
            "3:21: metadata.smt.pinfold.dev/pod: an annotation counts only among annotations —"
            " move it to metadata.annotations",
            id="an annotation that is not under annotations",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: p, pinfold.dev/rack: a}"),
            "3:21: metadata.pinfold.dev/rack: a label counts only among labels — move it to"
            " metadata.labels",
            id="a rack that is not under labels",
        ),
        pytest.param(
            POD.replace("{name: p}", f"{{name: p, annotation: {OURS}}}"),
            "3:21: metadata.annotation: unknown field 'annotation' — did you mean 'annotations'?",
            id="annotations in the singular",
        ),
        pytest.param(
            DEPLOYMENT.replace("spec:\n", f"spec:\n  annotations: {OURS}\n", 1),
            "5:3: spec.annotations: nobody reads annotations here — move them to"
            " spec.template.metadata.annotations",
            id="annotations in a deployment's spec",
        ),
        pytest.param(
            DEPLOYMENT.replace("template: {", f"template: {{annotations: {OURS}, "),
            "5:14: spec.template.annotations: nobody reads annotations here — move them to"
            " spec.template.metadata.annotations",
            id="annotations beside the metadata of a template",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", f"{{name: d, annotations: {OURS}}}"),
            "3:35: smt.pinfold.dev/pod: the annotations of a Deployment itself do not reach its"
            " pods — move it to spec.template.metadata.annotations",
            id="annotations of a deployment itself",
        ),
        pytest.param(
            CRON_JOB.replace(
                "jobTemplate: {", f"jobTemplate: {{metadata: {{annotations: {OURS}}}, "
            ),
            "5:42: smt.pinfold.dev/pod: the annotations of a CronJob's jobTemplate do not reach its"
            " pods — move it to spec.jobTemplate.spec.template.metadata.annotations",
            id="annotations of the jobs of a cron job",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", "{name: d, labels: {pinfold.dev/rack: a}}"),
            "3:30: pinfold.dev/rack: the labels of a Deployment itself do not reach its pods —"
            " move it to spec.template.metadata.labels",
            id="a rack of a deployment itself, and not of its pods",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", f"{{name: d, labels: {OURS}}}"),
            "3:30: label smt.pinfold.dev/pod: this is an annotation, and has no effect among labels"
            " of a Deployment itself — move it to spec.template.metadata.annotations",
            id="an annotation among the labels of a deployment itself",
        ),
        pytest.param(
            CRON_JOB.replace("jobTemplate: {", f"jobTemplate: {{metadata: {{labels: {OURS}}}, "),
            "5:37: label smt.pinfold.dev/pod: this is an annotation, and has no effect among labels"
            " of a CronJob's jobTemplate — move it to"
            " spec.jobTemplate.spec.template.metadata.annotations",
            id="an annotation among the labels of the jobs of a cron job",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", "{name: d, labels: {pinfold.dev/racks: a}}"),
            "3:30: advice: label pinfold.dev/racks: unknown label of a Deployment itself — write"
            " 'pinfold.dev/rack' under spec.template.metadata.labels",
            id="a misspelt rack of a deployment itself",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", "{name: d, annotations: {pinfold.dev/rack: a}}"),
            "3:35: pinfold.dev/rack: the annotations of a Deployment itself do not reach its pods —"
            " move it to spec.template.metadata.labels",
            id="a rack among the annotations of a deployment itself",
        ),
        pytest.param(
            JOB_SET.replace("{spec: {containers", f"{{annotations: {OURS}, spec: {{containers"),
            "6:34: advice: annotations: nobody reads annotations here — move them to"
            " metadata.annotations",
            id="annotations beside the metadata of an operator's template, who may read them",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: p, labels: {pinfold.dev/racks: a}}"),
            "3:30: advice: label pinfold.dev/racks: unknown label — did you mean"
            " 'pinfold.dev/rack'?",
            id="racks in the plural, which rules may ask for as for any label",
        ),
        pytest.param(
            JOB_SET.replace(
                "{spec: {containers",
                "{metadata: {labels: {smt.pinfold.dev/pod: pack}}, spec: {containers",
            ),
            "6:54: advice: label smt.pinfold.dev/pod: this is an annotation, and has no effect"
            " among labels — move it to metadata.annotations",
            id="an annotation among labels of an operator's template",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: p, labels: {pinfold.dev/resource_set: a}}"),
            "3:30: advice: label pinfold.dev/resource_set: unknown label — did you mean"
            " 'pinfold.dev/resource-set'?",
            id="a resource set that is misspelt",
        ),
        pytest.param(
            POD.replace("{name: p}", f"{{name: p, labels: {OURS}}}"),
            "3:30: label smt.pinfold.dev/pod: this is an annotation, and has no effect among"
            " labels — move it to metadata.annotations",
            id="an annotation among labels",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: p, labels: {pinfold.dev/group: a}}"),
            "3:30: advice: label pinfold.dev/group: this is an annotation, and has no effect among"
            " labels — move it to metadata.annotations as 'group.pinfold.dev/pod'",
            id="an annotation among labels, and written as a label",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: p, annotations: {pinfold.dev/rack: a}}"),
            "3:35: pinfold.dev/rack of default/p: unknown annotation 'rack' — it is a label: write"
            " 'pinfold.dev/rack' under metadata.labels",
            id="a rack among annotations",
        ),
        pytest.param(
            POD.replace("spec: {", f"spec: {{affinity: {{podAntiAffinity: {{{TERMS}}}}}, "),
            f"4:100: advice: spec.affinity: {OF_NODES} — for places inside a node write the"
            " annotation 'affinity.pinfold.dev/pod'",
            id="a level of ours in a rule for Kubernetes' scheduler",
        ),
        pytest.param(
            POD.replace("spec: {", f"spec: {{topologySpreadConstraints: [{TERM}], "),
            f"4:50: advice: spec.topologySpreadConstraints: {OF_NODES} — for places inside a node"
            " write the annotation 'affinity.pinfold.dev/pod'",
            id="a level of ours for Kubernetes' scheduler to spread over",
        ),
        pytest.param(
            POD.replace("spec: {", "spec: {nodeSelector: {topology.pinfold.dev/numa: '1'}, "),
            f"4:23: advice: spec.nodeSelector: {OF_NODES} — for places inside a node write the"
            " annotation 'pool-selector.pinfold.dev/pod'",
            id="a level of ours that Kubernetes' scheduler would select nodes by",
        ),
    ],
)
def test_what_stands_where_nobody_reads_it_is_told(text: str, finding: str) -> None:
    assert found(text) == [f"x.yaml:{finding}"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            POD.replace("{name: p}", "{name: p, labels: {pinfold.dev/rack: a, app: web}}"),
            id="a rack among labels",
        ),
        pytest.param(
            POD.replace("{name: p}", "{name: p, labels: {pinfold.dev/team: a}}"),
            id="a label under our domain that rules may ask for",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", "{name: d, labels: {pinfold.dev/rack: a}}").replace(
                "template: {", "template: {metadata: {labels: {pinfold.dev/rack: a}}, "
            ),
            id="a rack of a deployment and of its pods alike",
        ),
        pytest.param(
            DEPLOYMENT.replace(
                "{name: d}", "{name: d, annotations: {pinfold.dev/rack: a}}"
            ).replace("template: {", "template: {metadata: {labels: {pinfold.dev/rack: a}}, "),
            id="a rack among a deployment's annotations that its pods have as a label",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", f"{{name: d, labels: {OURS}}}").replace(
                "template: {", f"template: {{metadata: {{annotations: {OURS}}}, "
            ),
            id="an annotation among a deployment's labels that its pods have",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", "{name: d, labels: {pinfold.dev/team: a}}"),
            id="a label of a deployment under our domain that is like none of ours",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", f"{{name: d, annotations: {OURS}}}").replace(
                "template: {", f"template: {{metadata: {{annotations: {OURS}}}, "
            ),
            id="an annotation of a deployment and of its pods alike, as kustomize writes it",
        ),
        pytest.param(
            CRON_JOB.replace("{name: n}", f"{{name: n, annotations: {OURS}}}").replace(
                "{spec: {template: {",
                f"{{metadata: {{annotations: {OURS}}},"
                f" spec: {{template: {{metadata: {{annotations: {OURS}}}, ",
            ),
            id="an annotation of a cron job, its jobs and their pods alike",
        ),
        pytest.param(
            DEPLOYMENT.replace("{name: d}", "{name: d, annotations: {team: a}, labels: {app: d}}"),
            id="annotations and labels of a deployment that are none of ours",
        ),
        pytest.param(
            JOB_SET.replace("spec:\n", f"spec:\n  annotations: {OURS}\n", 1),
            id="annotations of an operator's object, which that may pass on",
        ),
        pytest.param(
            JOB_SET.replace("{spec: {containers", "{annotations: {a: b}, spec: {containers"),
            id="annotations of others in an operator's template",
        ),
        pytest.param(
            POD.replace(
                "spec: {",
                "spec: {nodeSelector: {kubernetes.io/hostname: n},"
                " topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone}], ",
            ),
            id="labels of nodes for Kubernetes' scheduler",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {annotations: {a: b}}\n",
            id="an object that has no pods",
        ),
    ],
)
def test_what_stands_where_it_is_read_is_passed_over(text: str) -> None:
    assert found(text) == []


def test_fields_of_an_item_of_a_list_are_told_with_its_place() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- " + textwrap.indent(POD, "  ").lstrip()
    (told,) = found(text + f"  annotations: {OURS}\n")
    assert told.startswith("x.yaml:8:3: items[0].annotations: nobody reads annotations here")


def test_levels_behind_an_alias_are_told_once() -> None:
    text = POD.replace("spec: {", f"spec: {{affinity: {{a: &a {TERM}, b: [*a, *a]}}, ")
    assert len(found(text)) == 1


def test_a_simulation_tells_what_its_pods_would_not_have() -> None:
    text = DEPLOYMENT.replace("{name: d}", f"{{name: d, annotations: {OURS}}}")
    made = pods_of(read_fields(text, "x.yaml"))
    assert [one.annotations for one in made.pods] == [{}]
    placed = CliRunner().invoke(main, ["simulate", "-", "--machine", "core:4 mem:1G"], input=text)
    assert placed.exit_code == 0, placed.output
    assert placed.stderr == (
        "standard input:3:35: smt.pinfold.dev/pod: the annotations of a Deployment itself do not"
        " reach its pods — move it to spec.template.metadata.annotations\n"
    )
