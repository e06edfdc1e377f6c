"""Grade a class with otter-grader without containers: `otter run` on each submission, several at a time.

Run by the Python that has otter: `otter_class.py AUTOGRADER_ZIP SUBMITTED EXERCISE JOBS MARKS_JSON`. Alone it
makes nothing and knows nothing of this project.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from functools import partial
from pathlib import Path


def graded(autograder: str, submission: str) -> dict[str, float]:
    """The marks of one submission, by test."""
    from otter.api import grade_submission

    results = grade_submission(submission, autograder, quiet=True)
    if results.catastrophic_error is not None:
        raise SystemExit(f"otter could not grade {submission}: {results.catastrophic_error}")
    return {name: float(results.get_score(name)) for name in results.test_files}


def main(autograder: str, submitted: str, exercise: str, jobs: str, marks: str) -> None:
    """Grade everyone and write the marks."""
    paths = sorted(Path(submitted).glob(f"*/{exercise}/{exercise}.ipynb"))
    with multiprocessing.get_context("spawn").Pool(int(jobs)) as pool:
        found = pool.map(partial(graded, autograder), map(str, paths), chunksize=1)
    students = [path.parts[-3] for path in paths]
    Path(marks).write_text(json.dumps(dict(zip(students, found, strict=True))))


if __name__ == "__main__":
    main(*sys.argv[1:])
