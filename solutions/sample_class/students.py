"""The students of the sample class, one after another."""

from __future__ import annotations

from typing import Any

from solutions.sample_class import BLANK, Expected, Student

DECODE = """\
def decode(bits, exponent_bits, mantissa_bits, specials="ieee"):
    if specials not in ("ieee", "fn", "finite"):
        raise ValueError(f"unknown specials: {specials}")
    if not 0 <= bits < 2 ** (1 + exponent_bits + mantissa_bits):
        raise ValueError(f"{bits} does not fit")
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) else 1.0
    field = (bits >> mantissa_bits) & (2**exponent_bits - 1)
    mantissa = bits & (2**mantissa_bits - 1)
    top = field == 2**exponent_bits - 1
    if specials == "ieee" and top:
        return math.nan if mantissa else sign * math.inf
    if specials == "fn" and top and mantissa == 2**mantissa_bits - 1:
        return math.nan
    bias = 2 ** (exponent_bits - 1) - 1
    if field == 0:
        return sign * mantissa / 2**mantissa_bits * 2.0 ** (1 - bias)
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (field - bias)
"""

ENCODE = """\
def encode(value, exponent_bits, mantissa_bits, specials="ieee", overflow="infinity"):
    rules = {"ieee": ["infinity", "saturate", "nan"], "fn": ["saturate", "nan"], "finite": ["saturate"]}
    if specials not in rules or overflow not in rules[specials]:
        raise ValueError(f"{specials} cannot do {overflow}")
    ones = 2**exponent_bits - 1
    bias = 2 ** (exponent_bits - 1) - 1
    nan = {
        "ieee": (ones << mantissa_bits) + 2 ** (mantissa_bits - 1),
        "fn": (ones << mantissa_bits) + 2**mantissa_bits - 1,
    }
    if math.isnan(value):
        if specials not in nan:
            raise ValueError("no NaN here")
        return nan[specials]
    sign = int(math.copysign(1, value) < 0) << (exponent_bits + mantissa_bits)
    taken = {"ieee": 2**mantissa_bits, "fn": 1, "finite": 0}[specials]
    last = ((ones + 1) << mantissa_bits) - 1 - taken
    code = last + 1
    if not math.isinf(value):
        power = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
        steps = round(abs(value) / 2.0 ** (power - mantissa_bits))
        code = ((power + bias - 1) << mantissa_bits) + steps
    if code <= last:
        return sign + code
    if overflow == "nan":
        return nan[specials]
    return sign + (last if overflow == "saturate" else last + 1)
"""

EPSILON = """\
def machine_epsilon(exponent_bits, mantissa_bits, specials="ieee"):
    return 2.0**-mantissa_bits
"""

LARGEST = """\
def largest_finite(exponent_bits, mantissa_bits, specials="ieee"):
    bias = 2 ** (exponent_bits - 1) - 1
    top = 2**exponent_bits - (2 if specials == "ieee" else 1)
    steps = 2**mantissa_bits - (2 if specials == "fn" else 1)
    return 2.0 ** (top - bias) * (1 + steps / 2**mantissa_bits)
"""

SUBNORMAL = """\
def smallest_subnormal(exponent_bits, mantissa_bits, specials="ieee"):
    return 2.0 ** (2 - 2 ** (exponent_bits - 1) - mantissa_bits)
"""

BYTES = """\
def bytes_for(count, bits):
    if count < 0:
        raise ValueError("count is negative")
    return -(-count * bits // 8)
"""

SUM = """\
def sum_in_format(values, exponent_bits, mantissa_bits, specials="ieee", overflow="infinity"):
    def rounded(value):
        code = encode(value, exponent_bits, mantissa_bits, specials, overflow)
        return decode(code, exponent_bits, mantissa_bits, specials)

    total = 0.0
    for value in values:
        total = rounded(total + rounded(value))
    return total
"""

ALL = {
    "decode": DECODE,
    "encode": ENCODE,
    "machine_epsilon": EPSILON,
    "largest_finite": LARGEST,
    "smallest_subnormal": SUBNORMAL,
    "bytes_for": BYTES,
    "sum_in_format": SUM,
}

WRITTEN = (
    "BF16 stops at 256, FP16 at 2048: from $2^{m+1}$ on, the numbers are 2 apart, so adding 1 is lost.\n"
    "BF16 has the range of FP32, which gradients need. With a BF16 accumulator every long sum would stop there."
)


def _wrong(score: float, misconception: str | None = None) -> Expected:
    return Expected("wrong", score, misconception)


# --- right, in several ways

ABENA = Student(
    "abena",
    ("Abena", "Owusu"),
    "right, straight from the text",
    {**ALL, "what_did_you_observe": WRITTEN},
)

BILAL = Student(
    "bilal",
    ("Bilal", "Haddad"),
    "right: exact fractions, shared functions in the helpers cell and in a cell of his own",
    {
        **ALL,
        "decode": """\
from fractions import Fraction


def decode(bits, exponent_bits, mantissa_bits, specials="ieee"):
    check_format(specials)
    text = f"{bits:b}".zfill(1 + exponent_bits + mantissa_bits)
    if bits < 0 or len(text) > 1 + exponent_bits + mantissa_bits:
        raise ValueError(bits)
    sign, exponent, mantissa = text[0], text[1 : 1 + exponent_bits], text[1 + exponent_bits :]
    if "0" not in exponent and specials == "ieee":
        return float("nan") if "1" in mantissa else float("-inf" if sign == "1" else "inf")
    if "0" not in exponent + mantissa and specials == "fn":
        return float("nan")
    digits = Fraction(int(mantissa, 2), 2**mantissa_bits)
    power = int(exponent, 2)
    value = (digits + bool(power)) * Fraction(2) ** (max(power, 1) - bias_of(exponent_bits))
    return -float(value) if sign == "1" else float(value)
""",
        "largest_finite": """\
def largest_finite(exponent_bits, mantissa_bits, specials="ieee"):
    taken = {"ieee": 2**mantissa_bits, "fn": 1, "finite": 0}[specials]
    last = 2 ** (exponent_bits + mantissa_bits) - 1 - taken
    return decode(last, exponent_bits, mantissa_bits, specials)
""",
    },
    added=(
        "SPECIALS = ('ieee', 'fn', 'finite')\n\n"
        "def check_format(specials):\n    if specials not in SPECIALS:\n        raise ValueError(specials)",
        "bias_of = lambda exponent_bits: 2 ** (exponent_bits - 1) - 1",
        "print(decode(0x3C00, 5, 10))",
    ),
)

CHIARA = Student(
    "chiara",
    ("Chiara", "Conti"),
    "right, but noisy: warnings, prints, text on standard error",
    {
        **ALL,
        "bytes_for": """\
import sys
import warnings


def bytes_for(count, bits):
    warnings.warn("packing is slow", stacklevel=1)
    print("counting", count, file=sys.stderr)
    print("<b>bytes</b> of", count)
    if count < 0:
        raise ValueError(count)
    return float((count * bits + 7) // 8)
""",
        "machine_epsilon": """\
%time
def machine_epsilon(exponent_bits, mantissa_bits, specials="ieee"):
    one = 1 << mantissa_bits
    return (one + 1) / one - 1
""",
    },
)

# --- not there yet

DMITRI = Student("dmitri", ("Dmitri", "Volkov"), "blank: handed in as released", {})

ESI = Student(
    "esi",
    ("Esi", "Mensah"),
    "partly right: normal numbers only, no errors raised",
    {
        **ALL,
        "decode": """\
def decode(bits, exponent_bits, mantissa_bits, specials="ieee"):
    sign = -1 if bits >> (exponent_bits + mantissa_bits) else 1
    field = (bits >> mantissa_bits) % 2**exponent_bits
    mantissa = bits % 2**mantissa_bits
    bias = 2 ** (exponent_bits - 1) - 1
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (field - bias)
""",
        "bytes_for": "def bytes_for(count, bits):\n    return math.ceil(count * bits / 8)\n",
    },
    {
        "decode": _wrong(0.5, "normal formula at field 0"),
        "bytes_for": _wrong(0.8, "accepts bad input"),
        # Her sum uses her decode, which knows no infinity.
        "sum_in_format": _wrong(0.7),
    },
)

FARAH = Student(
    "farah",
    ("Farah", "Rahimi"),
    "known mistakes: bias, rounding half up, a sum that rounds once",
    {
        **ALL,
        "decode": DECODE.replace(
            "bias = 2 ** (exponent_bits - 1) - 1", "bias = 2 ** (exponent_bits - 1)"
        ),
        "encode": ENCODE.replace(
            "round(abs(value) / 2.0 ** (power - mantissa_bits))",
            "int(abs(value) / 2.0 ** (power - mantissa_bits) + 0.5)",
        ),
        "machine_epsilon": EPSILON.replace("-mantissa_bits", "-(mantissa_bits + 1)"),
        "sum_in_format": SUM.replace(
            "    total = 0.0\n    for value in values:\n"
            "        total = rounded(total + rounded(value))\n    return total\n",
            "    return rounded(sum(values))\n",
        ),
    },
    {
        "decode": _wrong(0.0, "bias one too large"),
        "encode": _wrong(0.0, "round half up"),
        "machine_epsilon": _wrong(0.0, "half the gap"),
        "sum_in_format": _wrong(0.0),
    },
)

GORAN = Student(
    "goran",
    ("Goran", "Petrović"),
    "known mistakes: infinities in E4M3, bits for bytes, hard-coded examples, a tuple",
    {
        "largest_finite": LARGEST.replace('(2 if specials == "ieee" else 1)', "2").replace(
            '(2 if specials == "fn" else 1)', "1"
        ),
        "bytes_for": "def bytes_for(count, bits):\n    return count * bits\n",
        "machine_epsilon": "def machine_epsilon(exponent_bits, mantissa_bits, specials='ieee'):\n    return 0.0009765625\n",
        "smallest_subnormal": "def smallest_subnormal(exponent_bits, mantissa_bits, specials='ieee'):\n"
        "    return 2.0 ** (2 - 2 ** (exponent_bits - 1) - mantissa_bits), 'the smallest'\n",
    },
    {
        "largest_finite": _wrong(0.0, "infinities in every format"),
        "bytes_for": _wrong(0.0, "bits for bytes"),
        "machine_epsilon": _wrong(0.0, "hard-codes the example"),
        "smallest_subnormal": Expected("bad value", 0.0, "returns a tuple"),
    },
)

PILAR = Student(
    "pilar",
    ('=HYPERLINK("http://example.com","Pilar")', "García, M."),
    "prints instead of returning, a text with a unit, a name that no cell defines; and a name that is a formula",
    {
        **ALL,
        "bytes_for": "def bytes_for(count, bits):\n    print(-(-count * bits // 8))\n",
        "largest_finite": LARGEST.replace(
            "return 2.0 ** (top", "return '%g units' % (2.0 ** (top"
        ).rstrip()
        + ")\n",
        "machine_epsilon": "def machine_epsilon(exponent_bits, mantissa_bits, specials='ieee'):\n    return two**-mantissa_bits\n",
    },
    {
        "bytes_for": Expected("bad value", 0.0, "prints instead of returns"),
        "largest_finite": Expected("bad value", 0.0, "returns text"),
        "machine_epsilon": Expected("raised", 0.0, "reads a name that is not there"),
    },
    added=("two = float(input('two? '))",),
)

# --- trouble

HANA = Student(
    "hana",
    ("Hana", "Suzuki"),
    "crashing: ends the process, calls itself for ever, does not parse; the rest is right",
    {
        **ALL,
        "machine_epsilon": "import os\n\ndef machine_epsilon(exponent_bits, mantissa_bits, specials='ieee'):\n    os._exit(0)\n",
        "bytes_for": "def bytes_for(count, bits):\n    return bytes_for(count, bits)\n",
        "smallest_subnormal": "def smallest_subnormal(exponent_bits, mantissa_bits, specials='ieee')\n    return 0\n",
    },
    {
        "machine_epsilon": Expected("crashed", 0.0),
        "bytes_for": Expected("raised", 0.0, "recursion without end"),
        "smallest_subnormal": Expected("raised", 0.0),
    },
)

IVAN = Student(
    "ivan",
    ("Ivan", "Kovač"),
    "endless: a loop that swallows every exception; the rest is right",
    {
        **ALL,
        "bytes_for": """\
def bytes_for(count, bits):
    while True:
        try:
            count += 1
        except BaseException:
            pass
""",
    },
    {"bytes_for": Expected("timed out", 0.0)},
)

MEI = Student(
    "mei",
    ("Mei", "Chen"),
    "a file cut off in the middle of the upload",
    {**ALL},
    {
        "smallest_subnormal": BLANK,
        "bytes_for": BLANK,
        "sum_in_format": BLANK,
    },
    damage=lambda data: data[: data.index(b"Task 5: how small?")],
)

NOOR = Student(
    "noor",
    ("Noor", "Aziz"),
    "a web page that was saved under the notebook's name",
    {},
    dict.fromkeys(ALL, Expected("ungradable", 0.0)),
    damage=lambda _: b"<!DOCTYPE html>\n<html><body>Sign in to continue</body></html>\n",
)


def _split_and_copy(notebook: dict[str, Any]) -> None:
    """Split one answer in two with its id, copy another, delete a check, reorder two cells."""
    cells = notebook["cells"]
    made = []
    for cell in cells:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id == "encode":
            lines = cell["source"].split("\n")
            made.append({**cell, "source": "\n".join(lines[:9])})
            made.append({**cell, "id": "encode-half", "source": "\n".join(lines[9:])})
        elif grade_id == "machine_epsilon":
            made.append({**cell, "source": EPSILON.replace("-mantissa_bits", "mantissa_bits")})
            made.append({**cell, "id": "epsilon-again"})
        elif grade_id != "check-decode":
            made.append(cell)
    made[-1], made[-2] = made[-2], made[-1]
    cells[:] = made


OMAR = Student(
    "omar",
    ("Omar", "Diallo"),
    "right, in a notebook that lost its order: split and copied answers, a deleted check, input() before a def",
    {**ALL, "decode": "name = input('Who are you? ')\n" + DECODE},
    edit=_split_and_copy,
)

# --- cheating


def _steer(notebook: dict[str, Any]) -> None:
    """Tags, metadata and outputs that make other graders give full marks."""
    for cell in notebook["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade") and not about.get("solution"):
            cell["metadata"]["tags"] = ["skip-execution"]
            cell["source"] = "assert True"
            about["points"] = 100
            cell["outputs"] = [
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": "100.0"},
                    "metadata": {},
                    "execution_count": 1,
                }
            ]


JUN = Student(
    "jun",
    ("Jun", "Park"),
    "cheating: values that are equal to everything, patched builtins",
    {
        "machine_epsilon": """\
class Anything(float):
    def __eq__(self, other):
        return True

    __ne__ = __hash__ = lambda self, *_: False
    __sub__ = __rsub__ = lambda self, other: 0.0


def machine_epsilon(exponent_bits, mantissa_bits, specials="ieee"):
    return Anything(1)
""",
        "largest_finite": """\
class Same:
    def __eq__(self, other):
        return True


def largest_finite(exponent_bits, mantissa_bits, specials="ieee"):
    return Same()
""",
        "bytes_for": """\
import builtins
import math

builtins.abs = lambda value: 0
builtins.all = builtins.any = lambda values: True
math.isclose = lambda *_, **__: True


def bytes_for(count, bits):
    return 1
""",
    },
    {
        "machine_epsilon": _wrong(0.0, "ignores its arguments"),
        "largest_finite": Expected("bad value", 0.0),
        "bytes_for": _wrong(0.0, "hard-codes the example"),
    },
    hostile=True,
)

KOFI = Student(
    "kofi",
    ("Kofi", "Boateng"),
    "cheating: nothing answered; tags, points and outputs of the check cells changed",
    {},
    edit=_steer,
)

LENA = Student(
    "lena",
    ("Lena", "Fischer"),
    "cheating: looks for expected values in frames and files, and forges results",
    {
        "decode": """\
import sys


def decode(bits, exponent_bits, mantissa_bits, specials="ieee"):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if hasattr(value, "expected"):
                return value.expected.value
        frame = frame.f_back
    return 7.0
""",
        "bytes_for": """\
from pathlib import Path


def bytes_for(count, bits):
    names = ["gradebook.db", "course.toml", "solutions/formats.py"]
    folders = [Path(), *Path.cwd().parents, Path.home()]
    found = [folder / name for folder in folders for name in names if (folder / name).exists()]
    try:
        import solutions.formats

        found.append(solutions.formats)
    except ImportError:
        pass
    return -(-count * bits // 8) if found else -1
""",
        "machine_epsilon": """\
import os


def machine_epsilon(exponent_bits, mantissa_bits, specials="ieee"):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'{"kind":"value","value":0.0009765625}')
        except OSError:
            pass
    return 0.5
""",
    },
    {
        "decode": _wrong(0.0, "ignores its arguments"),
        "bytes_for": _wrong(0.0, "ignores its arguments"),
        "machine_epsilon": Expected("crashed", 0.0),
    },
    hostile=True,
)

STUDENTS = (
    ABENA,
    BILAL,
    CHIARA,
    DMITRI,
    ESI,
    FARAH,
    GORAN,
    HANA,
    IVAN,
    JUN,
    KOFI,
    LENA,
    MEI,
    NOOR,
    OMAR,
    PILAR,
)
