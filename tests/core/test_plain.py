"""Plain data: what becomes of values, and what the wire accepts."""

from __future__ import annotations

import contextlib
import enum
import json
import math
from collections import OrderedDict, namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradelib import plain
from gradelib.compare import difference, same_bits
from gradelib.plain import Array, BadValueError, WireError, dumps, loads, to_plain
from gradelib.shapes import Shape
from tests.conftest import label, need_module

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
KEYS = st.integers() | st.text(max_size=8) | st.booleans() | st.none()
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(KEYS, inner, max_size=5)
        | st.frozensets(st.integers() | st.text(max_size=5), max_size=5)
    ),
    max_leaves=20,
)


def identical(one: object, other: object) -> bool:
    """Equal down to the sign of zero, where NaN is NaN."""
    return difference(one, other, same_bits) is None


@given(value=PLAIN)
def test_what_is_plain_stays_as_it_is_and_survives_the_wire(value):
    assert identical(to_plain(value), value)
    assert identical(loads(dumps(value)), value)


@given(value=PLAIN)
def test_the_wire_is_strict_json(value):
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(dumps(value), parse_constant=refuse)


@given(text=st.text() | st.binary())
def test_any_other_text_is_a_wire_error(text):
    with contextlib.suppress(WireError):
        loads(text)


@given(value=PLAIN, position=st.integers(0, 200), junk=st.text(min_size=1, max_size=3))
def test_a_damaged_message_is_plain_data_or_a_wire_error(value, position, junk):
    text = dumps(value)
    damaged = text[:position] + junk + text[position + 1 :]
    with contextlib.suppress(WireError):
        to_plain(loads(damaged))


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.Enum):
    YES = "yes"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


Point = namedtuple("Point", "x y")


class Config:
    def to_dict(self) -> dict[str, object]:
        return {"r": 8, "targets": {"q", "v"}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(1.5), 1.5),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("four"), "four"),
        (np.array(3), 3),
        (Fraction(6, 3), 2),
        (Fraction(1, 4), 0.25),
        (Decimal("0.5"), 0.5),
        (Level.HIGH, 3),
        ((1, (2, 3)), [1, [2, 3]]),
        (Point(1, 2), [1, 2]),
        ({3, 4}, frozenset({3, 4})),
        (OrderedDict(a=1), {"a": 1}),
        ({(): 0}.keys() & set(), frozenset()),
        (Config(), {"r": 8, "targets": frozenset({"q", "v"})}),
        (Text("kept"), "kept"),
    ],
    ids=label,
)
def test_values_of_other_types_become_plain(value, expected):
    plain_value = to_plain(value)
    assert identical(plain_value, expected)
    assert type(plain_value) is type(expected)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32"],
)
def test_an_array_keeps_its_values_type_and_shape(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    travelled = loads(dumps(to_plain(array)))
    assert (travelled.dtype, travelled.shape) == (dtype, (2, 3))
    assert travelled.tolist() == array.tolist()


def test_layout_and_byte_order_do_not_matter():
    array = np.arange(6.0).reshape(2, 3)
    for other in (array.T.copy().T, array.astype(">f8"), array[::1, ::1]):
        assert to_plain(other) == to_plain(array)


def test_half_precision_widens_exactly():
    import ml_dtypes

    for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        array = np.array([0.1, -2.0, 300.0], dtype=dtype)
        assert to_plain(array).dtype == "float32"
        assert to_plain(array).values() == [float(x) for x in array]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1, 2, 3), (4,), ()])
def test_an_array_becomes_nested_lists_of_its_shape(shape):
    array = np.zeros(shape)
    data = Array("float64", shape, array.tobytes())
    assert data.tolist() == array.tolist()


def test_tensors_become_plain():
    need_module("torch")
    import torch

    assert to_plain(torch.tensor(2.5, requires_grad=True)) == 2.5
    assert to_plain(torch.tensor([1, 2])).tolist() == [1, 2]
    assert to_plain(torch.tensor([0.5], dtype=torch.bfloat16)).tolist() == [0.5]
    assert to_plain(torch.bfloat16) == "bfloat16"
    assert to_plain(torch.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]


def nested(depth):
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic():
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (..., "the placeholder"),
        (len, "a function or callable"),
        (int, "the class `int` itself"),
        (iter([1]), "an iterator"),
        (object(), "an object of type `object`"),
        (1 + 2j, "complex"),
        (b"bytes", "bytes"),
        (Word.YES, "Word"),
        (nested(30), "nested"),
        (cyclic(), "nested"),
        (list(range(plain.MAX_ITEMS + 1)), "parts"),
        ({(1, 2): 3}, "keys"),
        (10**5000, "digits"),
        ("x" * (plain.MAX_TEXT + 1), "characters"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "datetime64"),
        (np.array([1 + 2j]), "complex128"),
        (np.array([object()]), "object"),
        (np.dtype("float32"), "an object"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_plain_form_is_refused_with_what_it_was(value, says):
    with pytest.raises(BadValueError, match=says):
        to_plain(value)


def test_a_value_that_cannot_be_looked_at_is_never_executed_as_code():
    class Liar:
        @property
        def __class__(self) -> type:  # pretends to be a list
            return list

    with pytest.raises((BadValueError, TypeError)):
        to_plain(Liar())


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[Infinity]",
        "1e999",
        '{"a": 1, "a": 2}',
        '{"$float": "1.5"}',
        '{"$float": "nan", "b": 1}',
        '{"$eval": "1"}',
        '{"$array": ["float64", [2], "AAAA"]}',
        '{"$array": ["object", [0], ""]}',
        '{"$array": ["int8", [true], "AA=="]}',
        '{"$array": ["int8", [-1], ""]}',
        '{"$array": ["int8", [1], "!!!!"]}',
        '{"$array": 1}',
        '{"$record": ["os", {}]}',
        '{"$record": ["Shape", {"vocab": 1}]}',
        '{"$set": [[1]]}',
        '{"$dict": [[[1], 2]]}',
        '{"$dict": [1]}',
        "[" * 500 + "]" * 500,
        "9" * 5000,
        b"\xff\xfe",
        "",
    ],
)
def test_a_malformed_message_is_a_wire_error(text):
    with pytest.raises(WireError):
        loads(text)


@pytest.mark.parametrize("value", [object(), (1,), {1, 2}, np.float64(1), b"x"], ids=label)
def test_only_plain_data_is_written(value):
    with pytest.raises(WireError, match="not plain data"):
        dumps([value])


def test_a_shape_travels():
    shape = Shape.gemma3("270m")
    assert loads(dumps([shape])) == [shape]


def test_a_copy_shares_nothing_that_can_change():
    original = {"rows": [[1], [2]], "n": 1}
    copied = plain.copy(original)
    copied["rows"][0].append(9)
    copied["rows"].append([])
    assert original == {"rows": [[1], [2]], "n": 1}


def test_the_sign_of_zero_travels():
    assert math.copysign(1, loads(dumps(-0.0))) == -1


@pytest.mark.parametrize(
    ("dtype", "shape", "data", "says"),
    [
        ("float16", (1,), b"12", "is not one of"),
        ("int8", (-1,), b"", "negative size"),
        ("int8", (0, 2**63), b"", "too large"),
        ("int8", (1,) * 21, b"\0", "21 dimensions"),
        ("int16", (2,), b"123", "takes 4 bytes"),
    ],
)
def test_an_array_that_does_not_add_up_is_refused(dtype, shape, data, says):
    with pytest.raises(ValueError, match=says):
        Array(dtype, shape, data)


def test_a_long_double_is_a_number():
    numpy = pytest.importorskip("numpy")
    assert to_plain(numpy.longdouble("0.5")) == 0.5
    assert type(to_plain(numpy.array(2, dtype="longdouble"))) is float
    assert to_plain(numpy.array([0.5, 1], dtype="longdouble")).tolist() == [0.5, 1.0]


def test_names_in_any_container_are_a_list():
    numpy = pytest.importorskip("numpy")
    names = ["q_proj", "v_proj"]
    table = dict(zip(names, names, strict=True))
    for value in (numpy.array(names), table.keys(), table.values(), tuple(names)):
        assert to_plain(value) == names
    assert to_plain(range(3)) == [0, 1, 2]
    with pytest.raises(BadValueError, match="parts"):
        to_plain(range(10**12))
