"""Answer processes: learner code that cannot harm, see or fool the judge.

`THREATS.md` says what is defended against whom, and what is not.
"""

from __future__ import annotations

from gradelib.grading.sandbox.places import Bubblewrap, Unisolated
from gradelib.grading.work import Isolation, IsolationError, Limits, Work

_INSTALL = (
    "To run learner code apart from everything else, install bubblewrap (Debian, Ubuntu: `apt install bubblewrap`; "
    "Fedora: `dnf install bubblewrap`), or podman or docker (macOS, Windows). To run it without any isolation, which "
    "lets it read and change your files, ask for `none` by name."
)
_PLACES = {"bubblewrap": Bubblewrap, "none": Unisolated}


def choose(name: str | None, preload: tuple[str, ...], limits: Limits) -> Isolation:
    """The isolation of that name, or the best that works here; see `work.isolation`."""
    if name is not None and name not in _PLACES:
        raise ValueError(f"isolation {name!r} is not one of {', '.join(_PLACES)}")
    reasons = []
    for each in [name] if name is not None else [known for known in _PLACES if known != "none"]:
        place = _PLACES[each](preload, limits)
        try:
            with place.open(Work((), (), {})):
                return place
        except IsolationError as error:
            place.close()
            reasons.append(f"{each}: {error}")
    raise IsolationError(f"{'; '.join(reasons)}. {_INSTALL}")
