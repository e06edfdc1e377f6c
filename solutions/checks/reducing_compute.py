"""Checks of exercise 23: mixed precision, and batches without padding."""

# ruff: noqa: ARG005 - it is the mistake of many a wrong answer that it ignores an argument

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradelib.checks import Case, Check, Misconception, case, part
from gradelib.compare import absolute, relative
from gradelib.draw import Draw
from gradelib.shapes import Shape
from solutions import batching
from solutions.autocast import AS_INPUT, IN_FLOAT32, LOW, PRODUCTS
from solutions.autocast import autocast_dtype as autocast_reference
from solutions.implementations.accumulate import IGNORED
from solutions.implementations.batching import collate as collate_reference
from solutions.implementations.loss_scaler import DynamicLossScaler as Scaler
from solutions.layers import head_layer, linear_layers

BAD_INPUT = "bad input"

# --- which operations run in 16 bits --------------------------------------------------------------

OPERATIONS = "operations"
# In no list of PyTorch's: they follow their input.
FOLLOWING = (
    *("relu", "silu", "gelu", "tanh", "sigmoid", "add", "sub", "mul", "div", "dot", "abs", "sqrt"),
    *("mean", "dropout", "cat", "stack", "transpose", "embedding"),
)
# Visible with float16.
SHOWN = ("matmul", "sum", "gelu")
SUMS = frozenset(("sum", "prod", "cumsum", "cumprod", "logsumexp", "softmax", "log_softmax"))
NORMS = frozenset(("layer_norm", "rms_norm", "group_norm", "norm", "cosine_similarity"))


def _hidden_operations(draw: Draw) -> list[Case]:
    # All of them: whoever forgets one is wrong. As the notebook has names alone, each with its
    # default: here the other format is named.
    names = sorted(PRODUCTS | IN_FLOAT32) + list(FOLLOWING)
    listed = [case(op, "bfloat16" if op in SHOWN else "float16") for op in names]
    wrong = [case(draw.one(sorted(PRODUCTS)), low) for low in ("int8", "int16", "tfloat32")]
    # It is wrong whatever the operation.
    wrong += [
        case(draw.one(sorted(names)), draw.one(["int8", "float64"]))
        for names in (IN_FLOAT32, FOLLOWING)
    ]
    return part(OPERATIONS, draw.shuffled(listed)) + part(BAD_INPUT, wrong)


def _low(low: str) -> str:
    """`low`, refused as the reference refuses it."""
    autocast_reference("linear", low)
    return low


def _autocast_but(names: frozenset[str], change: Callable[[str], str]) -> Callable[..., str]:
    """The right answer, but for some operations."""
    return lambda op, low="bfloat16": (
        change(_low(low)) if op in names else autocast_reference(op, low)
    )


def _autocast_by_lists(op: str, low: str = "bfloat16") -> str:
    if low != "bfloat16" and low != "float16":
        raise ValueError(low)
    names = {**dict.fromkeys(PRODUCTS, low), **dict.fromkeys(IN_FLOAT32, "float32")}
    return names.get(op, "input")


def _autocast_by_cases(op: str, low: str = "bfloat16") -> str:
    if low in LOW:
        for names, dtype in ((sorted(IN_FLOAT32), "float32"), (list(PRODUCTS), low)):
            if op in names:
                return dtype
        return "input"
    raise ValueError(f"no 16-bit format: {low}")


class _WidthError(ValueError):
    """An error of a learner's own, which is a ValueError too."""


def _autocast_with_own_error(op: str, low: str = "bfloat16") -> str:
    if not low.endswith("float16"):
        raise _WidthError(low)
    return str([AS_INPUT, low, "float32"][(op in PRODUCTS) + 2 * (op in IN_FLOAT32)])


autocast_dtype = Check(
    reference=autocast_reference,
    public=[
        *part(
            OPERATIONS,
            [
                *map(case, ("linear", "softmax", "relu", "rms_norm", "exp", "cross_entropy")),
                # Names that are parts of listed ones, and one that sounds like them.
                *map(case, ("add", "sqrt", "mean")),
                *(case(op, "float16") for op in SHOWN),
            ],
        ),
        *part(
            BAD_INPUT,
            [case(op, "float32") for op in ("linear", "softmax")] + [case("relu", "int8")],
        ),
    ],
    hidden=_hidden_operations,
    parts={OPERATIONS: 0.9, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "accepts any format",
            lambda op, low="bfloat16": (
                low if op in PRODUCTS else autocast_reference(op, "bfloat16")
            ),
            "The operations are right, but `low` may be anything. Raise ValueError for a format that has not 16 bits.",
        ),
        Misconception(
            "format refused for products alone",
            lambda op, low="bfloat16": autocast_reference(
                op, low if op in PRODUCTS else "bfloat16"
            ),
            "You refuse a wrong `low` for products alone. It is wrong whatever the operation.",
        ),
        Misconception(
            "mean in float32",
            lambda op, low="bfloat16": (
                "float32" if op == "mean" and _low(low) else autocast_reference(op, low)
            ),
            "`mean` is in neither list, though it adds numbers up. Go by the lists.",
        ),
        Misconception(
            "names found inside others",
            lambda op, low="bfloat16": (
                _low(low)
                if op in " ".join(sorted(PRODUCTS))
                else "float32"
                if op in " ".join(sorted(IN_FLOAT32))
                else AS_INPUT
            ),
            "A name that is part of a listed one is taken for it: `sqrt` is not `rsqrt`. Compare whole names.",
        ),
        Misconception(
            "always bfloat16",
            lambda op, low="bfloat16": autocast_reference(op, low and _low(low) and "bfloat16"),
            "Your 16 bits are always bfloat16. Look at `low`.",
        ),
        Misconception(
            "always float16",
            lambda op, low="bfloat16": autocast_reference(op, _low(low) and "float16"),
            "Your 16 bits are always float16. Look at `low`.",
        ),
        Misconception(
            "unlisted in float32",
            lambda op, low="bfloat16": autocast_reference(op, low).replace(AS_INPUT, "float32"),
            "An operation in neither list is left alone: autocast does not turn its input into float32.",
        ),
        Misconception(
            "unlisted in 16 bits",
            lambda op, low="bfloat16": autocast_reference(op, low).replace(AS_INPUT, low),
            "An operation in neither list is left alone: autocast does not turn its input into 16 bits.",
        ),
        Misconception(
            "sums in 16 bits",
            _autocast_but(SUMS, lambda low: low),
            "A sum of many numbers swamps the small ones, in a softmax too. Does it run in 16 bits?",
        ),
        Misconception(
            "norms in 16 bits",
            _autocast_but(NORMS, lambda low: low),
            "A norm adds up as many squares as a hidden state is wide. Does it run in 16 bits?",
        ),
        Misconception(
            "sums and norms in 16 bits",
            _autocast_but(SUMS | NORMS, lambda low: low),
            "Sums, softmax and norms add many numbers up. Do they run in 16 bits?",
        ),
        Misconception(
            "loss and powers in 16 bits",
            _autocast_but(IN_FLOAT32 - SUMS - NORMS, lambda low: low),
            "Exponentials, powers and the loss leave the range of 16 bits. Look at the second list again.",
        ),
        Misconception(
            "the other way round",
            lambda op, low="bfloat16": (
                "float32"
                if op in PRODUCTS and _low(low)
                else _low(low)
                if op in IN_FLOAT32
                else autocast_reference(op, low)
            ),
            "It is the other way round: products are where the time goes, and they bear 16 bits.",
        ),
        Misconception(
            "everything in float32",
            lambda op, low="bfloat16": "float32" if _low(low) else "",
            "You run everything in float32. Where would the time be saved?",
        ),
        Misconception(
            "everything in 16 bits",
            lambda op, low="bfloat16": _low(low),
            "You run everything in 16 bits. That is no mixture: which operations need range, or add much up?",
        ),
    ],
    also_right=[_autocast_by_lists, _autocast_by_cases, _autocast_with_own_error],
)


# --- loss scaling ---------------------------------------------------------------------------------

STEPS = "steps"
INF = math.inf
GOOD = [[0.5, -2.0], [3.0]]


def _steps(*gradients: list[Any], loss: float = 1.0) -> list[Any]:
    """Steps with the same loss, for a driver."""
    return [[loss, each] for each in gradients]


def _drawn_steps(draw: Draw, count: int, bad: float, values: Sequence[float]) -> list[Any]:
    """Steps of which a share is bad, by one of `values` somewhere in the gradients."""
    steps = []
    for _ in range(count):
        sizes = [draw.integer(1, 4) for _ in range(draw.integer(2, 4))]
        gradients = [[draw.normal(5) for _ in range(size)] for size in sizes]
        if draw.chance(bad):
            of = draw.integer(0, len(sizes) - 1)
            gradients[of][draw.integer(0, sizes[of] - 1)] = draw.one(values)
        # Most parameters are matrices: here the first one is, of one column.
        matrix: list[Any] = [[number] for number in gradients[0]]
        steps.append([draw.real(0.5, 4), [matrix, *gradients[1:]]])
    return steps


def _settings(draw: Draw) -> tuple[float, float, float, int]:
    return (
        2.0 ** draw.integer(8, 14),
        draw.one([1.5, 3.0, 4.0]),
        draw.one([0.125, 0.25, 0.75]),
        draw.integer(3, 5),
    )


def _hidden_runs(draw: Draw) -> list[Case]:
    bad = [INF, -INF, math.nan]
    cases = [case(*_settings(draw), _drawn_steps(draw, 16, 0.2, bad)) for _ in range(2)]
    cases += [case(*_settings(draw), _drawn_steps(draw, 8, 0.4, [each])) for each in bad]
    # Beyond what is usual for a factor, on both sides.
    for first, share in ((2.0**19, 0.0), (1.25, 0.5)):
        cases.append(case(first, *_settings(draw)[1:], _drawn_steps(draw, 12, share, bad)))
    # Finite, though their squares are not, nor their sum.
    large = [[1.0, draw.real(1.8e38, 3.4e38), draw.real(1.8e38, 3.4e38)], [-1e20]]
    cases.append(case(*_settings(draw), _steps(GOOD, large, GOOD, large, GOOD, GOOD)))
    # Each gradient with a good number, and each without one.
    mixed = [[1.0, INF], [math.nan, draw.real(1, 2)]]
    cases.append(case(*_settings(draw), _steps(GOOD, mixed, GOOD, [[-INF], [math.nan]], GOOD)))
    # Nothing to learn from, and nothing wrong.
    zeros = [[0.0, 0.0], [0.0]]
    cases.append(case(*_settings(draw), _steps(*[GOOD, zeros] * 6)))
    # Long enough to grow twice and more.
    cases.append(case(*_settings(draw), _drawn_steps(draw, 13, 0.4, [1e6, -1e9])))
    first, growth, backoff, interval = _settings(draw)
    for i, value in enumerate((INF, math.nan, -INF)):
        # One bad value in one place, at each end of the gradients, before the factor may grow.
        gradients = [[1.0, 2.0], [3.0], [4.0, 5.0]]
        gradients[-(i % 2)][-(i % 2)] = value
        good = [[1.0, 2.0], [3.0], [4.0, 5.0]]
        before = [good] * (interval - 1)
        run = _steps(*before, gradients, *[good] * (2 * interval), loss=draw.real(1, 2))
        cases.append(case(first, growth, backoff, interval, run))
    run = _steps(GOOD, loss=draw.real(1, 2))
    wrong = [
        (-draw.real(1, 9), growth, backoff, interval),
        (first, draw.real(0.2, 0.9), backoff, interval),
        (first, growth, draw.real(1.1, 3), interval),
        (first, growth, -backoff, interval),
        (first, growth, 0.0, interval),
        (first, growth, backoff, 0),
        (first, growth, backoff, -interval),
    ]
    return part(STEPS, cases) + part(BAD_INPUT, [case(*each, run) for each in wrong])


def _all_finite(gradients: Sequence[Tensor]) -> bool:
    return all(bool(torch.isfinite(each).all()) for each in gradients)


def _none_is(found: Callable[[Tensor], Tensor]) -> Callable[[Sequence[Tensor]], bool]:
    """Whether no number of the gradients is of this kind."""
    return lambda gradients: not any(bool(found(each).any()) for each in gradients)


def _finite_in_place(gradients: Sequence[Tensor]) -> bool:
    """Whether all are finite; divides them."""
    for each in gradients:
        each.div_(2)
    return _all_finite(gradients)


def _grow(scaler: Scaler) -> None:
    scaler.good_steps += 1
    if scaler.good_steps == scaler.interval:
        scaler.factor *= scaler.growth
        scaler.good_steps = 0


def _shrink(scaler: Scaler) -> None:
    scaler.factor *= scaler.backoff
    scaler.good_steps = 0


def _grow_once(scaler: Scaler) -> None:
    scaler.good_steps += 1
    if scaler.good_steps == scaler.interval:
        scaler.factor *= scaler.growth


def _grow_early(scaler: Scaler) -> None:
    scaler.good_steps += 1
    if scaler.good_steps >= scaler.interval - 1:
        scaler.factor *= scaler.growth
        scaler.good_steps = 0


def _divide_by_growth(scaler: Scaler) -> None:
    scaler.factor /= scaler.growth
    scaler.good_steps = 0


def _shrink_to_one(scaler: Scaler) -> None:
    scaler.factor = max(scaler.factor * scaler.backoff, 1.0)
    scaler.good_steps = 0


def _grow_always(scaler: Scaler) -> None:
    scaler.factor *= scaler.growth


def _grow_late(scaler: Scaler) -> None:
    scaler.good_steps += 1
    if scaler.good_steps > scaler.interval:
        scaler.factor *= scaler.growth
        scaler.good_steps = 0


def _grow_and_go_on(scaler: Scaler) -> None:
    scaler.good_steps += 1
    if scaler.good_steps >= scaler.interval:
        scaler.factor *= scaler.growth


def _shrink_and_go_on(scaler: Scaler) -> None:
    scaler.factor *= scaler.backoff


def _shrink_to_half(scaler: Scaler) -> None:
    scaler.factor /= 2
    scaler.good_steps = 0


def _grow_to_double(scaler: Scaler) -> None:
    scaler.good_steps += 1
    if scaler.good_steps == scaler.interval:
        scaler.factor *= 2
        scaler.good_steps = 0


def _divide_by_backoff(scaler: Scaler) -> None:
    scaler.factor /= scaler.backoff
    scaler.good_steps = 0


def _nothing(scaler: Scaler) -> None:
    pass


def _wrong_scaler(
    *,
    is_good: Callable[[Sequence[Tensor]], bool] = _all_finite,
    after_good: Callable[[Scaler], None] = _grow,
    after_bad: Callable[[Scaler], None] = _shrink,
    says: Callable[[bool], bool] = bool,
    scaled: Callable[[Tensor, float], Tensor] = lambda loss, factor: loss * factor,
    validates: bool = True,
) -> type:
    """A scaler with some of its steps changed."""

    class DynamicLossScaler(Scaler):
        def __init__(
            self,
            initial: float = 65_536.0,
            growth: float = 2.0,
            backoff: float = 0.5,
            interval: int = 2_000,
        ) -> None:
            if validates:
                super().__init__(initial, growth, backoff, interval)
            self.factor, self.growth = initial, growth
            self.backoff, self.interval, self.good_steps = backoff, interval, 0

        def scale(self, loss: Tensor) -> Tensor:
            return scaled(loss, self.factor)

        def step_ok(self, grads: Any) -> bool:
            good = is_good(list(grads))
            (after_good if good else after_bad)(self)
            return says(good)

    return DynamicLossScaler


class _ScalerBySums:
    """Whether a sum of what is multiplied by zero is zero; counts down."""

    def __init__(
        self, initial: float = 1.0, growth: float = 2.0, backoff: float = 0.5, interval: int = 9
    ) -> None:
        if initial <= 0 or growth <= 1 or backoff <= 0 or backoff >= 1 or interval < 1:
            raise ValueError("settings")
        self.settings = growth, backoff, interval
        self.now, self.left = initial, interval

    def scale(self, loss: Tensor) -> Tensor:
        return self.now * loss

    def step_ok(self, grads: Sequence[Tensor]) -> Tensor:
        growth, backoff, interval = self.settings
        finite = torch.stack([(each * 0).sum() for each in grads]).sum() == 0
        self.left = self.left - 1 if finite else interval
        if not finite:
            self.now *= backoff
        elif not self.left:
            self.now, self.left = self.now * growth, interval
        return finite


class _ScalerOnATensor:
    """The factor as a tensor, and a history of steps."""

    def __init__(self, initial: float, growth: float, backoff: float, interval: int) -> None:
        if min(initial, growth - 1, backoff, 1 - backoff) <= 0 or interval < 1:
            raise ValueError(f"{initial}, {growth}, {backoff}, {interval}")
        self.scale_now = torch.tensor(float(initial))
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self.history: list[bool] = []

    def scale(self, loss: Tensor) -> Tensor:
        return loss.mul(self.scale_now)

    def step_ok(self, grads: Sequence[Tensor]) -> bool:
        is_finite = math.isfinite(sum(float(each.abs().max()) for each in grads))
        self.history.append(is_finite)
        if not is_finite:
            self.history = []
            self.scale_now = self.scale_now * self.backoff
        elif len(self.history) % self.interval == 0:
            self.scale_now = self.scale_now * self.growth
        return is_finite


class _ScalerWithAFlag:
    """Looks at every number."""

    def __init__(
        self, initial: float, growth: float = 2, backoff: float = 0.5, interval: int = 2000
    ) -> None:
        for ok in (initial > 0, growth > 1, 0 < backoff < 1, interval >= 1):
            if not ok:
                raise ValueError
        self.__dict__.update(f=initial, g=growth, b=backoff, n=interval, count=0)

    def scale(self, loss: Tensor) -> Tensor:
        return loss * float(self.__dict__["f"])

    def step_ok(self, grads: Sequence[Tensor]) -> bool:
        me, found = self.__dict__, False
        for grad in grads:
            for number in grad.flatten().tolist():
                found = found or number != number or number in (INF, -INF)
        if found:
            me.update(f=me["f"] * me["b"], count=0)
            return False
        me["count"] += 1
        if me["count"] >= me["n"]:
            me.update(f=me["f"] * me["g"], count=0)
        return True


DynamicLossScaler = Check(
    reference=Scaler,
    driver="gradelib.drivers.loss_scaler:run",
    public=[
        *part(
            STEPS,
            [
                case(8.0, 2.0, 0.5, 2, _steps(*[GOOD] * 6, loss=2.0)),
                case(16.0, 4.0, 0.25, 3, _steps(GOOD, GOOD, [[[1.0, INF]], [1.0]], *[GOOD] * 4)),
                case(64.0, 3.0, 0.25, 5, _steps([[1.0], [INF]], GOOD)),
                case(64.0, 3.0, 0.25, 5, _steps([[1.0], [math.nan]], [[math.nan], [1.0]], GOOD)),
                case(64.0, 3.0, 0.25, 5, _steps([[1.0], [1.0, -INF]], [[-INF], [1.0]], GOOD)),
                case(
                    64.0,
                    3.0,
                    0.25,
                    5,
                    _steps([[INF, INF], [math.nan]], [[1.0, INF], [math.nan, 2.0]], GOOD),
                ),
                case(1.5, 3.0, 0.25, 5, _steps([[1.0], [INF]], GOOD)),
                case(64.0, 3.0, 0.25, 5, _steps([[1e6, -1e6], [1.0]], GOOD)),
                # Finite, though their squares are not, nor their sum; and nothing but zeros.
                case(64.0, 3.0, 0.25, 5, _steps([[3e38, 3e38], [1.0]], [[0.0, 0.0], [0.0]], GOOD)),
            ],
        ),
        *part(
            BAD_INPUT,
            [
                case(0.0, 2.0, 0.5, 2, _steps(GOOD)),
                case(8.0, 1.0, 0.5, 2, _steps(GOOD)),
                case(8.0, 2.0, 1.0, 2, _steps(GOOD)),
                case(8.0, 2.0, 0.0, 2, _steps(GOOD)),
                case(8.0, 2.0, 0.5, 0, _steps(GOOD)),
            ],
        ),
    ],
    hidden=_hidden_runs,
    tolerance=relative(1e-5),
    parts={STEPS: 0.85, BAD_INPUT: 0.15},
    misconceptions=[
        Misconception(
            "accepts bad settings",
            _wrong_scaler(validates=False),
            "The steps are right, but settings that make no sense are accepted. Which factors would never adapt, or the "
            "wrong way? Raise ValueError.",
        ),
        Misconception(
            "loss changed",
            _wrong_scaler(scaled=lambda loss, factor: loss.mul_(factor)),
            "`scale` changes the loss that it is given: whoever prints it afterwards reads another number. Return a new one.",
        ),
        Misconception(
            "gradients changed",
            _wrong_scaler(is_good=_finite_in_place),
            "`step_ok` changes the gradients. Leave them as they are: whoever calls it divides them.",
        ),
        Misconception(
            "never adapts",
            _wrong_scaler(after_good=_nothing, after_bad=_nothing),
            "Your factor stays what it is. After a bad step it has to shrink, and after enough good ones to grow.",
        ),
        Misconception(
            "bad steps are taken",
            _wrong_scaler(says=lambda good: True),
            "Your factor is right, but a step with an infinity or a NaN is taken. It would spoil the weights.",
        ),
        Misconception(
            "says whether it is bad",
            _wrong_scaler(says=lambda good: not good),
            "You answer the opposite: True means that the step may be taken.",
        ),
        Misconception(
            "good and bad mixed up",
            _wrong_scaler(is_good=lambda gradients: not _all_finite(gradients)),
            "You take bad steps for good ones, and good ones for bad.",
        ),
        Misconception(
            "one good gradient is enough",
            _wrong_scaler(
                is_good=lambda gradients: any(
                    bool(torch.isfinite(each).all()) for each in gradients
                )
            ),
            "A step passes as good as soon as one gradient is finite. A single bad one spoils it.",
        ),
        Misconception(
            "one good number of a gradient is enough",
            _wrong_scaler(
                is_good=lambda gradients: all(
                    bool(torch.isfinite(each).any()) for each in gradients
                )
            ),
            "A gradient passes as good as soon as one of its numbers is finite. A single bad one spoils it.",
        ),
        Misconception(
            "one good number of all is enough",
            _wrong_scaler(
                is_good=lambda gradients: any(
                    bool(torch.isfinite(each).any()) for each in gradients
                )
            ),
            "A step passes as good as soon as one number of all gradients is finite. A single bad one spoils it.",
        ),
        Misconception(
            "sum of all looked at",
            _wrong_scaler(
                is_good=lambda gradients: bool(
                    torch.isfinite(torch.cat([each.flatten() for each in gradients]).sum())
                )
            ),
            "A sum or a norm of finite numbers can be infinite itself. Look at the numbers one by one.",
        ),
        Misconception(
            "zeros refused",
            _wrong_scaler(
                is_good=lambda gradients: (
                    _all_finite(gradients) and any(bool(each.any()) for each in gradients)
                )
            ),
            "A step of zeros is refused. Zero is finite: refuse infinities and NaN alone.",
        ),
        Misconception(
            "NaN unnoticed",
            _wrong_scaler(is_good=_none_is(torch.isinf)),
            "A NaN passes as good. Note that NaN == NaN is False, so a comparison does not find it.",
        ),
        Misconception(
            "minus infinity unnoticed",
            _wrong_scaler(is_good=_none_is(lambda each: torch.isposinf(each) | torch.isnan(each))),
            "An overflow may have either sign.",
        ),
        Misconception(
            "infinity unnoticed",
            _wrong_scaler(is_good=_none_is(torch.isnan)),
            "An infinity passes as good. It is what an overflow gives first.",
        ),
        Misconception(
            "first gradient alone",
            _wrong_scaler(is_good=lambda gradients: _all_finite(gradients[:1])),
            "You look at the first gradient alone. Any of them can overflow.",
        ),
        Misconception(
            "last gradient alone",
            _wrong_scaler(is_good=lambda gradients: _all_finite(gradients[-1:])),
            "You look at the last gradient alone. Any of them can overflow.",
        ),
        Misconception(
            "infinity alone with a plus",
            _wrong_scaler(is_good=_none_is(torch.isposinf)),
            "You find infinity alone. Two other values are as bad.",
        ),
        Misconception(
            "every step is taken",
            _wrong_scaler(is_good=lambda gradients: True),
            "You find every step good. Look for infinities and NaN in the gradients.",
        ),
        Misconception(
            "large gradients refused",
            _wrong_scaler(
                is_good=lambda gradients: all(
                    bool((each.abs() <= 65_504).all()) for each in gradients
                )
            ),
            "A gradient that is large and finite has not overflowed: it was stored. Refuse infinities and NaN alone.",
        ),
        Misconception(
            "never grows",
            _wrong_scaler(after_good=_nothing),
            "Your factor never grows. After `interval` good steps in a row it should.",
        ),
        Misconception(
            "never shrinks",
            _wrong_scaler(after_bad=lambda scaler: setattr(scaler, "good_steps", 0)),
            "After a bad step your factor stays as large as it was, and the next one overflows too.",
        ),
        Misconception(
            "grows at every step",
            _wrong_scaler(after_good=_grow_always),
            "Your factor grows at every good step. It should wait for `interval` of them in a row.",
        ),
        Misconception(
            "grows one step late",
            _wrong_scaler(after_good=_grow_late),
            "Your factor grows one step late. With an interval of 2 it grows after the second good step.",
        ),
        Misconception(
            "grows one step early",
            _wrong_scaler(after_good=_grow_early),
            "Your factor grows one step early. With an interval of 3 it grows after the third good step.",
        ),
        Misconception(
            "grows once",
            _wrong_scaler(after_good=_grow_once),
            "Your factor grows once and then no more. After it has grown, the count has to begin again.",
        ),
        Misconception(
            "count not begun again after growing",
            _wrong_scaler(after_good=_grow_and_go_on),
            "Once it has grown, your factor grows at every step. The count has to begin again.",
        ),
        Misconception(
            "count not begun again after a bad step",
            _wrong_scaler(after_bad=_shrink_and_go_on),
            "The good steps have to be in a row. After a bad one the count begins again.",
        ),
        Misconception(
            "grows after a bad step",
            _wrong_scaler(after_bad=_divide_by_backoff),
            "After a bad step your factor grows. It was too large: multiply by `backoff`.",
        ),
        Misconception(
            "divides by `growth`",
            _wrong_scaler(after_bad=_divide_by_growth),
            "After a bad step you divide by `growth`. Look at `backoff`.",
        ),
        Misconception(
            "never below 1",
            _wrong_scaler(after_bad=_shrink_to_one),
            "Your factor stops at 1. Nothing says so: large gradients may need one below.",
        ),
        Misconception(
            "halves whatever `backoff` says",
            _wrong_scaler(after_bad=_shrink_to_half),
            "You halve the factor. Look at `backoff`.",
        ),
        Misconception(
            "doubles whatever `growth` says",
            _wrong_scaler(after_good=_grow_to_double),
            "You double the factor. Look at `growth`.",
        ),
        Misconception(
            "loss divided",
            _wrong_scaler(scaled=lambda loss, factor: loss / factor),
            "Dividing the loss makes small gradients smaller still. Which way are they saved?",
        ),
        Misconception(
            "loss not scaled",
            _wrong_scaler(scaled=lambda loss, factor: loss),
            "`scale` returns the loss as it was.",
        ),
        Misconception(
            "returns the factor",
            _wrong_scaler(scaled=lambda loss, factor: torch.tensor(factor)),
            "`scale` returns the factor itself. Multiply the loss by it.",
        ),
    ],
    also_right=[_ScalerBySums, _ScalerOnATensor, _ScalerWithAFlag],
)


# --- padding --------------------------------------------------------------------------------------

WASTE = "waste"


def _cut(
    lengths: Sequence[int], batch_size: int, sort: bool = False, *, longest_first: bool = False
) -> list[list[int]]:
    """The lengths in batches."""
    ordered = sorted(lengths, reverse=longest_first) if sort else list(lengths)
    return [ordered[i : i + batch_size] for i in range(0, len(ordered), batch_size)]


def _waste_of(share: Callable[[list[list[int]]], float]) -> Callable[..., float]:
    """A wrong share, of batches that are made as they should be."""

    def padding_waste(lengths: Sequence[int], batch_size: int, sort: bool = False) -> float:
        batching.padding_waste(lengths, batch_size)
        return share(_cut(lengths, batch_size, sort))

    return padding_waste


def _share(tokens: float, positions: float) -> float:
    return 1 - tokens / positions


def _positions(batches: Sequence[Sequence[int]]) -> int:
    return sum(len(batch) * max(batch) for batch in batches)


def _tokens(batches: Sequence[Sequence[int]]) -> int:
    return sum(map(sum, batches))


def _waste_if(sort: bool | None = None, **cut: bool) -> Callable[..., float]:
    """The right share of batches that are made in another order."""

    def padding_waste(lengths: Sequence[int], batch_size: int, asked: bool = False) -> float:
        batching.padding_waste(lengths, batch_size)
        batches = _cut(lengths, batch_size, asked if sort is None else sort, **cut)
        return _share(_tokens(batches), _positions(batches))

    def with_its_names(lengths: Sequence[int], batch_size: int, sort: bool = False) -> float:
        return padding_waste(lengths, batch_size, sort)

    return with_its_names


def _waste_unchecked(lengths: Sequence[int], batch_size: int, sort: bool = False) -> float:
    batches = _cut(lengths, batch_size, sort)
    return _share(_tokens(batches), _positions(batches))


def _waste_by_positions(lengths: Sequence[int], batch_size: int, sort: bool = False) -> float:
    if batch_size < 1 or not lengths or min(lengths) < 1:
        raise ValueError((lengths, batch_size))
    waiting = sorted(lengths) if sort else list(lengths)
    empty = total = 0
    while waiting:
        batch, waiting = waiting[:batch_size], waiting[batch_size:]
        empty += sum(max(batch) - length for length in batch)
        total += len(batch) * max(batch)
    return empty / total


def _waste_in_tensors(lengths: Sequence[int], batch_size: int, sort: bool = False) -> Tensor:
    if batch_size <= 0 or len(lengths) == 0 or any(length <= 0 for length in lengths):
        raise ValueError
    every = torch.tensor(lengths, dtype=torch.float32)
    ordered = every.sort().values if sort else every
    parts = [ordered[i : i + batch_size] for i in range(0, len(ordered), batch_size)]
    return 1 - every.sum() / torch.stack([one.max() * len(one) for one in parts]).sum()


def _hidden_waste(draw: Draw) -> list[Case]:
    def lengths(count: int) -> list[int]:
        return [draw.log_integer(5, 2000) for _ in range(count)]

    cases = []
    for sort in (False, True, False, True):
        batch_size = draw.integer(3, 7)
        # The last batch is not full.
        full = batch_size * draw.integer(3, 6) + draw.integer(1, batch_size - 1)
        cases.append(case(lengths(full), batch_size, sort))
    # Unsorted, with a batch of long ones and one of short ones: a mean of the batches' shares lies far off.
    cases.append(case([*lengths(4), 3000, 10, 1, 2], 4))
    cases.append(case(lengths(3), draw.integer(5, 9)))
    cases.append(case(lengths(5), 1))
    wrong = [case(lengths(5), 0), case([], 3), case([*lengths(3), 0], 2)]
    wrong += [case(lengths(5), -draw.integer(1, 9)), case([*lengths(3), -draw.integer(1, 9)], 2)]
    return part(WASTE, cases) + part(BAD_INPUT, wrong)


padding_waste = Check(
    reference=batching.padding_waste,
    public=[
        *part(
            WASTE,
            [
                case([3, 9, 4, 8], 2),
                case([3, 9, 4, 8], 2, sort=True),
                case([100, 20, 30, 90, 7], 2),
                case([100, 20, 30, 90, 7], 2, True),
                case([5, 5, 5], 2),
            ],
        ),
        *part(BAD_INPUT, [case([3, 9], 0), case([3, 9], -1), case([], 2), case([3, 0], 2)]),
    ],
    hidden=_hidden_waste,
    # As float32 gives it.
    tolerance=absolute(1e-6),
    parts={WASTE: 0.9, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "accepts bad input",
            _waste_unchecked,
            "The share is right, but not every input makes sense. Raise ValueError for no lengths, a length below 1 and "
            "a batch size below 1.",
        ),
        Misconception(
            "share of the tokens",
            _waste_of(lambda batches: _tokens(batches) / _positions(batches)),
            "That is the share of the positions that hold text. The waste is the rest.",
        ),
        Misconception(
            "percentage",
            _waste_of(lambda batches: 100 * _share(_tokens(batches), _positions(batches))),
            "Return a fraction, not a percentage: a quarter is 0.25.",
        ),
        Misconception(
            "padding for each token",
            _waste_of(lambda batches: _positions(batches) / _tokens(batches) - 1),
            "You divide the padding by the tokens of text. Divide by all positions that are computed.",
        ),
        Misconception(
            "number of positions",
            _waste_of(lambda batches: _positions(batches) - _tokens(batches)),
            "That is how many positions are padding. What share of all positions is it?",
        ),
        Misconception(
            "sort ignored",
            _waste_if(sort=False),
            "Your answer is the same with `sort=True`. Make the batches after sorting by length.",
        ),
        Misconception(
            "always sorted",
            _waste_if(sort=True),
            "You sort always. Without `sort`, batches are made in the order given.",
        ),
        Misconception(
            "longest first",
            _waste_if(longest_first=True),
            "You sort the longest first. The last batch may be smaller, so the direction matters: shortest first.",
        ),
        Misconception(
            "padded to the longest of all",
            _waste_of(
                lambda batches: _share(
                    _tokens(batches), sum(map(len, batches)) * max(map(max, batches))
                )
            ),
            "You pad every batch to the longest text of all. Each batch has a longest of its own.",
        ),
        Misconception(
            "mean of the batches' shares",
            _waste_of(
                lambda batches: (
                    sum(_share(sum(batch), len(batch) * max(batch)) for batch in batches)
                    / len(batches)
                )
            ),
            "You take the mean of the batches' shares. A wide batch has more positions than a narrow one: add up first, "
            "then divide.",
        ),
        Misconception(
            "last batch left out",
            _waste_of(
                lambda batches: (lambda kept: _share(_tokens(kept), _positions(kept)))(
                    [batch for batch in batches if len(batch) == len(batches[0])]
                )
            ),
            "The last batch is left out when it is not full. It is trained on too.",
        ),
        Misconception(
            "positions of the last batch left out",
            _waste_of(
                lambda batches: _share(
                    _tokens(batches),
                    _positions([batch for batch in batches if len(batch) == len(batches[0])]),
                )
            ),
            "You count the tokens of all batches, but not the positions of one that is not full.",
        ),
        Misconception(
            "rounded",
            _waste_of(lambda batches: round(_share(_tokens(batches), _positions(batches)), 2)),
            "You round the share. Return it as it is.",
        ),
        Misconception(
            "last batch filled up",
            _waste_of(
                lambda batches: _share(
                    _tokens(batches), sum(len(batches[0]) * max(batch) for batch in batches)
                )
            ),
            "You count a last batch as if it were full. It has as many rows as texts are left.",
        ),
        Misconception(
            "padded to the first of a batch",
            _waste_of(
                lambda batches: _share(
                    _tokens(batches), sum(len(batch) * batch[0] for batch in batches)
                )
            ),
            "A batch is as wide as its longest text, not as its first.",
        ),
        Misconception(
            "padded to the last of a batch",
            _waste_of(
                lambda batches: _share(
                    _tokens(batches), sum(len(batch) * batch[-1] for batch in batches)
                )
            ),
            "A batch is as wide as its longest text, not as its last. Without `sort` they are not the same.",
        ),
    ],
    also_right=[_waste_if(), _waste_by_positions, _waste_in_tensors],
)


# --- packing --------------------------------------------------------------------------------------

PACKING = "packing"


def _refused(lengths: Sequence[int], max_length: int) -> None:
    """Bad input, refused as the reference refuses it."""
    batching.pack(lengths, max_length)


def _fill(
    lengths: Sequence[int],
    max_length: int,
    order: Sequence[int],
    *,
    look_back: bool = True,
    room_left: Callable[[int, int], bool] = lambda length, room: length <= room,
) -> list[list[int]]:
    """First fit in this order; without `look_back`, into the last row alone."""
    _refused(lengths, max_length)
    rows: list[list[int]] = []
    free: list[int] = []
    for i in order:
        open_rows = range(len(rows)) if look_back else range(max(0, len(rows) - 1), len(rows))
        row = next((r for r in open_rows if room_left(lengths[i], free[r])), None)
        if row is None:
            rows.append([])
            free.append(max_length)
            row = len(rows) - 1
        rows[row].append(i)
        free[row] -= lengths[i]
    return rows


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda i: -lengths[i])


def _cut_into_full_rows(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    """Every row full: a sequence that does not fit goes on in the next."""
    _refused(lengths, max_length)
    rows: list[list[int]] = [[]]
    room = max_length
    for i, length in enumerate(lengths):
        rows[-1].append(i)
        left = length
        while left > room:
            left -= room
            rows.append([i])
            room = max_length
        room -= left
    return rows


def _best_fit_longest_first(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    if min(lengths) < 1 or max(lengths) > max_length:
        raise ValueError("a sequence does not fit")
    rows: list[tuple[int, list[int]]] = []
    for i in _longest_first(lengths):
        fitting = [row for row in rows if row[0] + lengths[i] <= max_length]
        used, members = max(fitting, key=lambda row: row[0], default=(0, []))
        rows = [row for row in rows if row[1] is not members]
        rows.append((used + lengths[i], [*members, i]))
    return [members for _, members in rows]


def _rows_filled_one_by_one(lengths: Sequence[int], max_length: int) -> tuple[Any, ...]:
    """Each row takes the longest that still fits until none does: first fit, row by row."""
    if not lengths or any(not 1 <= length <= max_length for length in lengths):
        raise ValueError(lengths)
    waiting, rows = _longest_first(lengths), []
    while waiting:
        room, row = max_length, []
        for i in list(waiting):
            if lengths[i] <= room:
                room -= lengths[i]
                row.append(i)
                waiting.remove(i)
        rows.append(tuple(reversed(row)))
    return tuple(reversed(rows))


def _packed_in_tensors(lengths: Sequence[int], max_length: int) -> list[Tensor]:
    sizes = torch.tensor(lengths)
    if not len(sizes) or int(sizes.min()) <= 0 or int(sizes.max()) > max_length:
        raise ValueError("too long, or empty")
    free = torch.full((len(lengths),), max_length)
    row_of = torch.zeros(len(lengths), dtype=torch.long)
    for i in sizes.argsort(descending=True):
        row = int((free >= sizes[i]).nonzero()[0])
        free[row] -= sizes[i]
        row_of[i] = row
    return [(row_of == row).nonzero().flatten() for row in range(int(row_of.max()) + 1)]


def _drawn_full_rows(draw: Draw, rows: int, max_length: int) -> list[int]:
    """Lengths that fill so many rows to the last token, mixed."""
    lengths: list[int] = []
    for _ in range(rows):
        cuts = sorted({draw.integer(1, max_length - 1) for _ in range(draw.integer(1, 4))})
        lengths += [end - begin for begin, end in zip([0, *cuts], [*cuts, max_length], strict=True)]
    return draw.shuffled(lengths)


def _drawn_trap(draw: Draw, max_length: int) -> list[int]:
    """Lengths that fill six or twelve rows, where first fit in this order needs five thirds of it:
    a little more than a seventh, than a third, than a half."""
    rows = draw.one([6, 12])
    seventh = max_length // 7 + max_length // draw.integer(120, 250)
    third = max_length // 3 + max_length // draw.integer(120, 250)
    return [seventh] * rows + [third] * rows + [max_length - seventh - third] * rows


def _hidden_packing(draw: Draw) -> list[Case]:
    cases = []
    for _ in range(3):
        max_length = draw.integer(300, 4000)
        cases.append(case(_drawn_full_rows(draw, draw.integer(9, 16), max_length), max_length))
    for _ in range(2):
        max_length = draw.integer(900, 4000)
        cases.append(case(_drawn_trap(draw, max_length), max_length))
    # Each exactly half a row: one to a row would take twice as many.
    half = draw.integer(200, 900)
    cases.append(case([*[half] * 7, 2 * half, *[half] * 7], 2 * half))
    # Few sequences, long ones: what counts sequences in place of tokens fills rows far beyond.
    max_length = draw.integer(12, 30)
    cases.append(case(_drawn_full_rows(draw, 8, max_length), max_length))
    wrong = [case([40, max_length + draw.integer(50, 99), 30], max_length + 40), case([7, 0], 30)]
    wrong += [case([7, -draw.integer(1, 9), 5], 30), case([], draw.integer(11, 99))]
    return part(PACKING, cases) + part(BAD_INPUT, wrong)


def _too_long_left_out(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    kept = [i for i, length in enumerate(lengths) if 0 < length <= max_length]
    rows = batching.pack([lengths[i] for i in kept], max_length)
    return [[kept[i] for i in row] for row in rows]


def _too_long_alone(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    return batching.pack([max(1, min(length, max_length)) for length in lengths], max_length)


def _by_count(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    _refused(lengths, max_length)
    every = list(range(len(lengths)))
    return [every[i : i + max_length] for i in range(0, len(every), max_length)]


def _row_numbers(lengths: Sequence[int], max_length: int) -> list[int]:
    rows = batching.pack(lengths, max_length)
    return [next(r for r, row in enumerate(rows) if i in row) for i in range(len(lengths))]


# Six rows of 147 + 342 + 511, in an order that is bad for first fit.
TRAP = [342] * 6 + [147] * 6 + [511] * 6

pack = Check(
    reference=batching.pack,
    criterion="packing",
    public=[
        *part(
            PACKING,
            [
                case([3, 9, 7, 1, 5, 5], 10),
                case([4, 9, 4, 1, 6, 5, 6, 1, 4, 6, 1, 1, 4, 6, 5, 4, 9, 4], 10),
                case([4] * 20, 8),
                case(TRAP, 1000),
            ],
        ),
        *part(BAD_INPUT, [case([4, 11, 3], 10), case([4, 0], 10), case([], 10)]),
    ],
    hidden=_hidden_packing,
    parts={PACKING: 0.9, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "too long left out",
            _too_long_left_out,
            "The rows are right, but a text that fits into no row is lost without a word. Raise ValueError.",
        ),
        Misconception(
            "too long accepted",
            _too_long_alone,
            "The rows are right, but a text that fits into no row, or is empty, is accepted. Raise ValueError.",
        ),
        Misconception(
            "lengths for positions",
            lambda lengths, max_length: [
                [lengths[i] for i in row] for row in batching.pack(lengths, max_length)
            ],
            "Your rows hold lengths. Return positions in `lengths`: two texts may be equally long.",
        ),
        Misconception(
            "positions counted from 1",
            lambda lengths, max_length: [
                [i + 1 for i in row] for row in batching.pack(lengths, max_length)
            ],
            "Positions begin at 0.",
        ),
        Misconception(
            "row of each sequence",
            _row_numbers,
            "You return for each text the number of its row. Return the rows: a list of lists.",
        ),
        Misconception(
            "sequences cut",
            _cut_into_full_rows,
            "Your rows are full, but a text is cut in two. Keep each whole.",
        ),
        Misconception(
            "positions after sorting",
            lambda lengths, max_length: batching.pack(sorted(lengths, reverse=True), max_length),
            "Your positions are those of the sorted list. Sort the positions by their lengths, not the lengths.",
        ),
        Misconception(
            "counts sequences",
            _by_count,
            "You put `max_length` texts into a row. It is the tokens that a row has room for.",
        ),
        Misconception(
            "everything in one row",
            lambda lengths, max_length: _fill(
                lengths, max_length, range(len(lengths)), room_left=lambda length, room: True
            ),
            "All texts are in one row. How many tokens may a row hold?",
        ),
        Misconception(
            "rows never quite full",
            lambda lengths, max_length: _fill(
                lengths,
                max_length,
                _longest_first(lengths),
                room_left=lambda length, room: length < room,
            ),
            "A text that fills a row to its last token still fits.",
        ),
        Misconception(
            "in the order given",
            lambda lengths, max_length: _fill(lengths, max_length, range(len(lengths))),
            "You take texts as they come. Short ones then fill up rows, and a long one that would have fitted needs a "
            "new row: which are harder to place?",
        ),
        # Next fit takes equally many rows for a list and for the same list backwards (Fisher, 1988), so
        # these two look alike.
        Misconception(
            "shortest first, or the last row alone",
            lambda lengths, max_length: _fill(lengths, max_length, _longest_first(lengths)[::-1]),
            "Either you begin with the shortest, and the long ones find no room; or you look at the last row alone, and "
            "leave room in the others. Which texts are harder to place, and where may they go?",
        ),
        Misconception(
            "last row alone, in the order given",
            lambda lengths, max_length: _fill(
                lengths, max_length, range(len(lengths)), look_back=False
            ),
            "You look at the last row alone, and take texts as they come. Rows before it have room that is never used.",
        ),
        Misconception(
            "one to a row",
            lambda lengths, max_length: _fill(
                lengths, max_length, range(len(lengths)), room_left=lambda length, room: False
            ),
            "Each text has a row of its own. Where two fit, they should share one.",
        ),
    ],
    also_right=[_best_fit_longest_first, _rows_filled_one_by_one, _packed_in_tensors],
)


# --- batches with labels --------------------------------------------------------------------------

BATCH = "batch"
Example = dict[str, list[int]]


def _hidden_batches(draw: Draw) -> list[Case]:
    def example(prompt: int, answer: int, *also: int) -> Example:
        tokens = [draw.integer(300, 260_000) for _ in range(prompt + answer)]
        return {"prompt": tokens[:prompt], "answer": [*tokens[prompt:], *also]}

    cases = []
    for pad_id in (0, draw.integer(2, 9), draw.integer(10, 200)):
        # The last tokens are the pad id itself, as where a model ends and pads with one token.
        examples = [
            example(draw.integer(2, 9), draw.integer(2, 9), *[pad_id] * draw.integer(0, 1))
            for _ in range(draw.integer(2, 5))
        ]
        cases.append(case([*examples, example(3, 12, pad_id), example(12, 2)], pad_id))
    cases.append(case([example(draw.integer(2, 9), draw.integer(1, 9))], draw.integer(1, 99)))
    # Text to go on with, without a question.
    cases.append(case([example(0, 5), example(4, 3)], draw.integer(1, 99)))
    # And a prompt whose answer is empty: it has tokens, and nothing to learn.
    cases.append(case([example(5, 2), example(draw.integer(2, 9), 0)], draw.integer(1, 99)))
    wrong = [case([], draw.integer(1, 9)), case([example(2, 3), example(0, 0)], 0)]
    return part(BATCH, cases) + part(BAD_INPUT, wrong)


Batch = dict[str, Tensor]


def _collate_but(change: Callable[[Batch, Sequence[Example], int], None]) -> Callable[..., Batch]:
    """The right batch, then changed."""

    def collate(examples: Sequence[Example], pad_id: int) -> Batch:
        batch = collate_reference(examples, pad_id)
        change(batch, examples, pad_id)
        return batch

    return collate


def _learn_prompts(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    kept = batch["attention_mask"] == 1
    batch["labels"][kept] = batch["input_ids"][kept]


def _learn_prompts_alone(batch: Batch, examples: Sequence[Example], _pad_id: int) -> None:
    batch["labels"].fill_(IGNORED)
    for row, example in enumerate(examples):
        length = len(example["prompt"])
        batch["labels"][row, :length] = batch["input_ids"][row, :length]


def _learn_padding(batch: Batch, _examples: Sequence[Example], pad_id: int) -> None:
    batch["labels"][batch["attention_mask"] == 0] = pad_id


def _learn_everything(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    batch["labels"] = batch["input_ids"].clone()


def _ignore_pad_ids(batch: Batch, _examples: Sequence[Example], pad_id: int) -> None:
    batch["labels"][batch["input_ids"] == pad_id] = IGNORED


def _mask_pad_ids(batch: Batch, _examples: Sequence[Example], pad_id: int) -> None:
    batch["attention_mask"] = (batch["input_ids"] != pad_id).long()


def _mask_and_ignore_pad_ids(batch: Batch, examples: Sequence[Example], pad_id: int) -> None:
    _ignore_pad_ids(batch, examples, pad_id)
    _mask_pad_ids(batch, examples, pad_id)


def _see_padding(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])


def _hide_prompts(batch: Batch, examples: Sequence[Example], _pad_id: int) -> None:
    for row, example in enumerate(examples):
        batch["attention_mask"][row, : len(example["prompt"])] = 0


def _zero_for_ignored(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    batch["labels"][batch["labels"] == IGNORED] = 0


def _ignored_ids(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    batch["input_ids"][batch["attention_mask"] == 0] = IGNORED


def _first_of_answer_ignored(batch: Batch, examples: Sequence[Example], _pad_id: int) -> None:
    for row, example in enumerate(examples):
        start = len(example["prompt"])
        batch["labels"][row, start : start + 1] = IGNORED


def _shifted(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    ended = torch.full((len(batch["labels"]), 1), IGNORED)
    batch["labels"] = torch.cat([batch["labels"][:, 1:], ended], dim=1)


def _padded_on_the_left(batch: Batch, examples: Sequence[Example], _pad_id: int) -> None:
    for row, example in enumerate(examples):
        length = len(example["prompt"]) + len(example["answer"])
        for rows in batch.values():
            rows[row] = rows[row].roll(rows.shape[1] - length)


def _cut_to_the_shortest(batch: Batch, examples: Sequence[Example], _pad_id: int) -> None:
    width = min(len(example["prompt"]) + len(example["answer"]) for example in examples)
    for name, rows in batch.items():
        batch[name] = rows[:, :width]


def _too_wide(batch: Batch, examples: Sequence[Example], pad_id: int) -> None:
    longest = [max(len(example[name]) for example in examples) for name in ("prompt", "answer")]
    more = sum(longest) - batch["labels"].shape[1]
    for name, filled in (("input_ids", pad_id), ("attention_mask", 0), ("labels", IGNORED)):
        batch[name] = torch.nn.functional.pad(batch[name], (0, more), value=filled)


def _padded_with_zeros(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    batch["input_ids"][batch["attention_mask"] == 0] = 0


def _mask_inverted(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    batch["attention_mask"] = 1 - batch["attention_mask"]


def _minus_one_for_ignored(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    batch["labels"][batch["labels"] == IGNORED] = -1


def _shifted_right(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    begun = torch.full((len(batch["labels"]), 1), IGNORED)
    batch["labels"] = torch.cat([begun, batch["labels"][:, :-1]], dim=1)


def _answer_at_the_start(batch: Batch, examples: Sequence[Example], _pad_id: int) -> None:
    batch["labels"].fill_(IGNORED)
    for row, example in enumerate(examples):
        batch["labels"][row, : len(example["answer"])] = torch.tensor(example["answer"])


def _in_lists(batch: dict[str, Any], _examples: Sequence[Example], _pad_id: int) -> None:
    batch.update({name: rows.tolist() for name, rows in batch.items()})


def _of_type(dtype: torch.dtype, *names: str) -> Callable[[Batch, Sequence[Example], int], None]:
    def change(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
        batch.update({name: batch[name].to(dtype) for name in names})

    return change


def _no_mask(batch: Batch, _examples: Sequence[Example], _pad_id: int) -> None:
    del batch["attention_mask"]


def _collate_anything(examples: Sequence[Example], pad_id: int) -> Batch:
    kept = [example for example in examples if example["prompt"] or example["answer"]]
    if kept:
        batch = collate_reference(kept, pad_id)
    else:
        batch = {name: torch.zeros(0, 0) for name in ("input_ids", "attention_mask", "labels")}
    empty = len(examples) - len(kept)
    for name, filled in (("input_ids", pad_id), ("attention_mask", 0), ("labels", IGNORED)):
        rows = batch[name]
        batch[name] = torch.cat([rows, torch.full((empty, rows.shape[1]), filled)])
    return batch


def _collate_from_lists(examples: Sequence[Example], pad_id: int) -> Batch:
    if not examples or not all(example["prompt"] + example["answer"] for example in examples):
        raise ValueError("nothing to learn from")
    width = max(len(example["prompt"] + example["answer"]) for example in examples)
    rows: dict[str, list[list[int]]] = {"labels": [], "input_ids": [], "attention_mask": []}
    for example in examples:
        prompt, answer = example["prompt"], example["answer"]
        more = width - len(prompt) - len(answer)
        rows["input_ids"].append(prompt + answer + more * [pad_id])
        rows["attention_mask"].append([1] * (width - more) + [0] * more)
        rows["labels"].append([-100] * len(prompt) + answer + [-100] * more)
    return {name: torch.tensor(row) for name, row in rows.items()}


def _collate_by_padding(examples: Sequence[Example], pad_id: int) -> Batch:
    whole = [torch.tensor([*example["prompt"], *example["answer"]]) for example in examples]
    if min(map(len, whole)) == 0:  # of no examples, `min` itself raises ValueError
        raise ValueError
    pad = torch.nn.utils.rnn.pad_sequence
    asked = [
        torch.tensor([-100] * len(example["prompt"]) + example["answer"]) for example in examples
    ]
    return {
        "input_ids": pad(whole, batch_first=True, padding_value=pad_id),
        "labels": pad(asked, batch_first=True, padding_value=-100),
        "attention_mask": pad([torch.ones_like(each) for each in whole], batch_first=True),
    }


def _collate_by_positions(examples: Sequence[Example], pad_id: int) -> Batch:
    if len(examples) == 0:
        raise ValueError("no examples")
    prompts = torch.tensor([[len(example["prompt"])] for example in examples])
    lengths = prompts + torch.tensor([[len(example["answer"])] for example in examples])
    if int(lengths.min()) == 0:
        raise ValueError("an example without tokens")
    position = torch.arange(int(lengths.max()))[None]
    ids = torch.full((len(examples), position.shape[1]), pad_id)
    mask = position < lengths
    ids[mask] = torch.tensor([i for e in examples for i in e["prompt"] + e["answer"]])
    labels = torch.where(mask & (position >= prompts), ids, -100)
    return {"input_ids": ids, "attention_mask": mask.float(), "labels": labels}


_TWO = [
    {"prompt": [5, 6], "answer": [7, 0, 1]},
    {"prompt": [8], "answer": [9]},
]
# Text to go on with, and a prompt without an answer. A vocabulary's numbers need more than 8 bits.
_NO_PROMPT = {"prompt": [], "answer": [200_007, 8]}
_NO_ANSWER = {"prompt": [9, 200_010, 2], "answer": []}
_THREE = [
    {"prompt": [11], "answer": [12, 13, 3, 14, 3]},
    {"prompt": [15, 16, 17, 3], "answer": [18, 3]},
    {"prompt": [19, 20], "answer": [3]},
]

collate = Check(
    reference=collate_reference,
    driver="gradelib.drivers.collate:run",
    public=[
        *part(
            BATCH,
            [
                *(case(_TWO, 0), case(_THREE, 3)),
                *(case([each, *_TWO], 5) for each in (_NO_PROMPT, _NO_ANSWER)),
                case([{"prompt": [4], "answer": [2]}], 1),
            ],
        ),
        *part(BAD_INPUT, [case([], 0), case([*_TWO, {"prompt": [], "answer": []}], 0)]),
    ],
    hidden=_hidden_batches,
    parts={BATCH: 0.9, BAD_INPUT: 0.1},
    misconceptions=[
        Misconception(
            "accepts bad input",
            _collate_anything,
            "The batches are right, but no examples, or one without tokens, are accepted. Raise ValueError.",
        ),
        Misconception(
            "no tensors",
            _collate_but(_in_lists),
            "Your batch holds lists or arrays. A model takes tensors.",
        ),
        Misconception(
            "ids of another type",
            _collate_but(_of_type(torch.float32, "input_ids")),
            "Your `input_ids` are not of type torch.int64. A model looks rows of a table up by them; `torch.zeros` gives "
            "floats unless it is told otherwise.",
        ),
        Misconception(
            "labels of another type",
            _collate_but(_of_type(torch.int32, "labels")),
            "Your `labels` are not of type torch.int64. The loss looks numbers up by them, and takes no other.",
        ),
        Misconception(
            "ids and labels of another type",
            _collate_but(_of_type(torch.float32, "input_ids", "labels", "attention_mask")),
            "Your `input_ids` and `labels` are not of type torch.int64. Numbers are looked up by both; `torch.zeros` gives "
            "floats unless it is told otherwise.",
        ),
        Misconception(
            "empty answer refused",
            lambda examples, pad_id: (
                collate_reference(examples, pad_id)
                if all(example["answer"] for example in examples)
                else collate_reference([], pad_id)
            ),
            "You refuse an example whose answer is empty. Its prompt has tokens: that is enough.",
        ),
        Misconception(
            "empty prompt refused",
            lambda examples, pad_id: (
                collate_reference(examples, pad_id)
                if all(example["prompt"] for example in examples)
                else collate_reference([], pad_id)
            ),
            "You refuse an example whose prompt is empty. Its answer has tokens: that is enough.",
        ),
        Misconception(
            "empty prompt or answer refused",
            lambda examples, pad_id: (
                collate_reference(examples, pad_id)
                if all(example["answer"] and example["prompt"] for example in examples)
                else collate_reference([], pad_id)
            ),
            "You refuse an example whose prompt or answer is empty. One of the two is enough.",
        ),
        Misconception(
            "padded with zeros",
            _collate_but(_padded_with_zeros),
            "You pad with 0. Look at `pad_id`.",
        ),
        Misconception(
            "mask inverted",
            _collate_but(_mask_inverted),
            "Your mask is the wrong way round: it is 1 on text, and 0 on padding.",
        ),
        Misconception(
            "-1 for ignored",
            _collate_but(_minus_one_for_ignored),
            "You mark what is ignored with -1. The loss leaves out another number.",
        ),
        Misconception(
            "labels shifted to the right",
            _collate_but(_shifted_right),
            "Your labels stand one position too far right. A label stands at its own token.",
        ),
        Misconception(
            "labels at the row's start",
            _collate_but(_answer_at_the_start),
            "Your labels begin where the row begins. They belong where the answer stands, after the prompt.",
        ),
        Misconception(
            "mask missing",
            _collate_but(_no_mask),
            "The batch has no `attention_mask`. Without it the model cannot tell padding from text.",
        ),
        Misconception(
            "everything learned",
            _collate_but(_learn_everything),
            "Your labels are the inputs themselves: the loss would be over prompts and padding too.",
        ),
        Misconception(
            "prompt learned",
            _collate_but(_learn_prompts),
            "The loss is over the prompt too. Its labels are to be ignored.",
        ),
        Misconception(
            "prompt learned, answer ignored",
            _collate_but(_learn_prompts_alone),
            "You have the labels the wrong way round: the answer is what is to be learned.",
        ),
        Misconception(
            "padding learned",
            _collate_but(_learn_padding),
            "The model would learn to write padding. Its labels are to be ignored.",
        ),
        Misconception(
            "padding found by its id",
            _collate_but(_mask_and_ignore_pad_ids),
            "You find padding by its id, but a real token may have the same one: many models end a text with it. "
            "Lengths tell what is padding.",
        ),
        Misconception(
            "labels ignored by the pad id",
            _collate_but(_ignore_pad_ids),
            "You ignore every label that is the pad id. A real token may have the same id, and it is to be learned: many "
            "models end a text with it.",
        ),
        Misconception(
            "mask by the pad id",
            _collate_but(_mask_pad_ids),
            "Your mask hides every token that has the pad id. A real token may have it too. Lengths tell what is padding.",
        ),
        Misconception(
            "padding seen",
            _collate_but(_see_padding),
            "Your mask is 1 everywhere. On padding it is 0.",
        ),
        Misconception(
            "prompt hidden",
            _collate_but(_hide_prompts),
            "Your mask hides the prompt. It is left out of the loss, but the model has to read it.",
        ),
        Misconception(
            "0 for ignored",
            _collate_but(_zero_for_ignored),
            "You mark what is ignored with 0. That is a token's id: the loss would be over it.",
        ),
        Misconception(
            "-100 among the ids",
            _collate_but(_ignored_ids),
            "You pad the inputs with the mark for labels. No row of the embedding has that number: pad with `pad_id`.",
        ),
        Misconception(
            "first token of the answer ignored",
            _collate_but(_first_of_answer_ignored),
            "The first token of the answer is ignored. It is what the model writes after the whole prompt.",
        ),
        Misconception(
            "labels shifted",
            _collate_but(_shifted),
            "Your labels are shifted by one. The model shifts them itself: a label stands at its own token.",
        ),
        Misconception(
            "padded on the left",
            _collate_but(_padded_on_the_left),
            "You pad on the left. That is for generating; here the padding comes last.",
        ),
        Misconception(
            "cut to the shortest",
            _collate_but(_cut_to_the_shortest),
            "Your batch is as wide as its shortest example. Nothing is to be cut off.",
        ),
        Misconception(
            "wider than needed",
            _collate_but(_too_wide),
            "You add the longest prompt and the longest answer. They may be of two examples: the longest example decides.",
        ),
    ],
    also_right=[_collate_from_lists, _collate_by_padding, _collate_by_positions],
)


# --- operations of one pass over the data ---------------------------------------------------------


def _two_numbers(shape: Shape) -> tuple[int, int]:
    """Weights that every position passes, and layers · query heads · head_dim."""
    weights = sum(layer.weights for layer in [*linear_layers(shape), head_layer(shape)])
    return weights, shape.layers * shape.heads * shape.head_dim


GEMMA_4B = _two_numbers(Shape.gemma3("4b"))
# The larger of the exercises' tiny Gemmas; a test holds it to the model.
TINY = _two_numbers(
    Shape(
        vocab=259,
        hidden=96,
        intermediate=160,
        layers=6,
        heads=4,
        kv_heads=1,
        head_dim=32,
        tied=True,
        gated=True,
    )
)
# The notebook's 24 texts: in batches of four as they come, and in rows of at most 384 tokens.
PADDED = [[4, 329], [4, 330], [4, 300], [4, 338], [4, 294], [4, 253]]
PACKED = [[4, 383], [4, 383], [1, 371]]


def _hidden_passes(draw: Draw) -> list[Case]:
    def batches(low: int, high: int) -> list[list[int]]:
        rows = [[draw.integer(2, 16), draw.log_integer(low, high)] for _ in range(5)]
        return [*rows, [1, draw.integer(low, high)]]

    cases = []
    for size in draw.some(("270m", "1b", "12b", "27b"), 3):
        shape = Shape.gemma3(size)
        weights = sum(layer.weights for layer in [*linear_layers(shape), head_layer(shape)])
        width = shape.layers * shape.heads * shape.head_dim
        cases += [
            case(batches(*lengths), weights, width) for lengths in ((64, 900), (4000, 30_000))
        ]
    return cases


def _wrong_pass(
    *,
    each: float = 6,
    pairs: Callable[[int, int], float] = lambda rows, width: 12 * rows * width**2,
    positions: Callable[[int, int], float] = lambda rows, width: rows * width,
) -> Callable[..., float]:
    """The sum with its factors changed."""
    return lambda batches, weights, attention_width: sum(
        each * weights * positions(rows, width) + attention_width * pairs(rows, width)
        for rows, width in batches
    )


def _first_batch_alone(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> float:
    return batching.batches_flops(batches[:1], weights, attention_width)


def _swapped(batches: Sequence[Sequence[int]], weights: float, attention_width: float) -> float:
    turned = [[width, rows] for rows, width in batches]
    return batching.batches_flops(turned, weights, attention_width)


def _one_row_of_all(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> float:
    positions = sum(rows * width for rows, width in batches)
    return batching.batches_flops([[1, positions]], weights, attention_width)


def _mean_width(batches: Sequence[Sequence[int]], weights: float, attention_width: float) -> float:
    rows = sum(each for each, _ in batches)
    width = sum(each * width for each, width in batches) / rows
    return rows * width * (6 * weights + 12 * attention_width * width)


def _first_batch_for_all(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> float:
    return len(batches) * batching.batches_flops(batches[:1], weights, attention_width)


def _last_batch_alone(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> float:
    return batching.batches_flops(batches[-1:], weights, attention_width)


def _flops_in_two_sums(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> float:
    forward = 2 * weights * sum(rows * width for rows, width in batches)
    forward += 4 * attention_width * sum(rows * width * width for rows, width in batches)
    return forward * (1 + 2)


def _flops_row_by_row(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> float:
    total = 0.0
    for batch in batches:
        for _ in range(batch[0]):
            for _ in ("forward", "gradient of the input", "gradient of the weights"):
                total += 2.0 * weights * batch[1] + 4.0 * attention_width * batch[1] ** 2
    return total


def _flops_in_tensors(
    batches: Sequence[Sequence[int]], weights: float, attention_width: float
) -> Tensor:
    rows, width = torch.tensor(batches, dtype=torch.float64).unbind(1)
    return 6 * (rows * (weights * width + 2 * attention_width * width.square())).sum()


batches_flops = Check(
    reference=batching.batches_flops,
    public=[
        case([[2, 10], [1, 5]], 1000, 200),
        case(PADDED, *TINY),
        case(PACKED, *TINY),
        case(PADDED, *GEMMA_4B),
        case(PACKED, *GEMMA_4B),
        case([[1, 8192]], *GEMMA_4B),
    ],
    hidden=_hidden_passes,
    tolerance=relative(0.02),
    misconceptions=[
        Misconception(
            "attention left out",
            _wrong_pass(pairs=lambda rows, width: 0),
            "The products of attention without weights are missing: each position meets all positions of its row.",
        ),
        Misconception(
            "forward alone",
            _wrong_pass(each=2, pairs=lambda rows, width: 4 * rows * width**2),
            "That is the forward pass. Training goes back too, and that takes twice as much again.",
        ),
        Misconception(
            "backward as much as forward",
            _wrong_pass(each=4, pairs=lambda rows, width: 8 * rows * width**2),
            "The backward pass takes twice the forward pass, not as much.",
        ),
        Misconception(
            "weights forward alone",
            _wrong_pass(each=2),
            "You count the products with weights forward alone. The backward pass takes twice as much again.",
        ),
        Misconception(
            "weights' multiplications alone",
            _wrong_pass(each=3),
            "With the weights you count the multiplications. Each comes with an addition.",
        ),
        Misconception(
            "attention forward alone",
            _wrong_pass(pairs=lambda rows, width: 4 * rows * width**2),
            "You count attention's products forward alone. They have gradients too, one for each factor.",
        ),
        Misconception(
            "multiplications alone",
            _wrong_pass(each=3, pairs=lambda rows, width: 6 * rows * width**2),
            "You count the multiplications. Each comes with an addition.",
        ),
        Misconception(
            "scores without values",
            _wrong_pass(pairs=lambda rows, width: 6 * rows * width**2),
            "Attention without weights is two products: scores, and then the values added up with them.",
        ),
        Misconception(
            "causal halving assumed",
            _wrong_pass(pairs=lambda rows, width: 6 * rows * width * (width + 1)),
            "You leave out the pairs that the mask hides. Here all pairs of a row count, as kernels without masking "
            "compute them.",
        ),
        Misconception(
            "rows see one another",
            _wrong_pass(pairs=lambda rows, width: 12 * (rows * width) ** 2),
            "You let every position of a batch meet every other. Rows do not see one another.",
        ),
        Misconception(
            "one pair for each position",
            _wrong_pass(pairs=lambda rows, width: 12 * rows * width),
            "Attention grows with the square of the width: each position meets all of its row.",
        ),
        Misconception(
            "rows ignored",
            _wrong_pass(
                pairs=lambda rows, width: 12 * width**2, positions=lambda rows, width: width
            ),
            "That is one row of each batch. Look at how many there are.",
        ),
        Misconception(
            "rows ignored with the weights",
            _wrong_pass(positions=lambda rows, width: width),
            "With the weights you count the positions of one row of each batch. Look at how many rows there are.",
        ),
        Misconception(
            "rows ignored with attention",
            _wrong_pass(pairs=lambda rows, width: 12 * width**2),
            "You count the pairs of one row of each batch. Look at how many rows there are.",
        ),
        Misconception(
            "rows and width swapped",
            _swapped,
            "You read a batch the other way round: it is rows first, then their width.",
        ),
        Misconception(
            "all in one row",
            _one_row_of_all,
            "You let every position meet every other of all batches. Rows do not see one another.",
        ),
        Misconception(
            "mean width",
            _mean_width,
            "You take a mean width. The pairs grow with its square, and a mean of squares is more than the square of the "
            "mean: go batch by batch.",
        ),
        Misconception(
            "first batch alone",
            _first_batch_alone,
            "That is the first batch. Add up over all of them.",
        ),
        Misconception(
            "first batch for all",
            _first_batch_for_all,
            "You multiply the first batch by the number of batches. Each has its own size.",
        ),
        Misconception(
            "last batch alone",
            _last_batch_alone,
            "That is the last batch. Add up over all of them.",
        ),
        Misconception(
            "in TFLOPs",
            lambda batches, weights, attention_width: (
                batching.batches_flops(batches, weights, attention_width) / 1e12
            ),
            "Return the operations themselves, not TFLOPs.",
        ),
    ],
    also_right=[_flops_in_two_sums, _flops_row_by_row, _flops_in_tensors],
)
