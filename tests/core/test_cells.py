"""Which statements of a cell count when it is graded, and which names would be missing."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.cells import defined_names, definitions, missing_names, parse_cell


def kept(source):
    return [ast.unparse(statement) for statement in definitions(source)]


@pytest.mark.parametrize(
    "source",
    [
        "import math",
        "from math import sqrt, pi as circle",
        "from __future__ import annotations",
        "def f(x):\n    return x",
        "async def f():\n    pass",
        "class A:\n    b = 1",
        "BYTES = 4",
        "BYTES = {'float32': 4, 'int8': 1}",
        "GIB = 2 ** 30",
        "HALF = GIB / 2",
        "a, b = (1, 2)",
        "a = b = 3",
        "SIZE: int = 4",
        "double = lambda x: g(x) * 2",
        "EIGHTH = BYTES['int8']",
        "PI = math.pi",
        "BIG = 1 if FAST else 2",
        "try:\n    import numpy as np\nexcept ImportError:\n    np = None",
        "if TYPE_CHECKING:\n    from typing import Any",
    ],
)
def test_definitions_and_constants_are_kept(source):
    assert kept(source) == [ast.unparse(ast.parse(source))]


@pytest.mark.parametrize(
    "source",
    [
        "f(1)",
        "print('hello')",
        "x = f(1)",
        "x: int = f(1)",
        "x: int",
        "SIZES = [f(n) for n in range(3)]",
        "SIZES = {n: 1 for n in range(3)}",
        "text = f'{f(1)}'",
        "x = (y := 3)",
        "a.b = 1",
        "a[0] = 1",
        "x += 1",
        "del x",
        "for i in range(3):\n    x = i",
        "while True:\n    pass",
        "with open('f') as f:\n    pass",
        "assert f(1) == 2",
        "if f():\n    x = 1",
        "if True:\n    f()",
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    import numpy\nexcept ImportError:\n    install()",
        "raise SystemExit",
        "'text'",
    ],
)
def test_what_runs_is_left_out(source):
    assert kept(source) == []


def test_of_a_mixed_cell_the_definitions_are_kept_in_order():
    source = "import math\nprint(1)\ndef f():\n    return g()\nx = f()\nN = 3\nf()"
    assert kept(source) == ["import math", "def f():\n    return g()", "N = 3"]


@pytest.mark.parametrize(
    "magic",
    [
        "%matplotlib inline",
        "!pip install numpy",
        "%time f()",
        "?len",
        "len?",
        "files = !ls",
        "took = %timeit -o f()",
    ],
)
def test_a_line_of_magic_does_not_lose_the_cell(magic):
    assert kept(f"{magic}\nN = 3\ndef f():\n    return N") == ["N = 3", "def f():\n    return N"]


def test_magic_inside_a_block_keeps_the_block():
    source = "def f():\n    !ls\n    return 3"
    assert kept(source) == ["def f():\n    pass\n    return 3"]


def test_python_that_looks_like_magic_is_left_alone():
    source = 'text = """\n%time\n!ls\nwhy?\n"""\nrest = 7 % 3'
    assert kept(source) == [ast.unparse(each) for each in ast.parse(source).body]


@pytest.mark.parametrize("magic", ["%%time", "%%capture out", "%%prun -l 3"])
def test_a_cell_magic_that_runs_python_keeps_its_definitions(magic):
    assert kept(f"{magic}\nN = 3") == ["N = 3"]


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile answer.py", "%%timeit", "%%javascript"])
def test_a_cell_magic_that_does_not_define_anything_here_keeps_nothing(magic):
    assert kept(f"{magic}\nN = 3") == []


@pytest.mark.parametrize("source", ["def f(:", "x = 'open", "\0", "(" * 5000, "x = 1\n  y = 2"])
def test_a_cell_that_is_not_python_has_no_definitions(source):
    assert definitions(source) == []
    assert defined_names([source]) == set()
    assert missing_names(source, []) == []


@given(source=st.text())
def test_no_text_breaks_the_reading(source):
    definitions(source)
    defined_names([source])
    missing_names(source, [])


def test_a_cell_that_is_not_python_raises_when_parsed():
    with pytest.raises(SyntaxError):
        parse_cell("def f(:")


def test_names_are_collected_over_cells():
    sources = [
        "import os.path as p, sys",
        "a, (b, c) = 1, (2, 3)",
        "class K:\n    inner = 1",
        "def f(x):\n    y = 1",
        "try:\n    import numpy as np\nexcept ImportError:\n    np = None",
        "computed = f(1)",
    ]
    assert defined_names(sources) == {"p", "sys", "a", "b", "c", "K", "f", "np"}


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("def f(x):\n    return x * SCALE", ["SCALE"]),
        ("def f(x):\n    return [x * n for n in SIZES]", ["SIZES"]),
        ("def f(x):\n    def g():\n        return TABLE[x]\n    return g()", ["TABLE"]),
        ("class A:\n    def f(self):\n        return helper(self)", ["helper"]),
        ("class A(Base):\n    pass", ["Base"]),
        ("def f(x=SCALE):\n    return x", ["SCALE"]),
        ("def f(x: np.ndarray):\n    return x", ["np"]),
        ("@cached\ndef f(x):\n    return x", ["cached"]),
        ("def f(x):\n    return display(x)", ["display"]),
        ("def f(x):\n    global total\n    total = x\n    return total", []),
        ("def f(x):\n    import math\n    return math.sqrt(len(str(x)))", []),
        ("def f(n):\n    return 1 if n == 0 else n * f(n - 1)", []),
        ("N = 3\ndef f(x):\n    return x * N", []),
        (
            "def f(x):\n    try:\n        return int(x)\n    except ValueError as e:\n        raise e",
            [],
        ),
        ("def f(x):\n    return math.pi", []),
    ],
)
def test_names_that_would_be_missing_are_found(source, missing):
    assert missing_names(source, known=["math"]) == missing
