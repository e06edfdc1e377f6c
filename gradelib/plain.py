"""Plain data: the only thing that crosses from a learner's code to the judge.

`to_plain` turns what an answer returned into numbers, text, lists, dictionaries and arrays, or
raises `BadValueError`. `dumps` and `loads` write and read that data as strict JSON text; `loads` trusts
nothing and raises `WireError`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import numbers
import struct
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence, ValuesView
from dataclasses import asdict, dataclass, fields
from typing import Any, NoReturn

from gradelib.shapes import Shape

MAX_DEPTH = 20
MAX_ITEMS = 200_000
MAX_TEXT = 200_000
# Numbers, unlike text, can be chosen so that a table finds each of them in the place of all others.
MAX_NUMBER_KEYS = 1_000
MAX_INT_DIGITS = 4_000
MAX_ARRAY_BYTES = 64 * 2**20
# A dictionary's item takes three of `,`, `[` and `{` when its key is not text.
_MAX_MARKS = 5 * MAX_ITEMS
_MAX_NUMBER_TEXT = 400
_TOO_LARGE = 10**MAX_INT_DIGITS
_MAX_SIZE = 2**63
# How the words for an exception begin that is returned and not raised.
RETURNED_ERROR = "the exception "

# struct letters of the element types an array may have; all travel little-endian.
ARRAY_LETTERS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
_ITEM_BYTES = {
    "?": 1,
    "b": 1,
    "B": 1,
    "h": 2,
    "H": 2,
    "i": 4,
    "I": 4,
    "q": 8,
    "Q": 8,
    "f": 4,
    "d": 8,
}
_RECORDS: dict[str, type[Any]] = {"Shape": Shape}


class BadValueError(Exception):
    """An answer returned something that is not plain data; the message says what it was."""


class WireError(Exception):
    """A message is not plain data as `dumps` writes it."""


@dataclass(frozen=True)
class Array:
    """A dense array as typed bytes: `data` is little-endian, row-major."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        if self.dtype not in ARRAY_LETTERS:
            raise ValueError(
                f"array dtype {self.dtype!r} is not one of {', '.join(sorted(ARRAY_LETTERS))}"
            )
        # Before they are multiplied: thousands of sizes with thousands of digits take hours.
        if len(self.shape) > MAX_DEPTH:
            raise ValueError(f"an array of {len(self.shape)} dimensions (at most {MAX_DEPTH})")
        if any(not 0 <= size < _MAX_SIZE for size in self.shape):
            raise ValueError("an array's shape has a negative size, or one too large")
        expected = math.prod(self.shape) * _ITEM_BYTES[ARRAY_LETTERS[self.dtype]]
        if len(self.data) != expected:
            raise ValueError(
                f"array of shape {self.shape} and dtype {self.dtype} takes {expected} bytes, "
                f"got {len(self.data)}"
            )

    def values(self) -> list[Any]:
        """The elements, flat, in row-major order."""
        letter = ARRAY_LETTERS[self.dtype]
        return list(struct.unpack(f"<{math.prod(self.shape)}{letter}", self.data))

    def tolist(self) -> Any:
        """Nested lists of numbers; a scalar for a zero-dimensional array."""
        flat = self.values()
        for size in reversed(self.shape[1:]):
            # An empty inner axis leaves nothing to group by.
            flat = [flat[i : i + size] for i in range(0, len(flat), size)] if size else []
        return flat if self.shape else flat[0]


def to_plain(value: object) -> Any:
    """Plain data equal to `value`; raises `BadValueError` for what has no plain form.

    NumPy and PyTorch scalars become numbers, their arrays become `Array` (16-bit floats widened to
    float32, which is exact), `Fraction` and `Decimal` become floats, enums of text become text,
    tuples, ranges and a dictionary's keys or values become lists, and objects with `to_dict()` (a `LoraConfig`, say) become dictionaries.
    """
    if type(value) is float:  # the most frequent, and nothing else is to be done
        return value
    return _Converter().convert(value, 0)


class _Converter:
    def __init__(self) -> None:
        self.items = 0

    def convert(self, value: object, depth: int) -> Any:
        self.items += 1
        if self.items > MAX_ITEMS:
            raise BadValueError(f"a value with more than {MAX_ITEMS} parts")
        if depth > MAX_DEPTH:
            raise BadValueError(f"a value nested more than {MAX_DEPTH} levels deep")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return _bounded_int(int(value))
        if isinstance(value, float):
            return float(value)
        if isinstance(value, str):
            return _bounded_text(str.__str__(value))
        if isinstance(value, Array):
            return Array(value.dtype, value.shape, value.data)
        if isinstance(value, Shape):
            return Shape(**{each.name: getattr(value, each.name) for each in fields(Shape)})
        if isinstance(value, (list, tuple, range, KeysView, ValuesView)):
            return [self.convert(item, depth + 1) for item in value]
        if isinstance(value, (set, frozenset)):
            return _bounded_keys(
                frozenset(_scalar_key(self.convert(item, depth + 1)) for item in value)
            )
        if isinstance(value, Mapping):
            return _bounded_keys(
                {
                    _scalar_key(self.convert(key, depth + 1)): self.convert(item, depth + 1)
                    for key, item in value.items()
                }
            )
        root = type(value).__module__.partition(".")[0]
        if root in ("numpy", "ml_dtypes"):
            return self._numpy(value, depth)
        if root == "torch":
            return self._torch(value, depth)
        if isinstance(value, numbers.Rational) and value.denominator == 1:
            return _bounded_int(int(value.numerator))
        if isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
            return float(value)  # type: ignore[arg-type]
        to_dict = getattr(value, "to_dict", None)
        if callable(to_dict) and not isinstance(value, type):
            return self.convert(to_dict(), depth + 1)
        raise BadValueError(_described(value))

    def _numpy(self, value: Any, depth: int) -> Any:
        if not hasattr(value, "dtype") or isinstance(value, type):
            raise BadValueError(_described(value))
        name = str(value.dtype)
        if value.ndim == 0:
            item = value.item()
            # Python has no number for a long double, so NumPy gives it back as it is.
            return float(value) if type(item) is type(value) else self.convert(item, depth + 1)
        if name not in ARRAY_LETTERS:
            if value.dtype.kind in "OU":
                return self.convert(value.tolist(), depth + 1)
            if value.dtype.kind not in "fV":
                raise BadValueError(f"an array of dtype {name}")
            name = "float64" if value.dtype.itemsize > 4 else "float32"
            value = value.astype(name)
        little = value.astype(value.dtype.newbyteorder("<"), order="C")
        return _bounded_array(name, tuple(int(size) for size in value.shape), little.tobytes())

    def _torch(self, value: Any, depth: int) -> Any:
        if type(value).__name__ == "dtype":
            return str(value).removeprefix("torch.")
        if not hasattr(value, "detach") or isinstance(value, type):
            raise BadValueError(_described(value))
        tensor = value.detach().cpu()
        if tensor.ndim == 0:
            return self.convert(tensor.item(), depth + 1)
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in ARRAY_LETTERS:
            if not tensor.is_floating_point():
                raise BadValueError(f"a tensor of dtype {name}")
            tensor, name = tensor.float(), "float32"
        return _bounded_array(name, tuple(tensor.shape), tensor.contiguous().numpy().tobytes())


def _described(value: object) -> str:
    if value is Ellipsis:
        return "the placeholder `...`"
    error = value if isinstance(value, type) else type(value)
    if issubclass(error, BaseException):
        return f"{RETURNED_ERROR}`{error.__name__}` itself"
    if isinstance(value, type):
        return f"the class `{value.__name__}` itself"
    if callable(value):
        return f"a function or callable ({type(value).__name__}); was it meant to be called?"
    if hasattr(value, "__next__"):
        return f"an iterator ({type(value).__name__}); return a list"
    return f"an object of type `{type(value).__name__}`"


def _bounded_int(value: int) -> int:
    if abs(value) >= _TOO_LARGE:
        raise BadValueError(f"a whole number of more than {MAX_INT_DIGITS} digits")
    return value


def _bounded_text(value: str) -> str:
    if len(value) > MAX_TEXT:
        raise BadValueError(f"text of {len(value)} characters (at most {MAX_TEXT})")
    return value


def _bounded_array(dtype: str, shape: tuple[int, ...], data: bytes) -> Array:
    if len(data) > MAX_ARRAY_BYTES:
        raise BadValueError(f"an array of {len(data)} bytes (at most {MAX_ARRAY_BYTES})")
    if len(shape) > MAX_DEPTH:
        raise BadValueError(f"an array of {len(shape)} dimensions (at most {MAX_DEPTH})")
    return Array(dtype, shape, data)


def _scalar_key(key: Any) -> Any:
    if key is None or isinstance(key, (bool, int, float, str)):
        return key
    raise BadValueError("a dictionary or set whose keys are not numbers or text")


def _bounded_keys(found: Any) -> Any:
    if _number_keys(found) > MAX_NUMBER_KEYS:
        raise BadValueError(
            f"a dictionary or set with more than {MAX_NUMBER_KEYS} keys that are numbers"
        )
    return found


def _number_keys(keys: Iterable[Any]) -> int:
    return sum(isinstance(key, (int, float)) for key in keys)


def copy(value: Any) -> Any:
    """A fresh copy of plain data, so that an answer that changes its input harms nobody."""
    if isinstance(value, list):
        return [copy(item) for item in value]
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> str:
    """Plain data as JSON text. Raises `WireError` for what is not plain."""
    return _ENCODER.encode(_tagged(value))


# Nothing that `_tagged` gives holds itself.
_ENCODER = json.JSONEncoder(
    allow_nan=False, ensure_ascii=True, check_circular=False, separators=(",", ":")
)


def _tagged(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [_tagged(item) for item in value]
    if kind is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: _tagged(item) for key, item in value.items()}
        return {"$dict": [[_tagged(key), _tagged(item)] for key, item in value.items()]}
    if kind is frozenset:
        return {
            "$set": [_tagged(item) for item in sorted(value, key=lambda x: (str(type(x)), str(x)))]
        }
    if kind is Array:
        data = base64.b64encode(value.data).decode("ascii")
        return {"$array": [value.dtype, list(value.shape), data]}
    if kind is Shape:
        return {"$record": ["Shape", asdict(value)]}
    raise WireError(f"not plain data: {kind.__name__}")


def loads(text: str | bytes) -> Any:
    """Plain data from JSON text written by `dumps`. Anything else raises `WireError`.

    Time and memory stay in proportion to the text, whatever it holds.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        # Before parsing: a short text can hold millions of lists, which take far more memory.
        if sum(map(text.count, ",[{")) > _MAX_MARKS:
            raise WireError(f"more than {MAX_ITEMS} parts")
        return _untagged(_DECODER.decode(text), 0)
    except RecursionError:
        raise WireError(f"nested more than {MAX_DEPTH} levels deep") from None
    except WireError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise WireError(f"not a valid message: {error}") from error


def _refuse(constant: str) -> NoReturn:
    raise WireError(f"bare {constant} is not allowed")


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_INT_DIGITS + 1:
        raise WireError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _parse_float(digits: str) -> float:
    if len(digits) > _MAX_NUMBER_TEXT:
        raise WireError(f"a number of {len(digits)} characters")
    return float(digits)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireError("a key stands twice")
    return found


_DECODER = json.JSONDecoder(
    parse_constant=_refuse,
    parse_int=_parse_int,
    parse_float=_parse_float,
    object_pairs_hook=_unique_keys,
)


def _untagged(raw: Any, depth: int) -> Any:
    # A tag adds up to two levels of its own; what it holds is bounded by MAX_DEPTH all the same.
    if depth > 3 * MAX_DEPTH:
        raise WireError(f"nested more than {MAX_DEPTH} levels deep")
    kind = type(raw)
    if kind is float and not math.isfinite(raw):
        raise WireError("a number too large for a float")
    if kind is list:
        return [_untagged(item, depth + 1) for item in raw]
    if kind is not dict:
        return raw
    for key in raw:
        if key[:1] == "$":
            if len(raw) != 1 or key not in _TAGS:
                raise WireError(f"unknown tag {key!r}")
            return _TAGS[key](raw[key], depth + 1)
    return {key: _untagged(item, depth + 1) for key, item in raw.items()}


def _read_float(raw: Any, _depth: int) -> float:
    if raw not in ("nan", "inf", "-inf"):
        raise WireError("a non-finite float is written nan, inf or -inf")
    return float(raw)


def _read_dict(raw: Any, depth: int) -> dict[Any, Any]:
    pairs = [(_untagged(key, depth + 1), _untagged(item, depth + 1)) for key, item in raw]
    _require_keys([key for key, _ in pairs])
    return dict(pairs)


def _read_set(raw: Any, depth: int) -> frozenset[Any]:
    items = [_untagged(item, depth + 1) for item in raw]
    _require_keys(items)
    return frozenset(items)


def _require_keys(keys: Sequence[Any]) -> None:
    if any(key is not None and not isinstance(key, (bool, int, float, str)) for key in keys):
        raise WireError("a key that is not a number or text")
    # Before they are put into a table.
    if _number_keys(keys) > MAX_NUMBER_KEYS:
        raise WireError(f"more than {MAX_NUMBER_KEYS} keys that are numbers")


def _read_array(raw: Any, _depth: int) -> Array:
    dtype, shape, data = raw
    if not isinstance(shape, list) or any(type(size) is not int for size in shape):
        raise WireError("an array's shape is a list of whole numbers")
    if len(data) > MAX_ARRAY_BYTES * 4 // 3 + 4:
        raise WireError("an array that is too large")
    try:
        return Array(dtype, tuple(shape), base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise WireError(f"array data: {error}") from error


def _read_record(raw: Any, _depth: int) -> Any:
    name, fields = raw
    if name not in _RECORDS:
        raise WireError(f"unknown record {name!r}")
    return _RECORDS[name](**fields)


_TAGS: dict[str, Callable[[Any, int], Any]] = {
    "$float": _read_float,
    "$dict": _read_dict,
    "$set": _read_set,
    "$array": _read_array,
    "$record": _read_record,
}
