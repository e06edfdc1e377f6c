"""Which statements of a cell count when it is graded, and which names would be missing."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib.cells import (
    bound_names,
    defined_names,
    definition_texts,
    definitions,
    missing_names,
    packages_used,
    parse_cell,
    reached,
    star_imports,
)


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
        "SIZES = {n: 1 for n in range(3)}",
        "INFINITY = float('inf')",
        "NAMES = frozenset('q k v'.split())",
        "Pair = collections.namedtuple('Pair', 'a b')",
        "T = TypeVar('T')",
        "ROOT = math.sqrt(2)",
        "LONGEST = max(len(name) for name in NAMES)",
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
        "SIZES = {n: f(n) for n in range(3)}",
        "x = float(input())",
        "x = list(map(f, [1]))",
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


@pytest.mark.parametrize(
    "source",
    [
        "    N = 3\n    def f():\n        return N",
        "\n\n  N = 3\n  def f():\n      return N",
        ">>> N = 3\n>>> def f():\n...     return N\n...",
        "In [1]: N = 3\n   ...: def f():\n   ...:     return N",
        "!echo \\\n  of two lines\nN = 3\ndef f():\n    return N",
        "%timeit \\\n  f(\\\n 1)\nN = 3\ndef f():\n    return N",
        "files = !ls \\\n -l\nN = 3\ndef f():\n    return N",
    ],
)
def test_what_jupyter_accepts_is_read(source):
    assert kept(source) == ["N = 3", "def f():\n    return N"]


@pytest.mark.parametrize("indent", ["", "    "])
def test_the_text_of_a_definition_is_the_learners_own(indent):
    parts = [
        "@cache\ndef f(x):  # why\n    return x",
        "N = 1; M = 'é'",
        "print(N)",
        "class A: pass",
    ]
    source = "\n".join(parts).replace("\n", f"\n{indent}")
    texts = definition_texts(indent + source)
    wanted = [parts[0].replace("\n", "\n"), "N = 1", "M = 'é'", "class A: pass"]
    assert [text for text, _ in texts] == wanted
    assert [set(names) for _, names in texts] == [{"f"}, {"N"}, {"M"}, {"A"}]


DEEP = {
    "a sum of 350 terms": "X = " + " + ".join(map(str, range(350))),
    "a product": "X = " + " * ".join(["a"] * 700),
    "attributes": "X = a" + ".b" * 900,
    "items": "X = a" + "[0]" * 900,
    "900 elifs": "if 0:\n    X = 0\n" + "".join(f"elif {i}:\n    X = {i}\n" for i in range(900)),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_but_honest_code_is_read_whole(name):
    """Deeper than this reader could follow by calls of its own, and no trouble to the compiler."""
    source = DEEP[name]
    compile(source, "<cell>", "exec")
    assert defined_names([source]) == {"X"}
    assert [text for text, _ in definition_texts(source)] == [source.rstrip("\n")]
    assert set(missing_names(source, [])) <= {"a"}
    assert packages_used(f"{source}\nimport math", [source]) == {"math"}


def test_every_name_that_a_cell_binds_is_found():
    source = (
        "for i, (j, *k) in f():\n    with g() as h:\n        m: int = 1\n"
        "import a.b as c, d.e\nfrom x import *\nn = q = f(1)\nn += 1\n"
        "match z:\n    case [o, *p]:\n        pass\nr = [s for s in t]\nu.v = w[0] = 1\n"
    )
    wanted = set("ijkhmcdnqopr")
    assert bound_names(source) == wanted


def test_modules_that_give_all_their_names_are_found():
    assert star_imports(["from math import *\nprint(1)", "from os import path"]) == {"math"}


def test_what_an_answer_uses_by_way_of_helpers_is_reached():
    helpers = ["def g(x):\n    return h(x)\nUNUSED = OTHER", "def h(x):\n    return x * SCALE"]
    texts = reached("def f(x):\n    return g(x)", helpers)
    assert {name for text in texts for name in missing_names(text, defined_names(helpers))} == {
        "SCALE"
    }
