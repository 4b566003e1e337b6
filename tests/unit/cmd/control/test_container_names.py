import pytest
from msgspec.structs import replace

from pinfold.cmd.control.container_names import ControlRequestError, find_container
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId


def container(path: str, container_id: str) -> Container:
    namespace, pod, name = path.split("/")
    return Container(
        id=ContainerId(container_id),
        name=name,
        pod=Pod(id=PodId(f"{namespace}-{pod}"), name=pod, namespace=namespace),
    )


KNOWN = (
    container("default/shop/web", "aa11"),
    container("default/shop/db", "ab22"),
    container("prod/shop/web", "cc33"),
    container("prod/queue/queue", "dd44"),
    container("prod/ab2/solo", "ee55"),
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("prod/shop/web", "cc33", id="a whole path"),
        pytest.param("shop/db", "ab22", id="pod and container"),
        pytest.param("db", "ab22", id="a name that only one has"),
        pytest.param("queue", "dd44", id="a name that its pod has too"),
        pytest.param("prod/queue", "dd44", id="namespace and pod of one container"),
        pytest.param("cc33", "cc33", id="an id"),
        pytest.param("c", "cc33", id="the beginning of an id"),
        pytest.param("ab2", "ee55", id="a pod's name before the beginning of an id"),
    ],
)
def test_what_people_type_means_one_container(name: str, found: str) -> None:
    assert find_container(name, KNOWN).id == found


def test_a_container_is_found_by_the_id_that_its_runtime_gave_it_later() -> None:
    named = replace(container("default/late/one", "sandbox/one/0"), runtime_id="ff66")
    for name in ("ff66", "ff", "sandbox/one/0"):
        assert find_container(name, (*KNOWN, named)) is named


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        pytest.param(
            "web",
            "container: 'web' is one of several — name one: default/shop/web (aa11),"
            " prod/shop/web (cc33)",
            id="a name in two namespaces",
        ),
        pytest.param(
            "default/shop",
            "container: 'default/shop' is one of several — name one: default/shop/db (ab22),"
            " default/shop/web (aa11)",
            id="a pod of two containers",
        ),
        pytest.param(
            "a",
            "container: 'a' is one of several — name one: default/shop/db (ab22),"
            " default/shop/web (aa11)",
            id="the beginning of two ids",
        ),
        pytest.param(
            "nothing", "container: 'nothing' is not here — see 'pinfold status'", id="unknown"
        ),
        pytest.param("", "container: '' is not here — see 'pinfold status'", id="no name"),
    ],
)
def test_what_does_not_is_said_with_the_candidates(name: str, complaint: str) -> None:
    with pytest.raises(ControlRequestError) as raised:
        find_container(name, KNOWN)
    assert str(raised.value) == complaint


def test_few_of_many_candidates_are_listed() -> None:
    many = [container(f"default/web-{number}/web", f"f{number:03}") for number in range(100)]
    with pytest.raises(ControlRequestError, match=r", …$") as raised:
        find_container("web", many)
    assert str(raised.value).count("(") == 20
