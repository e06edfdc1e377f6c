"""Submissions that break graders: each costs its own task, as stated, and nothing else."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gradelib.checks import PreparedCheck
from gradelib.grading.work import Isolation, Work
from gradelib.judging import judge
from gradelib.verdicts import Status
from tests.isolation.conftest import HONEST, Grade

pytestmark = pytest.mark.sandbox

RIGHT = HONEST["double"]
CRASHED, TIMED_OUT, OUT_OF_MEMORY = Status.CRASHED, Status.TIMED_OUT, Status.OUT_OF_MEMORY

# What stands in the cell of `double`, and what that task must get; `area` is right and stays so.
SUBMISSIONS = {
    # process
    "os._exit in the cell": ("import os\nos._exit(0)\n" + RIGHT, {CRASHED}),
    "os._exit in the function": ("def double(x):\n    import os\n    os._exit(0)", {CRASHED}),
    "exit() in the cell": ("exit()\n" + RIGHT, {CRASHED}),
    "exit() in the function": ("def double(x):\n    exit()", {CRASHED}),
    "sys.exit(1) in the function": ("def double(x):\n    import sys\n    sys.exit(1)", {CRASHED}),
    "a segmentation fault": ("def double(x):\n    import ctypes\n    ctypes.string_at(0)", {CRASHED}),
    "a segmentation fault in the cell": ("import ctypes\nctypes.string_at(0)", {CRASHED}),
    "abort": ("def double(x):\n    import os\n    os.abort()", {CRASHED}),
    "a bus error": (
        "def double(x):\n    import ctypes, mmap, os\n    f = open('x', 'w+b'); f.truncate(4096)\n"
        "    m = mmap.mmap(f.fileno(), 4096); f.truncate(0); return m[0]",
        {CRASHED},
    ),
    "KeyboardInterrupt": ("def double(x):\n    raise KeyboardInterrupt", {CRASHED}),
    "a bytecode that does not exist": (
        "def double(x): pass\ndouble.__code__ = double.__code__.replace(co_code=bytes([255, 255] * 8))",
        {CRASHED, Status.RAISED},
    ),
    # time
    "an endless loop": ("def double(x):\n    while True: pass", {TIMED_OUT}),
    "an endless loop in the cell": ("while True: pass\n" + RIGHT, {TIMED_OUT}),
    "a loop that catches everything": (
        "def double(x):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException: pass",
        {TIMED_OUT},
    ),
    "endless print": ("def double(x):\n    while True: print('x' * 10_000)", {TIMED_OUT}),
    "sleep with all signals blocked": (
        "def double(x):\n    import signal, time\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n    time.sleep(1e6)",
        {TIMED_OUT},
    ),
    "a loop in C": ("def double(x):\n    return sum(iter(int, 1))", {TIMED_OUT}),
    "a pattern that backtracks without end": (
        "def double(x):\n    import re\n    return re.match('(a+)+$', 'a' * 60 + 'b')",
        {TIMED_OUT},
    ),
    "a power tower": ("def double(x):\n    return 9 ** 9 ** 9 ** 9", {TIMED_OUT, OUT_OF_MEMORY}),
    # memory
    "a list of ten billion numbers": ("def double(x):\n    return list(range(10**10))", {OUT_OF_MEMORY}),
    "a huge list in the cell": ("everything = list(range(10**10))", {OUT_OF_MEMORY}),
    "bytes until none are left": (
        "def double(x):\n    kept = []\n    while True: kept.append(bytearray(2**24))",
        {OUT_OF_MEMORY},
    ),
    "shared memory until none is left": (
        "def double(x):\n    import mmap\n    kept = []\n    while True:\n"
        "        m = mmap.mmap(-1, 2**24); m.write(b'x' * 2**24); kept.append(m)",
        {OUT_OF_MEMORY},
    ),
    "memory of many processes": (
        "def double(x):\n    import os, time\n    for _ in range(6):\n        if os.fork() == 0:\n"
        "            kept = bytearray(b'x' * (50 * 2**20)); time.sleep(60)\n    time.sleep(60)",
        {OUT_OF_MEMORY},
    ),
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef double(x):\n    return double(x)",
        {OUT_OF_MEMORY, CRASHED, TIMED_OUT},
    ),
    "deep recursion in C": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef double(x):\n    a = []\n"
        "    for _ in range(10**5): a = [a]\n    import json\n    return json.dumps(a)",
        {OUT_OF_MEMORY, CRASHED},
    ),
    "a deeply nested expression": ("def double(x):\n    return " + "(" * 5000 + "x" + ")" * 5000, {Status.RAISED}),
    # input
    "a value that input() should give": ("n = int(input())\ndef double(x):\n    return n * x", {Status.RAISED}),
    "input() in the function": ("def double(x):\n    return 2 * float(input('x? '))", {Status.RAISED}),
    "a read from standard input": ("def double(x):\n    import sys\n    return sys.stdin.read()", {Status.BAD_VALUE}),
    # partial credit: values that other graders take for a full score
    "minus one": ("def double(x):\n    return -1", {Status.WRONG}),
    "False": ("def double(x):\n    return False", {Status.BAD_VALUE}),
    "NaN": ("def double(x):\n    return float('nan')", {Status.BAD_VALUE}),
    "infinity": ("def double(x):\n    return float('inf')", {Status.BAD_VALUE}),
    "a huge whole number": ("def double(x):\n    return 10**3999", {Status.WRONG}),
    "a whole number too large to write": ("def double(x):\n    return 10**5000", {Status.BAD_VALUE}),
    "numpy.float64(0)": ("import numpy\ndef double(x):\n    return numpy.float64(0)", {Status.WRONG}),
    "numpy's NaN": ("import numpy\ndef double(x):\n    return numpy.float32('nan')", {Status.BAD_VALUE}),
    "an empty array": ("import numpy\ndef double(x):\n    return numpy.zeros(0)", {Status.BAD_VALUE}),
    # syntax
    "a cell that does not parse": ("def double(x:\n    return 2", {Status.RAISED}),
    "a null character": ("def double(x):\n    return '\0'\n", {Status.RAISED, Status.BAD_VALUE}),
    "a name that is not a function": ("double = 6", {Status.BAD_VALUE}),
    "the placeholder": ("def double(x):\n    ...", {Status.NOT_ATTEMPTED}),
    "nothing": ("", {Status.NOT_ATTEMPTED}),
}  # fmt: skip

# Right answers in company that costs others their marks elsewhere.
RIGHT_ALL_THE_SAME = {
    "a line of 30 MB": "print('x' * 30_000_000)\ndef double(x):\n    print('x' * 30_000_000)\n    return 2 * x",
    "a hundred thousand lines": "def double(x):\n    for i in range(100_000): print(i)\n    return 2 * x",
    "30 MB to the descriptor": "import os\ndef double(x):\n    os.write(1, b'x' * 30_000_000)\n    return 2 * x",
    "output that is not text": "import os\nos.write(2, bytes(range(256)))\n" + RIGHT,
    "a warning": "import warnings\ndef double(x):\n    warnings.warn('careful')\n    return 2 * x",
    "text on standard error": "import sys\nprint('hm', file=sys.stderr)\ndef double(x):\n    print('hm', file=sys.stderr)\n    return 2 * x",
    "a thread that writes to standard error": (
        "import sys, threading\ndef double(x):\n"
        "    threading.Thread(target=lambda: sys.__stderr__.write('hm')).start()\n    return 2 * x"
    ),
    "a thread that fails": "import threading\nthreading.Thread(target=lambda: 1 / 0).start()\n" + RIGHT,
    "logging": "import logging\nlogging.error('hm')\n" + RIGHT,
    "input() before the function": "n = input('n? ')\n" + RIGHT,
    "input() after the function": RIGHT + "\nprint(double(float(input())))",
    "a failing trial call": RIGHT + "\ndouble()\nassert double(2) == 5",
    "a closed standard output": "import sys\nsys.stdout.close()\n" + RIGHT,
    "standard output replaced": "import io, sys\nsys.stdout = io.StringIO()\n" + RIGHT,
    "magics": "%matplotlib inline\n!pip install nothing\n" + RIGHT + "\ndouble?",
    "a cell magic": "%%time\n" + RIGHT,
    "display": "def double(x):\n    display(x)\n    return 2 * x",
    "future annotations": "from __future__ import annotations\ndef double(x: Number) -> Nothing:\n    return 2 * x",
    "numpy.float64": "import numpy\ndef double(x):\n    return numpy.float64(2 * x)",
    "a file of its own": "open('notes.txt', 'w').write('2')\ndef double(x):\n    return int(open('notes.txt').read()) * x",
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Pair:\n    x: float\n"
        "def double(x):\n    return Pair(x).x * 2"
    ),
    "a process of its own": (
        "import subprocess\ndef double(x):\n"
        "    return float(subprocess.run(['/bin/echo', str(2 * x)], capture_output=True).stdout)"
    ),
    "a pool of processes": (
        "import multiprocessing\ndef twice(x):\n    return 2 * x\ndef double(x):\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n        return pool.map(twice, [x])[0]"
    ),
    "a server of its own": (
        "import socket\ndef double(x):\n    with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "        socket.create_connection(server.getsockname()).close()\n    return 2 * x"
    ),
    "a split cell": ("def double(x):\n", "    return 2 * x"),
    "a second part that does not parse": (RIGHT, "now what?!"),
}  # fmt: skip


@pytest.mark.parametrize("first", ["double", pytest.param("area", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SUBMISSIONS)
def test_a_bad_submission_costs_its_own_task_alone(grade: Grade, name: str, first: str) -> None:
    source, statuses = SUBMISSIONS[name]
    cells = {"double": source, "area": HONEST["area"]}
    # Filling memory takes a busy machine a while, and must not end for want of time.
    seconds = 10.0 if OUT_OF_MEMORY in statuses and TIMED_OUT not in statuses else 1.0
    order = sorted(cells, reverse=first == "double")
    begun = time.monotonic()
    verdicts = grade({task: cells[task] for task in order}, seconds=seconds)
    assert verdicts["double"].status in statuses, verdicts["double"].message
    assert verdicts["double"].score == 0
    assert verdicts["area"].score == 1, verdicts["area"].message
    assert time.monotonic() - begun < 10 * seconds


@pytest.mark.parametrize("name", RIGHT_ALL_THE_SAME)
def test_a_right_answer_in_bad_company_has_all_its_marks(grade: Grade, name: str) -> None:
    verdicts = grade({"double": RIGHT_ALL_THE_SAME[name], "area": HONEST["area"]})
    assert {task: verdict.score for task, verdict in verdicts.items()} == {
        "double": 1,
        "area": 1,
    }, [verdict.message for verdict in verdicts.values()]


@pytest.mark.parametrize(
    ("source", "score"),
    [
        ("def area(width, height):\n    return width * height", 0.6),
        ("def area(width, height):\n    if width < 0: return -1\n    return width * height", 0.6),
        ("def area(width, height):\n    if width < 0: exit()\n    return width * height", 0.0),
        ("def area(width, height):\n    raise ValueError", 0.0),
    ],
)
def test_part_of_an_answer_earns_its_weight(grade: Grade, source: str, score: float) -> None:
    verdict = grade({"area": source})["area"]
    assert verdict.score == pytest.approx(score)


def test_the_message_says_why_a_value_is_missing(grade: Grade) -> None:
    verdict = grade({"double": "n = int(input())\ndef double(x):\n    return n * x"})["double"]
    assert "before that, the cell raised EOFError: input() has nobody to ask" in verdict.message


@pytest.mark.parametrize(
    ("helpers", "cell"),
    [
        (("import not_a_package as np",), "def double(x):\n    return np.add(x, x)"),
        ((), "import not_a_package as np\ndef double(x):\n    return np.add(x, x)"),
        ((), "from not_a_package import add\ndef double(x):\n    return add(x, x)"),
        ((), "def double(x):\n    import not_a_package\n    return 2 * x"),
    ],
    ids=["in a helper", "in the cell", "a name of it", "in the function"],
)
def test_a_package_that_is_not_there_is_named_and_nothing_is_said_of_definitions(
    grade: Grade, helpers: tuple[str, ...], cell: str
) -> None:
    message = grade({"double": cell}, helpers)["double"].message
    assert "ModuleNotFoundError: No module named 'not_a_package'" in message
    assert "NameError" not in message
    assert "Only the standard library" in message
    assert "functions, classes and constants" not in message


def test_the_message_says_what_an_answer_died_of(grade: Grade) -> None:
    verdict = grade({"double": "def double(x):\n    import ctypes\n    ctypes.string_at(0)"})[
        "double"
    ]
    assert "segmentation fault" in verdict.message


def test_answers_share_their_names_and_the_helpers(grade: Grade) -> None:
    verdicts = grade(
        {"double": "def double(x):\n    return area(FACTOR, x)", "area": HONEST["area"]},
        helpers=("FACTOR = 2",),
    )
    assert verdicts["double"].score == 1


def test_a_helper_that_kills_the_process_is_left_out(grade: Grade) -> None:
    verdicts = grade(HONEST, helpers=("class Bad:\n    import os\n    os._exit(3)", "GOOD = 1"))
    assert all(verdict.score == 1 for verdict in verdicts.values())


def test_the_name_of_a_made_up_exception_is_not_told_of_a_hidden_case(grade: Grade) -> None:
    source = (
        "def double(x):\n    if x in (3, 0.5): return 2 * x\n"
        "    raise type(f'Saw{x}', (KeyError,), {})(x)"
    )
    verdict = grade({"double": source})["double"]
    assert verdict.status is Status.RAISED
    assert "KeyError" in verdict.message
    assert "Saw" not in verdict.message


NOTEBOOK = Work(
    setup=("factor = 1",),
    helpers=(
        "def scale(x):\n    return factor * x",
        "factor = 2",
        "factor = 5\nUNIT = 1\nlate = 3",
    ),
    answers={
        "double": ("def double(x):\n    return scale(x) * UNIT",),
        "area": (
            "def scale(a, b):\n    return a * b\ndef area(width, height, _=late):\n"
            "    if width < 0: raise ValueError\n    return scale(width, height) * factor // 2",
        ),
    },
    order=(0, 1, "double", "area", 2),
    apart=True,
)


def _judged(
    place: Isolation, checks: dict[str, PreparedCheck], work: Work
) -> dict[str, tuple[float, str]]:
    with place.open(work) as loaded:
        verdicts = {task: judge(loaded[task], checks[task]) for task in work.answers}
    return {task: (verdict.score, verdict.message) for task, verdict in verdicts.items()}


def test_each_task_sees_the_notebook_as_it_is_at_its_place(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    found = _judged(bubblewrap, checks, NOTEBOOK)
    assert {task: score for task, (score, _) in found.items()} == {"double": 1, "area": 1}, found


def test_with_one_meaning_for_each_name_the_order_of_cells_does_not_matter(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    cells = {
        "double": ("def double(x, factor=FACTOR):\n    return scale(x, factor)",),
        "area": (HONEST["area"],),
    }
    helpers = ("FACTOR = int(TWO)\ndef scale(a, b):\n    return a * b", "TWO = '2'")
    for order in (("double", "area", 0, 1), (1, 0, "area", "double"), (), (0,)):
        work = Work((), helpers, cells, order=order)
        found = _judged(bubblewrap, checks, work)
        assert {task: score for task, (score, _) in found.items()} == {"double": 1, "area": 1}, (
            order,
            found,
        )


def test_a_cell_that_kills_the_process_is_left_out_of_every_namespace(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    helpers = (*NOTEBOOK.helpers, "import os\nos._exit(3)")
    work = replace(NOTEBOOK, helpers=helpers, order=(*NOTEBOOK.order, 3))
    found = _judged(bubblewrap, checks, work)
    assert {task: score for task, (score, _) in found.items()} == {"double": 1, "area": 1}, found
