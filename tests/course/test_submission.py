"""Any file that a learner hands in is read, repaired, or refused with the reason."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradelib.grading.layout import TEXT_STUB, Layout
from gradelib.grading.submission import (
    NoteKind,
    Submission,
    UnreadableError,
    exercise_of,
    read_cells,
    read_submission,
)
from tests.course.tools import RIGHT, TINY, answered, cell_of, code_cell

Edit = Callable[[dict[str, Any]], object]
BYTES = RIGHT["packed_bytes"]


def _read(layout: Layout, edit: Edit | None = None, **answers: str) -> Submission:
    made = answered(layout.notebook, {**RIGHT, **answers}, edit)
    return read_submission(json.dumps(made).encode(), layout)


def _runs(submission: Submission, task: str = "packed_bytes") -> dict[str, Any]:
    """The namespace that the submission's code makes."""
    namespace: dict[str, Any] = {}
    for source in (*submission.work.helpers, *submission.work.answers[task]):
        exec(source, namespace)
    return namespace


def _texts(submission: Submission) -> str:
    return " ".join(note.text for note in submission.notes)


def test_a_plain_submission_is_read_without_notes(layout: Layout) -> None:
    submission = _read(layout)
    assert submission.notes == ()
    assert submission.work.setup == layout.setup
    assert list(submission.work.answers) == ["packed_bytes", "spread", "settings"]
    assert len(submission.work.answers["spread"]) == 2
    assert submission.work.files == layout.files


# -- kind `ids`


def _split_in_function(notebook: dict[str, Any]) -> None:
    cell = cell_of(notebook, "packed_bytes")
    at = notebook["cells"].index(cell)
    first, second = (
        "def packed_bytes(count, bits):\n    total = count * bits",
        "    return -(-total // 8)",
    )
    notebook["cells"][at : at + 1] = [{**cell, "source": first}, {**cell, "source": second}]


def _split_before_function(notebook: dict[str, Any]) -> None:
    cell = cell_of(notebook, "packed_bytes")
    at = notebook["cells"].index(cell)
    notebook["cells"][at : at + 1] = [{**cell, "source": "import math"}, {**cell, "source": BYTES}]


def _split_without_id(notebook: dict[str, Any]) -> None:
    cell = cell_of(notebook, "packed_bytes")
    cell["source"] = "def packed_bytes(count, bits):\n    total = count * bits"
    notebook["cells"].insert(
        notebook["cells"].index(cell) + 1, code_cell("    return -(-total // 8)")
    )


@pytest.mark.parametrize("edit", [_split_in_function, _split_before_function, _split_without_id])
def test_the_parts_of_a_split_answer_are_joined(layout: Layout, edit: Edit) -> None:
    submission = _read(layout, edit)
    assert _runs(submission)["packed_bytes"](3, 4) == 2
    assert "was split" in _texts(submission)


def _copied(*sources: str) -> Edit:
    def edit(notebook: dict[str, Any]) -> None:
        cell = cell_of(notebook, "packed_bytes")
        at = notebook["cells"].index(cell)
        notebook["cells"][at : at + 1] = [{**cell, "source": source} for source in sources]

    return edit


WRONG = "def packed_bytes(count, bits):\n    return 0"


@pytest.mark.parametrize(
    "edit",
    [
        _copied(WRONG, BYTES),
        _copied(WRONG, WRONG, BYTES),
        _copied(WRONG, BYTES, "# a note of mine"),
    ],
)
def test_of_copies_the_last_that_defines_the_task_counts(layout: Layout, edit: Edit) -> None:
    submission = _read(layout, edit)
    assert _runs(submission)["packed_bytes"](3, 4) == 2
    assert "the last one was graded" in _texts(submission)
    assert submission.notes_of("packed_bytes")


def _without(name: str) -> Edit:
    return lambda notebook: notebook["cells"].remove(cell_of(notebook, name))


def _changed(name: str, **changes: Any) -> Edit:
    return lambda notebook: cell_of(notebook, name).update(changes)


def _metadata(name: str, **changes: Any) -> Edit:
    return lambda notebook: cell_of(notebook, name)["metadata"]["nbgrader"].update(changes)


def _stripped(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def _stripped_of_ids_too(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id")


def _reversed(notebook: dict[str, Any]) -> None:
    notebook["cells"].reverse()


@pytest.mark.parametrize(
    "edit",
    [
        _without("check-packed_bytes"),
        lambda notebook: cell_of(notebook, "check-packed_bytes")["metadata"].clear(),
        _metadata("check-packed_bytes", grade=False, points=0),
        _metadata("check-packed_bytes", points=10**6, locked=False),
        _changed("check-packed_bytes", cell_type="markdown"),
        _changed("packed_bytes", cell_type="raw"),
        _changed("check-packed_bytes", source="assert True"),
        _without("setup"),
        _stripped,
        _stripped_of_ids_too,
        _reversed,
    ],
    ids=[
        "check deleted", "check without metadata", "grade: false", "points raised", "check as text",
        "answer as raw cell", "check edited", "setup deleted", "all metadata gone", "ids gone too",
        "cells reversed",
    ],
)  # fmt: skip
def test_what_happens_to_ids_checks_and_order_does_not_matter(layout: Layout, edit: Edit) -> None:
    submission = _read(layout, edit)
    assert _runs(submission)["packed_bytes"](3, 4) == 2
    assert submission.work.setup == layout.setup
    released = [cell["metadata"].get("nbgrader") for cell in layout.notebook["cells"]]
    kept = [
        cell["metadata"].get("nbgrader")
        for cell in submission.notebook["cells"]
        if not cell["id"].startswith("own-")
    ]
    assert kept == released
    assert cell_of(submission.notebook, "check-packed_bytes")["source"].startswith("check(")


def test_an_answer_in_a_cell_of_ones_own_is_found_when_its_cell_is_empty(layout: Layout) -> None:
    stub = cell_of(layout.notebook, "packed_bytes")["source"]
    for left in (stub, "", "# see below"):
        submission = _read(
            layout, lambda notebook: notebook["cells"].append(code_cell(BYTES)), packed_bytes=left
        )
        assert _runs(submission)["packed_bytes"](3, 4) == 2
        assert "in a cell of your own" in _texts(submission)


def test_a_trial_elsewhere_does_not_replace_the_answer(layout: Layout) -> None:
    submission = _read(layout, lambda notebook: notebook["cells"].append(code_cell(WRONG)))
    assert _runs(submission)["packed_bytes"](3, 4) == 2
    assert not any("packed_bytes" in source for source in submission.work.helpers)


def test_definitions_of_added_cells_count_and_nothing_that_runs(layout: Layout) -> None:
    source = (
        "import math\nHALF = 4\ndef half(x):\n    return x / HALF\nprint(1 / 0)\nvalue = half(3)\n"
    )
    submission = _read(layout, lambda notebook: notebook["cells"].append(code_cell(source)))
    namespace = _runs(submission)
    assert namespace["half"](8) == 2
    assert "value" not in namespace


def test_definitions_put_into_a_locked_cell_count_too(layout: Layout) -> None:
    extra = cell_of(layout.notebook, "setup")["source"] + "\nBYTE = 8\n"
    submission = _read(layout, setup=extra)
    assert _runs(submission)["BYTE"] == 8
    assert submission.work.setup == layout.setup


@pytest.mark.parametrize("magic", ["%time\n", "%%time\n", "!ls\n", "%matplotlib inline\n"])
def test_magic_in_an_answer_does_nothing(layout: Layout, magic: str) -> None:
    submission = _read(layout, packed_bytes=magic + BYTES)
    assert _runs(submission)["packed_bytes"](3, 4) == 2


def test_written_answers_are_kept_and_an_empty_one_is_the_stub(layout: Layout) -> None:
    kept = cell_of(_read(layout).notebook, "what_did_you_observe")["source"]
    assert kept == RIGHT["what_did_you_observe"]
    emptied = _read(layout, what_did_you_observe="  ")
    assert cell_of(emptied.notebook, "what_did_you_observe")["source"].endswith(TEXT_STUB)


def test_own_cells_stand_where_they_stood(layout: Layout) -> None:
    def edit(notebook: dict[str, Any]) -> None:
        at = notebook["cells"].index(cell_of(notebook, "check-spread"))
        notebook["cells"].insert(at + 1, code_cell("mine = 1"))
        notebook["cells"].insert(0, code_cell("first = 1"))

    cells = _read(layout, edit).notebook["cells"]
    sources = [cell["source"] for cell in cells]
    assert sources[0] == "first = 1"
    assert sources[sources.index("mine = 1") - 1] == 'check("spread", spread)'
    assert all(cell.get("outputs", []) == [] for cell in cells)


@pytest.mark.parametrize(
    "edit",
    [
        lambda notebook: cell_of(notebook, "check-spread")["metadata"].update(
            tags=["skip-execution"]
        ),
        lambda notebook: cell_of(notebook, "check-spread")["metadata"].update(
            tags=["raises-exception"]
        ),
        _changed("check-spread", source="pass"),
    ],
)
def test_steering_the_grader_is_noted_as_suspicious(layout: Layout, edit: Edit) -> None:
    kinds = [note.kind for note in _read(layout, edit).notes]
    assert NoteKind.SUSPICIOUS in kinds


# -- kind `files`


def _bytes(layout: Layout, **answers: str) -> bytes:
    return json.dumps(answered(layout.notebook, {**RIGHT, **answers}), indent=1).encode()


@pytest.mark.parametrize(
    ("damage", "note"),
    [
        (lambda data: b"\xef\xbb\xbf" + data, "byte-order mark"),
        (lambda data: data.decode().encode("utf-16"), "byte-order mark"),
        (lambda data: data.replace(b'"A tiny', b'"\xe9 A tiny').replace(b"half-empty", b"\xfc"), "not UTF-8"),
        (lambda data: data[: data.index(b"What did you observe?")], "cut off"),
        (lambda data: data[:-20], "cut off"),
        (lambda data: data.rstrip() + b"\n}}", "cut off"),
    ],
    ids=["BOM", "UTF-16", "latin-1", "cut in a cell", "cut at the end", "doubled end"],
)  # fmt: skip
def test_damaged_files_are_read_as_far_as_they_go(
    layout: Layout, damage: Callable[[bytes], bytes], note: str
) -> None:
    submission = read_submission(damage(_bytes(layout)), layout)
    for task in ("packed_bytes", "settings"):
        assert callable(_runs(submission, task)[task])
    assert note in _texts(submission)


def test_a_task_behind_the_cut_says_so(layout: Layout) -> None:
    data = _bytes(layout)
    submission = read_submission(data[: data.index(b"## Settings")], layout)
    assert submission.work.answers["settings"] == ()
    assert submission.notes_of("settings") == ("The file was cut off before this task.",)
    assert submission.notes_of("spread") == ()


def _each_cell(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        notebook = json.loads(data)
        for cell in notebook["cells"]:
            change(cell)
        return json.dumps(notebook).encode()

    return damage


def _old_format(data: bytes) -> bytes:
    notebook = json.loads(data)
    cells = [
        {**cell, "input": cell["source"]} if cell["cell_type"] == "code" else cell
        for cell in notebook["cells"]
    ]
    for cell in cells:
        if cell["cell_type"] == "code":
            del cell["source"]
    return json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}).encode()


@pytest.mark.parametrize(
    "damage",
    [
        _each_cell(lambda cell: cell.pop("id")),
        _each_cell(lambda cell: cell.update(outputs=None, execution_count=None)),
        _each_cell(lambda cell: cell.update(source=cell["source"].splitlines(keepends=True))),
        _each_cell(lambda cell: cell.update(source=cell["source"].replace("\n", "\r\n"))),
        _each_cell(lambda cell: cell["metadata"].update(tags=None, nbgrader_extra=[1])),
        _each_cell(lambda cell: cell.update(outputs=[{"output_type": "stream", "text": "x" * 10**6}])),
        _old_format,
        lambda data: data.replace(b'"nbformat": 4', b'"nbformat": 5'),
        lambda data: data.replace(b'"nbformat": 4,', b""),
        lambda data: json.dumps({**json.loads(data), "metadata": None}).encode(),
    ],
    ids=["no ids", "null outputs", "lines", "CRLF", "odd metadata", "30 MB of output", "nbformat 3",
         "nbformat 5", "no nbformat", "null metadata"],
)  # fmt: skip
def test_other_forms_of_a_notebook_are_read_whole(
    layout: Layout, damage: Callable[[bytes], bytes]
) -> None:
    submission = read_submission(damage(_bytes(layout)), layout)
    for task in ("packed_bytes", "spread", "settings"):
        assert callable(_runs(submission, task)[task])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\0\0", "empty"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"\n <HTML><body>", "web page"),
        (b"PK\x03\x04" + bytes(range(256)), "not a notebook"),
        (b"print('hello')", "not a notebook"),
        (b"[1, 2]", "JSON, but not a notebook"),
        (b"null", "JSON, but not a notebook"),
        (b'{"cells": null}', "no cells"),
        (b'{"cells": {"a": 1}}', "no cells"),
        (b'{"cells": [', "not a notebook"),
        (b"[" * 100_000, "deep"),
    ],
)
def test_a_file_that_holds_no_notebook_is_refused_with_the_reason(
    layout: Layout, data: bytes, reason: str
) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read_submission(data, layout)


@pytest.mark.parametrize("marks", ["<<<<<<< HEAD\n", "=======\n", ">>>>>>> theirs\n"])
def test_conflict_marks_are_refused_with_their_line(layout: Layout, marks: str) -> None:
    lines = _bytes(layout).decode().split("\n")
    lines[6:6] = [marks.rstrip()]
    with pytest.raises(UnreadableError, match=r"merge conflict \(line 7\)"):
        read_submission("\n".join(lines).encode(), layout)


def test_conflict_marks_inside_a_cell_are_that_cells_error_alone(layout: Layout) -> None:
    submission = _read(layout, packed_bytes="<<<<<<< HEAD\n" + BYTES)
    assert submission.work.answers["packed_bytes"] == ("<<<<<<< HEAD\n" + BYTES,)
    assert callable(_runs(submission, "settings")["settings"])


def test_half_of_a_surrogate_pair_harms_nobody(layout: Layout) -> None:
    data = _bytes(layout).replace(b"half-empty", b"\\ud800")
    text = json.dumps(read_submission(data, layout).notebook, ensure_ascii=False)
    assert text.encode()


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300), cut=st.integers(0, 8000), at=st.integers(0, 8000))
def test_no_bytes_raise_anything_but_unreadable(
    layout: Layout, data: bytes, cut: int, at: int
) -> None:
    whole = _bytes(layout)
    for each in (data, whole[:cut], whole[:at] + data + whole[at + cut :]):
        with contextlib.suppress(UnreadableError):
            read_submission(each, layout)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cells", "cell_type", "source", "metadata", "nbgrader", "grade_id", "id", "tags"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(cells=st.lists(JSON, max_size=4))
def test_no_json_in_place_of_cells_raises(layout: Layout, cells: list[Any]) -> None:
    read_submission(json.dumps({"cells": cells}).encode(), layout)


def test_a_notebook_says_which_exercise_it_is(layout: Layout) -> None:
    assert exercise_of(_bytes(layout)) == TINY
    assert exercise_of(b"{}") == exercise_of(b"\xff") == exercise_of(b"[]") == ""


def test_reading_runs_nothing(layout: Layout, tmp_path: Any) -> None:
    target = tmp_path / "ran"
    _read(layout, packed_bytes=f"open({str(target)!r}, 'w')\n" + BYTES)
    assert not target.exists()
    assert read_cells(_bytes(layout))[1] == []


# -- other cells


def _helpers_cell(source: str) -> Edit:
    def edit(notebook: dict[str, Any]) -> None:
        [cell] = [
            each for each in notebook["cells"] if "helpers" in each["metadata"].get("tags", [])
        ]
        cell["source"] = source

    return edit


def _after(name: str, *sources: str) -> Edit:
    def edit(notebook: dict[str, Any]) -> None:
        at = notebook["cells"].index(cell_of(notebook, name)) + 1
        notebook["cells"][at:at] = [code_cell(source) for source in sources]

    return edit


def test_the_helpers_cell_counts_whole(layout: Layout) -> None:
    source = "TABLE = {}\nfor bits in (4, 8):\n    TABLE[bits] = bits / 8\n%time\n"
    namespace = _runs(_read(layout, _helpers_cell(source)))
    assert namespace["TABLE"] == {4: 0.5, 8: 1.0}


def test_cells_are_run_in_the_order_of_the_notebook(layout: Layout) -> None:
    edit = _after("spread", "MINE = 1")
    work = _read(
        layout, lambda notebook: (edit(notebook), _helpers_cell("HALF = 4")(notebook))
    ).work
    assert work.helpers == ("HALF = 4", "MINE = 1")
    assert work.order == (0, "packed_bytes", 1, "spread", "settings")
    assert not work.apart


@pytest.mark.parametrize(
    ("added", "apart"),
    [
        (["import math", "import math"], False),
        (["def _v(m):\n    return m", "def _v(m):\n    return m"], False),
        (["def _v(m):\n    return m", "def _v(e, m):\n    return e"], True),
        (["K = 1", "K = 2"], True),
        (["K = 1\nK = 2"], False),
        (["def check(*_):\n    pass"], True),
        (["def _square(x):\n    return x"], True),
        (["class A: pass", "from a import A"], True),
    ],
)
def test_names_with_two_meanings_set_the_tasks_apart(
    layout: Layout, added: list[str], apart: bool
) -> None:
    assert _read(layout, _after("spread-2", *added)).work.apart is apart


def test_an_assignment_in_the_answer_cell_is_the_answer(layout: Layout) -> None:
    source = "import functools\ndef _p(count, bits):\n    return -(-count * bits // 8)\n"
    source += "packed_bytes = functools.cache(_p)"
    edit = _after("check-packed_bytes", WRONG)
    submission = _read(layout, edit, packed_bytes=source)
    assert _runs(submission)["packed_bytes"](3, 4) == 2
    [note] = submission.notes_of("packed_bytes")
    assert "defined again in a later cell" in note


def test_an_answer_split_in_three_is_found(layout: Layout) -> None:
    pieces = [
        "def packed_bytes(count, bits):",
        "    total = count * bits",
        "    return -(-total // 8)",
    ]
    submission = _read(layout, _after("packed_bytes", *pieces[1:]), packed_bytes=pieces[0])
    assert _runs(submission)["packed_bytes"](3, 4) == 2
    assert "was split" in _texts(submission)


def test_a_trial_that_is_indented_as_a_whole_is_not_taken_for_a_part(layout: Layout) -> None:
    submission = _read(layout, _after("packed_bytes", "    print(packed_bytes(3, 4))"))
    assert submission.notes == ()
    assert "print" not in submission.work.answers["packed_bytes"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\n".join(f"  {line}" for line in text.splitlines()),
        lambda text: "\n".join((">>> " if i == 0 else "... ") + line for i, line in enumerate(text.splitlines())),
        lambda text: "!echo \\\n two lines\n" + text,
    ],
    ids=["indented", "prompts", "continued magic"],
)  # fmt: skip
def test_an_answer_that_jupyter_accepts_is_accepted(
    layout: Layout, change: Callable[[str], str]
) -> None:
    submission = _read(layout, packed_bytes=change(BYTES))
    assert _runs(submission)["packed_bytes"](3, 4) == 2
    assert submission.notes == ()


DEEP = "X = " + " + ".join(map(str, range(350)))


@pytest.mark.parametrize("source", [DEEP, "X = a" + ".b" * 900])
def test_deep_code_harms_nothing(layout: Layout, source: str) -> None:
    submission = _read(
        layout, _after("packed_bytes", source), settings=f"{source}\n{RIGHT['settings']}"
    )
    assert source in submission.work.helpers
    assert source in submission.work.answers["settings"][0]


@pytest.mark.parametrize("source", ["X = " + "-" * 50_000 + "1", "X = '" + "x" * 200_000 + "'"])
def test_a_cell_that_is_too_much_is_noted(layout: Layout, source: str) -> None:
    submission = _read(layout, _after("packed_bytes", source))
    assert "Nothing of cell" in _texts(submission)
    assert _runs(submission)["packed_bytes"](3, 4) == 2


HOSTILE = {
    "four cells of 100 kB": ["a?" * 49_000 + "\n(", "x" + " " * 99_000 + "(", "a, " * 33_000 + "(", "- " * 49_000 + "("],
    "500 cells of 100 kB": [f"x{i} = 1\n" * 14_000 for i in range(500)],
    "100,000 cells": ["x = 1"] * 100_000,
    "definitions": ["".join(f"def f{i}(x):\n    return x\n" for i in range(3_000))] * 4,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_a_hostile_notebook_takes_seconds(layout: Layout, name: str) -> None:
    made = answered(layout.notebook, RIGHT, _after("packed_bytes", *HOSTILE[name]))
    data = json.dumps(made).encode()
    begun = time.process_time()
    submission = read_submission(data, layout)
    assert time.process_time() - begun < 20
    assert _runs(submission)["packed_bytes"](3, 4) == 2
