"""The file of the history: bounded, only ever added to, and believed no further than it is ours."""

import logging
import resource
import time
import zlib
from pathlib import Path
from resource import RLIMIT_FSIZE

import msgspec
import pytest

from pinfold.cmd.control.documents import GRANT, DecisionDocument
from pinfold.cmd.control.history.history_file import (
    HISTORY_NAME,
    HistoryError,
    HistoryFile,
    parse_line,
    read_history,
)
from pinfold.cmd.control.history.saved_decision import SavedDecision

LOG = logging.getLogger("test_history_file")


def line(number: int) -> bytes:
    return f'{{"at":{number},"event":"release","id":"c{number}","path":"a/b/{number}"}}'.encode()


def decided(pools: list[str], table: bytes) -> bytes:
    """The line of a decision with a table of candidates."""
    found = SavedDecision(
        at=1,
        event="create",
        id="a",
        path="a",
        decision=DecisionDocument(result=GRANT),
        ranks=zlib.compress(table),
        pools=zlib.compress(msgspec.json.encode(pools)),
    )
    return msgspec.json.encode(found)


def written(folder: Path, *numbers: int, bytes_max: int = 1 << 20) -> HistoryFile:
    file = HistoryFile(folder, LOG, bytes_max)
    for number in numbers:
        if file.is_full:
            file.turn()
        file.append([line(number)])
    return file


def test_the_newest_line_is_read_first(tmp_path: Path) -> None:
    assert list(written(tmp_path, 1, 2, 3).newest()) == [line(3), line(2), line(1)]


@pytest.mark.parametrize("length", [1, 100, 65_534, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("end", [b"\n", b"", b"\n\n"])
def test_lines_of_any_length_are_read_backwards(tmp_path: Path, length: int, end: bytes) -> None:
    lines = [b"a" * length, b"b", b"c" * length, b"d" * 65_536, b"e" * length]
    (tmp_path / HISTORY_NAME).write_bytes(b"\n".join(lines) + end)
    assert list(HistoryFile(tmp_path, LOG).newest()) == lines[::-1]


def test_a_line_without_end_takes_no_time(tmp_path: Path) -> None:
    # As zeros, which a crash of the machine leaves in some file systems.
    (tmp_path / HISTORY_NAME).write_bytes(bytes(24 << 20))
    begun = time.thread_time()
    assert [len(line) for line in HistoryFile(tmp_path, LOG).newest()] == [24 << 20]
    assert time.thread_time() - begun < 1.0


def test_a_line_that_the_disk_takes_in_half_is_told_and_the_next_one_is_whole(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, 1)
    size, limits = (tmp_path / HISTORY_NAME).stat().st_size, resource.getrlimit(RLIMIT_FSIZE)
    resource.setrlimit(RLIMIT_FSIZE, (size + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left on device"):
            file.append([line(2)])
    finally:
        resource.setrlimit(RLIMIT_FSIZE, limits)
    file.append([line(3)])
    assert [parse_line(one) for one in file.newest()] == [
        parse_line(line(3)),
        None,
        parse_line(line(1)),
    ]


def test_two_parts_are_kept_and_the_oldest_lines_go(tmp_path: Path) -> None:
    file = written(tmp_path, *range(100), bytes_max=1000)
    found = list(file.newest())
    assert found == [line(number) for number in range(99, 99 - len(found), -1)]
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert (len(sizes), sum(sizes) < 1200) == (2, True)
    assert sum(sizes) > 500


def test_another_process_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    written(tmp_path, 1)
    file = HistoryFile(tmp_path, LOG)
    assert not file.is_full
    file.append([line(2)])
    assert [one.at for one in read_history(tmp_path)] == [1, 2]


def test_half_a_line_costs_itself_alone(tmp_path: Path) -> None:
    written(tmp_path, 1)
    with (tmp_path / HISTORY_NAME).open("ab") as file:
        file.write(line(2)[:10])
    written(tmp_path, 3)
    assert [one.at for one in read_history(tmp_path)] == [1, 3]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\x00", id="no text"),
        pytest.param(b"[" * 100_000, id="nested too deep"),
        pytest.param(b'{"at":"then"}', id="other types"),
        pytest.param(
            b'{"at":1,"event":"create","id":"a","path":"a","pod":{"id":"a","name":"a",'
            b'"namespace":"a","qos":"Guaranteed","containers":[{"id":"a","name":"a","pool":"",'
            b'"cpus":"x-y"}]}}',
            id="no list of cpus",
        ),
        pytest.param(
            b'{"at":1,"event":"create","id":"a","path":"a","decision":{"result":"grant"},'
            b'"ranks":"AAAA","pools":"AAAA"}',
            id="not compressed",
        ),
        pytest.param(decided(["a"], b"[]"), id="no table of candidates"),
        pytest.param(
            decided(["a", "b"], b'{"ranks":{"depth":[1]},"dropped":[]}'),
            id="fewer numbers than pools",
        ),
        pytest.param(
            decided(["a"], b'{"ranks":{"depth":[1,2]},"dropped":[]}'),
            id="more numbers than pools",
        ),
        pytest.param(
            decided(
                ["a"],
                b'{"ranks":{"depth":1},"dropped":[{"pools":["x"],'
                b'"reason":{"criterion":"a","wanted":"1","available":"0"}}]}',
            ),
            id="no number of a pool",
        ),
        pytest.param(
            decided(
                ["a"] * 1000,
                msgspec.json.encode({"ranks": {str(one): 0 for one in range(1000)}, "dropped": []}),
            ),
            id="a short table of a million numbers",
        ),
    ],
)
def test_a_line_that_nobody_wrote_so_is_passed_over(text: bytes) -> None:
    assert parse_line(text) is None


def test_candidates_are_told_by_their_rank_and_then_the_dropped_ones() -> None:
    found = parse_line(
        decided(
            ["a", "b", "c", "d"],
            b'{"ranks":{"unmet":0,"depth":[3,1,2,0]},"dropped":[{"pools":[3,1,9],'
            b'"reason":{"criterion":"cpu","wanted":"2","available":"1"}}]}',
        )
    )
    assert found is not None
    document = found.document()
    assert document is not None
    assert [(one.pool, one.rank) for one in document.candidates] == [
        ("c", {"unmet": 0, "depth": 2, "pool_id": 2}),
        ("a", {"unmet": 0, "depth": 3, "pool_id": 0}),
        ("b", None),
        ("d", None),
    ]


@pytest.mark.parametrize("name", ["candidates", "table"])
def test_of_a_line_of_an_older_version_all_but_the_candidates_is_read(name: str) -> None:
    found = parse_line(
        b'{"at":1,"event":"create","id":"a","path":"a","decision":{"result":"grant"},'
        b'"%b":"AAAA"}' % name.encode()
    )
    assert found is not None
    assert found.document() is not None


def test_a_file_of_somebody_else_is_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root:x\n")
    (tmp_path / HISTORY_NAME).symlink_to(secret)
    file = written(tmp_path, 1)
    assert list(file.newest()) == [line(1)]
    assert secret.read_text() == "root:x\n"
    assert "a symbolic link, which anybody may have set — put aside" in caplog.text


def test_only_we_can_read_it(tmp_path: Path) -> None:
    written(tmp_path, 1)
    assert (tmp_path / HISTORY_NAME).stat().st_mode & 0o777 == 0o600


def test_a_folder_without_a_history_is_said(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"holds no decisions.jsonl — name the folder that is"):
        read_history(tmp_path)
