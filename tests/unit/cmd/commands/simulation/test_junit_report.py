"""JUnit XML of simulations: what CI systems count, and texts that XML cannot have."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main

SCENARIOS = """
topologies:
  tiny: {machine: "socket:1 core:2 thread:2 mem:1G"}
scenarios:
- id: good
  topology: tiny
  steps:
  - {do: create_pod, pod: p, containers: [{name: c, cpu_req: 100m}]}
  - {do: expect, that: ["1 == 1", "True"]}
- id: "bad <&\\u0001"
  topology: tiny
  steps:
  - {do: expect, that: ["1 == 2", "len(2)", "'<&\\" \\\\x01' == 'é'"]}
  - {do: fly_to_the_moon}
  - {do: container_exit, container: nobody}
  - {do: create_pod, pod: big, containers: [{name: c, cpu_lim: 9, mem_lim: 1M}]}
"""


def report(folder: Path, *arguments: str) -> tuple[Result, ElementTree.Element]:
    file = folder / "report.xml"
    (folder / "scenarios.yaml").write_text(SCENARIOS)
    result = CliRunner().invoke(
        main, ["simulate", str(folder / "scenarios.yaml"), "--junit", str(file), *arguments]
    )
    return result, ElementTree.fromstring(file.read_text())


def failures(suite: ElementTree.Element) -> dict[str, str]:
    return {
        case.attrib["name"]: failure.attrib["message"]
        for case in suite.iter("testcase")
        for failure in case.iter("failure")
    }


def test_every_expectation_is_a_case_of_its_scenario(tmp_path: Path) -> None:
    result, top = report(tmp_path)
    assert result.exit_code == 1
    good, bad = top.findall("testsuite")
    assert [case.attrib["name"] for case in good.iter("testcase")] == [
        "step 1: 1 == 1",
        "step 1: True",
        "every container gets a place",
        "every law holds",
    ]
    assert {case.attrib["classname"] for case in good.iter("testcase")} == {"good"}
    assert failures(good) == {}
    assert bad.attrib["name"] == "bad <&\ufffd"
    assert list(failures(bad)) == [
        "step 0: 1 == 2",
        "step 0: len(2)",
        "step 0: '<&\" \\x01' == 'é'",
        "every container gets a place",
        "every law holds",
    ]
    assert failures(bad)["step 0: 1 == 2"] == "does not hold"
    assert (
        "step 3: default/big/c: no pool has room" in failures(bad)["every container gets a place"]
    )
    assert "no container 'nobody' runs" in failures(bad)["every law holds"]
    (skipped,) = bad.iter("skipped")
    assert "fly_to_the_moon" in skipped.attrib["message"]


def test_cases_are_counted_for_who_reads_no_further(tmp_path: Path) -> None:
    _, top = report(tmp_path)
    good, bad = top.findall("testsuite")
    counted = [[one.attrib[key] for key in ("tests", "failures", "skipped")] for one in (good, bad)]
    assert counted == [["4", "0", "0"], ["6", "5", "1"]]
    assert [top.attrib[key] for key in ("tests", "failures", "skipped")] == ["10", "5", "1"]


def test_refusals_that_are_allowed_are_no_failure(tmp_path: Path) -> None:
    _, top = report(tmp_path, "--allow-refusals")
    assert "every container gets a place" not in failures(top)


def test_equal_results_are_equal_texts(tmp_path: Path) -> None:
    texts = {(report(tmp_path), (tmp_path / "report.xml").read_bytes())[1] for _ in range(2)}
    assert len(texts) == 1
    (text,) = texts
    assert text.startswith(b'<?xml version="1.0" encoding="utf-8"?>\n<testsuites ')


@pytest.mark.parametrize("name", ["absent/report.xml", "."])
def test_a_file_that_cannot_be_written_is_bad_usage(name: str, tmp_path: Path) -> None:
    (tmp_path / "scenarios.yaml").write_text(SCENARIOS)
    arguments = [str(tmp_path / "scenarios.yaml"), "--junit", str(tmp_path / name)]
    result = CliRunner().invoke(main, ["simulate", *arguments])
    assert result.exit_code == 2
    assert str(tmp_path / name) in result.output


def test_a_file_without_a_name_is_bad_usage(tmp_path: Path) -> None:
    (tmp_path / "scenarios.yaml").write_text(SCENARIOS)
    result = CliRunner().invoke(main, ["simulate", str(tmp_path / "scenarios.yaml"), "--junit", ""])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "--junit: has no name — name a file in a folder you can write\n"
