"""What the book prints from `book/data` has a source beside it, and fits together."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
TABLES = sorted((BOOK / "data").glob("*.csv"))
BIBLIOGRAPHY = set(
    re.findall(r"^@\w+\{([^,]+),", (BOOK / "references.bib").read_text(encoding="utf-8"), re.M)
)


def rows(name: str) -> list[dict[str, str]]:
    with (BOOK / "data" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_a_table_says_where_it_comes_from(table: Path) -> None:
    beside = table.with_suffix(".json")
    if beside.is_file():
        assert len(json.loads(beside.read_text(encoding="utf-8"))) >= 3
    else:
        assert {row["source"] for row in rows(table.name)} <= BIBLIOGRAPHY


def test_every_score_names_a_source_and_a_known_benchmark() -> None:
    about = json.loads((BOOK / "data/gemma_scores.json").read_text(encoding="utf-8"))
    benchmarks = {row["benchmark"] for row in rows("benchmarks.csv")}
    scores = rows("gemma_scores.csv")
    assert {row["source"] for row in scores} <= about.keys()
    assert {row["benchmark"] for row in scores} == benchmarks


def test_no_score_stands_twice_or_outside_0_to_100() -> None:
    scores = rows("gemma_scores.csv")
    assert len({(row["model"], row["variant"], row["benchmark"]) for row in scores}) == len(scores)
    assert all(0 <= float(row["score"]) <= 100 and int(row["shots"]) >= 0 for row in scores)


def test_a_larger_gemma_3_has_no_lower_score_on_one_benchmark() -> None:
    order = ("gemma3-270m", "gemma3-1b", "gemma3-4b", "gemma3-12b", "gemma3-27b")
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows("gemma_scores.csv"):
        found.setdefault((row["variant"], row["benchmark"]), {})[row["model"]] = float(row["score"])
    for by_model in found.values():
        ladder = [by_model[model] for model in order if model in by_model]
        assert ladder == sorted(ladder)
