"""Expectations of scenarios as JUnit XML, which CI systems show as tests.

Source: the format as Jenkins and GitLab read it, https://github.com/testmoapp/junitxml.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree

from ....policy.scenarios.result import ScenarioResult

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML 1.0 document may have, not even escaped."""


def junit_text(results: Sequence[ScenarioResult], *, allows_refusals: bool) -> str:
    """The results as a document: a suite for each scenario, a case for each expectation.

    Two cases more say whether every container got a place (unless refusals are allowed), and
    whether every law of the policy held. Without times, so that equal results are equal texts.
    """
    top = ElementTree.Element("testsuites", name="pinfold simulate")
    for result in results:
        suite = ElementTree.SubElement(top, "testsuite", name=_xml(result.id))
        for case in _cases(result, allows_refusals=allows_refusals):
            case.set("classname", _xml(result.id))
            suite.append(case)
        _count(suite)
    _count(top)
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(top, "unicode") + "\n"


def _cases(result: ScenarioResult, *, allows_refusals: bool) -> Iterator[ElementTree.Element]:
    for one in result.expectations:
        yield _case(f"step {one.step}: {one.expression}", one.failure)
    for skipped in result.skipped:
        case = _case(f"step {skipped.step}", "")
        ElementTree.SubElement(case, "skipped", message=_xml(skipped.reason))
        yield case
    if not allows_refusals:
        refused = [f"step {one.step}: {one.path}: {one.reason}" for one in result.refusals]
        yield _case("every container gets a place", "\n".join(refused))
    yield _case("every law holds", "\n".join(result.problems))


def _case(name: str, reason: str) -> ElementTree.Element:
    case = ElementTree.Element("testcase", name=_xml(name))
    if reason:
        message = reason.partition("\n")[0]
        failure = ElementTree.SubElement(case, "failure", message=_xml(message))
        failure.text = _xml(reason)
    return case


def _count(element: ElementTree.Element) -> None:
    for name, path in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
        element.set(name, str(len(element.findall(f".//{path}"))))


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
