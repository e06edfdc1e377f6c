"""Answer processes: learner code that cannot harm, see or fool the judge.

`THREATS.md` says what is defended against whom, and what is not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from gradelib.grading.work import NAMES, Isolation, IsolationError, Limits, Work

_INSTALL = (
    "To run learner code apart from everything else, install bubblewrap (Debian, Ubuntu: `apt install bubblewrap`; "
    "Fedora: `dnf install bubblewrap`), or podman or docker (macOS). To run it without any isolation, which "
    "lets it read and change your files, ask for `none` by name. A course chooses in its course.toml: "
    '`isolation = "none"`.'
)
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_PROFILE = " This kernel's AppArmor refuses user namespaces: load the profile for bubblewrap, as THREATS.md says, or grade as root."
__all__ = ["NAMES", "choose"]


def choose(
    name: str | None, preload: tuple[str, ...], limits: Limits, hide: tuple[str, ...], image: str
) -> Isolation:
    """The isolation of that name, or the best that works here; see `work.isolation`."""
    if name is not None and name not in NAMES:
        raise ValueError(f"isolation {name!r} is not one of {', '.join(NAMES)}")
    if sys.platform == "win32":
        raise IsolationError(
            "answers cannot be run on Windows itself: grade in WSL, which is a Linux"
        )
    # Not before: they import what Windows lacks.
    from gradelib.grading.sandbox.places import Bubblewrap, Unisolated
    from gradelib.grading.sandbox.server import Options
    from gradelib.grading.sandbox.single import BubblewrapEach, Container

    options = Options(preload, limits, hide)
    makers: dict[str, list[Callable[[], Isolation]]] = {
        "bubblewrap": [lambda: Bubblewrap(options), lambda: BubblewrapEach(options)],
        "podman": [lambda: Container("podman", options, image)],
        "docker": [lambda: Container("docker", options, image)],
        "none": [lambda: Unisolated(options)],
    }
    reasons = []
    for each in NAMES[:-1] if name is None else [name]:
        for make in makers[each]:
            place = make()
            try:
                with place.open(Work((), (), {})):
                    return place
            except IsolationError as error:
                place.close()
                named = str(error).startswith(f"{each} ")
                reasons.append(str(error) if named else f"{place.name}: {error}")
    restricted = _APPARMOR.is_file() and _APPARMOR.read_text(encoding="ascii").strip() == "1"
    said = "; ".join(dict.fromkeys(reasons)).rstrip(".")
    raise IsolationError(f"{said}. {_INSTALL}{_PROFILE if restricted else ''}")
