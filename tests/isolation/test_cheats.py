"""No cheating submission gains a mark, sees a secret or harms the next one."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gradelib
from gradelib.checks import PreparedCheck
from gradelib.grading.work import Isolation, Work, isolation
from gradelib.judging import judge
from tests.conftest import need_command
from tests.isolation.cheats import CHEATS, HELP, SIBLING, SOUND
from tests.isolation.conftest import HONEST, LIMITS, TOKEN, Grade

pytestmark = pytest.mark.sandbox

# Follows the secret wherever it lies, so that a cheat knows it when it sees it.
MARK = f"#end-of-treasure-{os.getpid()}"
NAME = f"one-gpu-treasure-{os.getpid()}"


@pytest.fixture(scope="module")
def fill_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Put the secret everywhere around the judge; the function tells a cheat where."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("gradebook.db", NAME):
        (folder / name).write_text(TOKEN + MARK, encoding="ascii")
    in_home, shared = Path.home() / f".{NAME}", Path("/dev/shm", NAME)
    os.environ["ONE_GPU_TREASURE"] = TOKEN + MARK
    before = Path.cwd()
    os.chdir(folder)
    servers = [socket.create_server(("127.0.0.1", 0))]
    servers += [socket.socket(socket.AF_UNIX) for _ in range(2)]
    servers[1].bind(f"\0{NAME}")
    servers[2].bind("socket")
    for server in servers:
        server.listen()
        threading.Thread(target=_offer, args=(server,), daemon=True).start()
    places = {
        "FOLDER": str(folder),
        "CHECKOUT": str(Path(gradelib.__file__).parents[1]),
        "HOME": str(Path.home()),
        "NAME": NAME,
        "MARK": MARK,
        "PORT": str(servers[0].getsockname()[1]),
        "SECRET": TOKEN,
    }
    try:
        for path in (in_home, shared):
            path.write_text(TOKEN + MARK, encoding="ascii")
        yield lambda source: re.sub("@([A-Z]+)@", lambda found: places[found[1]], source)
    finally:
        os.chdir(before)
        del os.environ["ONE_GPU_TREASURE"]
        for path in (in_home, shared, Path("/tmp", NAME)):
            path.unlink(missing_ok=True)
        for server in servers:
            server.close()


def _offer(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.send(TOKEN.encode())


@contextmanager
def _among_secrets(
    name: str, fill_in: Callable[[str], str], checks: dict[str, PreparedCheck]
) -> Iterator[Isolation]:
    """A place whose server started among the secrets, while a submission of somebody who has them
    is open."""
    place = isolation(name, limits=LIMITS)
    try:
        with place.open(Work((), (), {"treasure": (fill_in(SIBLING),)})) as loaded:
            # It can do what the cheats try: otherwise they would fail for want of a treasure.
            assert judge(loaded["treasure"], checks["treasure"]).score == 1
            yield place
    finally:
        place.close()


@pytest.fixture(scope="module")
def apart(fill_in: Callable[[str], str], checks: dict[str, PreparedCheck]) -> Iterator[Isolation]:
    """Bubblewrap."""
    need_command("bwrap", "apt-get install bubblewrap")
    with _among_secrets("bubblewrap", fill_in, checks) as place:
        yield place


@pytest.fixture(scope="module")
def not_apart(
    fill_in: Callable[[str], str], checks: dict[str, PreparedCheck]
) -> Iterator[Isolation]:
    """No isolation."""
    with _among_secrets("none", fill_in, checks) as place:
        yield place


def test_there_are_enough_cheats() -> None:
    assert len(CHEATS) >= 40


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_gains_nothing(
    grade: Grade, apart: Isolation, fill_in: Callable[[str], str], name: str
) -> None:
    cells = {"treasure": fill_in(CHEATS[name] + HELP), "double": "def double(x):\n    return 0"}
    verdicts = grade(cells, place=apart)
    assert {task: verdict.score for task, verdict in verdicts.items()} == {
        "treasure": 0,
        "double": 0,
    }
    for verdict in verdicts.values():
        assert TOKEN not in repr(verdict.to_data())
    after = grade(HONEST, place=apart)
    assert all(verdict.score == 1 for verdict in after.values()), after


@pytest.mark.parametrize("name", SOUND)
def test_the_cheat_would_work_without_isolation(
    grade: Grade, not_apart: Isolation, fill_in: Callable[[str], str], name: str
) -> None:
    verdicts = grade({"treasure": fill_in(CHEATS[name] + HELP)}, place=not_apart)
    assert verdicts["treasure"].score == 1, verdicts["treasure"].message


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_sound_python(fill_in: Callable[[str], str], name: str) -> None:
    compile(fill_in(CHEATS[name] + HELP), name, "exec")
