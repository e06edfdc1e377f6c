"""Where learner code runs: chosen openly, as root and as an ordinary user, and ended for good."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import gradelib
from gradelib.checks import Check, PreparedCheck, case
from gradelib.grading.sandbox import server
from gradelib.grading.sandbox.places import Bubblewrap
from gradelib.grading.sandbox.single import BubblewrapEach
from gradelib.grading.work import Isolation, IsolationError, Limits, Work, isolation
from gradelib.judging import Answer, judge
from gradelib.outcomes import Kind
from gradelib.verdicts import Status
from tests.conftest import need, need_command
from tests.isolation.conftest import HONEST, LIMITS

CHECKOUT = Path(gradelib.__file__).resolve().parents[1]
# A judge of its own: grades one right and one endless answer, and prints where and how.
JUDGE = """
import sys
from dataclasses import replace
from gradelib.checks import Check, case
from gradelib.grading.work import Limits, Work, isolation
from gradelib.judging import judge
check = Check(lambda x: 2 * x, [case(3)], lambda draw: [case(draw.integer(4, 9))]).prepare("f", "s")
check = replace(check, seconds=1.0)
cells = {"f": ("def f(x): return 2 * x",), "g": ("def g(x):\\n while True: pass",)}
cells["user"] = ("import os\\ndef user(x): return str((os.getuid(), os.getgroups()))",)
place = isolation(limits=Limits(memory_bytes=2**28))
with place.open(Work((), (), cells)) as loaded:
    found = [str(judge(loaded[task], check).status) for task in ("f", "g")]
    print(place.name, *found, loaded["user"].call(check.cases[0], check).value, sep="; ")
place.close()
"""


def run_judge(prefix: list[str], python: str = sys.executable) -> str:
    """The output of `JUDGE`, run by a command."""
    done = subprocess.run(
        [*prefix, python, "-c", JUDGE],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def value(answer: Answer, check: PreparedCheck) -> object:
    """What an answer gives for a check's first case."""
    return answer.call(check.cases[0], check).value


@pytest.fixture
def no_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which no command is installed; the folder where one can be."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.sandbox
@pytest.mark.parametrize("kind", [Bubblewrap, BubblewrapEach])
def test_packages_are_seen_wherever_the_environment_lies(
    kind: type[Bubblewrap | BubblewrapEach], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_command("bwrap", "apt install bubblewrap")
    # pytest's folder is in /tmp, which is another folder for an answer.
    assert tmp_path.is_relative_to("/tmp")
    packages = tmp_path / "site-packages"
    for name in ("seen_here", "hidden_here"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("VALUE = 5\n")
    (packages / "checkout.pth").write_text(f"{tmp_path}\n")
    (tmp_path / "its_module.py").write_text("VALUE = 6\n")
    monkeypatch.syspath_prepend(str(packages))
    place = kind(server.Options((), Limits(), ("hidden_here",)))
    answers = {
        "seen": ("import seen_here\ndef seen(x): return seen_here.VALUE",),
        "hidden": ("import hidden_here\ndef hidden(x): return hidden_here.VALUE",),
        "beside": ("import its_module\ndef beside(x): return its_module.VALUE",),
    }
    check = Check(lambda _x: 5, [case(1)], lambda _draw: []).prepare("seen", "s")
    with contextlib.closing(place), place.open(Work((), (), answers)) as loaded:
        found = {task: loaded[task].call(check.cases[0], check) for task in answers}
    assert found["seen"].value == 5
    assert "AttributeError" in found["hidden"].errors  # an empty folder
    assert "ModuleNotFoundError" in found["beside"].errors


def command(folder: Path, name: str, script: str) -> None:
    """Install a command."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def test_an_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="bubblewrap, podman, docker, none"):
        isolation("chroot")


@pytest.mark.usefixtures("no_commands")
@pytest.mark.parametrize("name", [None, "bubblewrap", "podman", "docker"])
def test_what_is_missing_is_said_and_never_done_without(name: str | None) -> None:
    with pytest.raises(IsolationError) as caught:
        isolation(name)
    message = str(caught.value)
    assert f"{name or 'bubblewrap'} is not installed" in message
    assert message.count("is not installed") == (3 if name is None else 1)
    assert message.count("apt install bubblewrap") == 1
    assert 'course.toml: `isolation = "none"`' in message
    assert "ask for `none` by name" in message


def test_a_kernel_that_refuses_is_quoted(no_commands: Path) -> None:
    refusal = "bwrap: No permissions to create new namespace"
    command(no_commands, "bwrap", f"echo '{refusal}' >&2; exit 1")
    with pytest.raises(IsolationError, match=refusal):
        isolation("bubblewrap")


@pytest.mark.sandbox
def test_the_best_that_works_is_chosen(bubblewrap: Isolation) -> None:
    assert bubblewrap.name == "bubblewrap"
    assert bubblewrap.warning is None


def test_none_works_by_name_and_warns(checks: dict[str, PreparedCheck]) -> None:
    place = isolation("none", limits=LIMITS)
    assert place.warning is not None
    assert "without isolation" in place.warning
    cells = {"double": (HONEST["double"],), "area": ("def area(w, h):\n    while True: pass",)}
    with place.open(Work((), (), cells)) as loaded:
        assert judge(loaded["area"], checks["area"]).status is Status.TIMED_OUT
        assert judge(loaded["double"], checks["double"]).score == 1
    place.close()


@pytest.mark.sandbox
def test_an_ordinary_user_can_grade() -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    if os.getuid() != 0:
        output = run_judge([])
    else:
        readable = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        need("a Python that any user can run", readable is not None, "apt-get install python3")
        assert readable is not None
        user = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
        output = run_judge(user, readable)
    assert output.startswith("bubblewrap; correct; timed out"), output


@pytest.mark.sandbox
@pytest.mark.skipif(os.getuid() != 0, reason="for root alone; the test before this one is for you")
def test_root_can_grade_and_learner_code_is_not_root() -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    output = run_judge([])
    assert output.startswith("bubblewrap; correct; timed out"), output
    user, groups = output.rpartition("; ")[2].strip("()").split(", ", 1)
    assert int(user) > 65_535
    assert groups == "[]"


@pytest.mark.sandbox
def test_where_inner_namespaces_are_refused_each_submission_gets_its_own_bubblewrap() -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    no_more = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    output = run_judge(["unshare", "-Ur", "sh", "-c", no_more, "sh"])
    assert output.startswith("bubblewrap, started anew for each submission; correct; timed out"), (
        output
    )


@pytest.fixture
def unique() -> Iterator[str]:
    """A command-line argument that no other process has."""
    return f"31536000.{os.getpid()}{time.monotonic_ns()}"


def running(argument: str) -> list[str]:
    """The processes of this machine with that argument, other than this one's children's tests."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:1] == [b"sleep"] and argument.encode() in words:
            found.append(path.parent.name)
    return found


def eventually(condition: object, seconds: float = 10.0) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


STAYS = """
import os, subprocess
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/usr/bin/sleep", ["sleep", "UNIQUE"])
        os._exit(0)
def double(x):
    while True: pass
"""


@pytest.mark.sandbox
def test_nothing_of_a_submission_stays(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck], unique: str
) -> None:
    work = Work((), (), {"double": (STAYS.replace("UNIQUE", unique),)})
    with bubblewrap.open(work) as loaded:
        assert eventually(lambda: len(running(unique)) == 2)
        assert judge(loaded["double"], checks["double"]).status is Status.TIMED_OUT
        assert eventually(lambda: not running(unique))
    with bubblewrap.open(work):
        assert eventually(lambda: len(running(unique)) == 2)
    assert eventually(lambda: not running(unique))


@pytest.mark.sandbox
@pytest.mark.parametrize("stop", ["kill", "close"])
def test_nothing_stays_when_the_judge_ends(unique: str, stop: str) -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    program = (
        "import sys, time\nfrom gradelib.grading.work import Work, isolation\n"
        "place = isolation()\nwork = Work((), (), {'double': (sys.argv[1],)})\n"
        "with place.open(work):\n    print('open', flush=True)\n    sys.stdin.read()\nplace.close()\n"
    )
    judge_process = subprocess.Popen(
        [sys.executable, "-c", program, STAYS.replace("UNIQUE", unique)],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with judge_process:
        assert judge_process.stdout is not None
        assert judge_process.stdin is not None
        judge_process.stdout.readline()
        assert eventually(lambda: len(running(unique)) == 2)
        if stop == "kill":
            judge_process.kill()
        else:
            judge_process.stdin.close()
        judge_process.wait(30)
    assert eventually(lambda: not running(unique))


@pytest.mark.sandbox
def test_a_whole_submission_ends_in_time(checks: dict[str, PreparedCheck]) -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    place = isolation("bubblewrap", limits=replace(LIMITS, total_seconds=3.0))
    endless = {f"task{n}": (f"def task{n}(x):\n    while True: pass",) for n in range(8)}
    begun = time.monotonic()
    with place.open(Work((), (), {**endless, "double": (HONEST["double"],)})) as loaded:
        verdicts = [judge(loaded[task], checks["double"]) for task in endless]
        last = loaded["double"].call(checks["double"].cases[0], checks["double"])
    assert time.monotonic() - begun < 6
    assert {verdict.status for verdict in verdicts} == {Status.TIMED_OUT}
    assert last.kind is Kind.TIMED_OUT
    assert last.detail == "the whole submission took 3 s"
    place.close()


@pytest.mark.sandbox
def test_one_server_serves_many_threads(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    def graded(number: int) -> float:
        source = HONEST["double"] if number % 2 else "import os\nos._exit(1)"
        with bubblewrap.open(Work((), (), {"double": (source,)})) as loaded:
            return judge(loaded["double"], checks["double"]).score

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(graded, range(24))) == [0, 1] * 12


@pytest.mark.sandbox
def test_a_copy_in_another_process_starts_its_own_server(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    copy: Isolation = pickle.loads(pickle.dumps(bubblewrap))
    with copy.open(Work((), (), {"double": (HONEST["double"],)})) as loaded:
        assert judge(loaded["double"], checks["double"]).score == 1
    copy.close()


@pytest.mark.sandbox
def test_a_server_that_was_closed_starts_again(checks: dict[str, PreparedCheck]) -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    place = isolation("bubblewrap", limits=LIMITS)
    for _ in range(2):
        with place.open(Work((), (), {"double": (HONEST["double"],)})) as loaded:
            assert judge(loaded["double"], checks["double"]).score == 1
        place.close()


@pytest.mark.sandbox
def test_setup_files_and_helpers_are_there(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    work = Work(
        ("import json\nDATA = json.load(open('data/2024/grid.json'))", "1 / 0\nLATER = 1"),
        ("def half(x):\n    return x / 2",),
        {"double": ("def double(x):\n    return half(x) * DATA['factor'] * LATER",)},
        files={"data/2024/grid.json": json.dumps({"factor": 4}).encode()},
    )
    with bubblewrap.open(work) as loaded:
        assert judge(loaded["double"], checks["double"]).score == 1


@pytest.mark.sandbox
def test_preloaded_modules_are_there_and_hidden_packages_are_not(
    checks: dict[str, PreparedCheck],
) -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    place = isolation("bubblewrap", preload=("decimal",), limits=LIMITS, hide=("numpy",))
    source = (
        "import sys\nthere = 'decimal' in sys.modules\nimport numpy\n"
        "def double(x):\n    return [there, hasattr(numpy, 'array')]"
    )
    with place.open(Work((), (), {"double": (source,)})) as loaded:
        assert value(loaded["double"], checks["double"]) == [True, False]
    place.close()


@pytest.mark.sandbox
def test_learner_code_sees_nothing_of_the_machine(
    bubblewrap: Isolation, checks: dict[str, PreparedCheck]
) -> None:
    source = """
import os, socket
def double(x):
    return {
        "environment": sorted(os.environ), "scratch": os.listdir("."), "parent": os.getppid(),
        "me": os.getpid(), "host": socket.gethostname(), "proc": sorted(os.listdir("/proc")),
        "root": sorted(os.listdir("/")), "gradelib": os.listdir("/opt/one-gpu"),
        "links": [name for _, name in socket.if_nameindex()],
    }
"""
    with bubblewrap.open(Work((), (), {"double": (source,)})) as loaded:
        seen = value(loaded["double"], checks["double"])
    assert isinstance(seen, dict)
    assert seen["scratch"] == []
    assert (seen["parent"], seen["me"], seen["host"]) == (0, 1, "sandbox")
    assert seen["proc"] == ["cpuinfo", "meminfo", "stat", "version"]
    assert seen["links"] == ["lo"]
    # The environment's packages too, where something is mounted over their own place.
    assert set(seen["gradelib"]) <= {"gradelib", "packages"}
    assert not {"home", "mnt", "srv", "var", "sys", "run"} & set(seen["root"])
    assert not {name for name in seen["environment"] if name.startswith(("PYTEST", "ONE_GPU"))}


def test_a_server_with_threads_is_not_forked() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="cannot be forked"):
            server._prepare(server.Options(), server.Apart.NOT)
    finally:
        stop.set()
        thread.join()


def test_a_container_is_asked_for_everything_that_keeps_code_apart(
    no_commands: Path, checks: dict[str, PreparedCheck]
) -> None:
    # A stand-in that notes its arguments and runs the command outside any container.
    log, outside = no_commands / "log", f'PATH=/usr/bin:/bin; echo "$*" >> {no_commands}/log'
    script = f"""{outside}
[ "$1" = run ] || exit 0
while [ "$1" != some/image ]; do shift; done
shift 2
exec {sys.executable} "$@"
"""
    command(no_commands, "podman", script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradelib.grading.sandbox.single.INSIDE", str(CHECKOUT / "gradelib"))
        place = isolation("podman", limits=Limits(memory_bytes=2**28), image="some/image")
        with place.open(Work((), (), {"double": (HONEST["double"],)})) as loaded:
            assert judge(loaded["double"], checks["double"]).score == 1
    asked = next(line for line in log.read_text(encoding="utf-8").splitlines() if "run" in line)
    for option in (
        "--network none", "--read-only", "--cap-drop ALL", "--user 65534:65534", "--pids-limit 72",
        "--security-opt no-new-privileges", f"--memory {2**28 + 2**30}", "--rm",
    ):  # fmt: skip
        assert option in asked
    assert str(CHECKOUT / "solutions") not in asked


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_busy_machine_costs_nobody_a_mark(checks: dict[str, PreparedCheck]) -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    # Half of the call's limit, if the processor were its own; it is not.
    source = """
import time
def double(x):
    while time.process_time() < 0.5: pass
    return 2 * x
"""
    place = isolation("bubblewrap", limits=replace(LIMITS, load_seconds=10.0))
    check = replace(checks["double"], seconds=1.0)
    hogs = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(4 * (os.cpu_count() or 1))
    ]
    try:
        with place.open(Work((), (), {"double": (source,)})) as loaded:
            assert judge(loaded["double"], check).score == 1
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
        place.close()


@pytest.mark.sandbox
def test_a_server_that_was_killed_is_started_again(checks: dict[str, PreparedCheck]) -> None:
    need_command("bwrap", "apt-get install bubblewrap")
    place = isolation("bubblewrap", limits=LIMITS)
    assert isinstance(place, Bubblewrap)
    assert place._server is not None
    place._server.kill()
    place._server.wait()
    with place.open(Work((), (), {"double": (HONEST["double"],)})) as loaded:
        assert judge(loaded["double"], checks["double"]).score == 1
    place.close()


@pytest.mark.parametrize(
    ("system", "name", "said"),
    [
        ("darwin", "bubblewrap", "bubblewrap is for Linux"),
        ("win32", "podman", "grade in WSL"),
        ("win32", None, "grade in WSL"),
    ],
)
def test_another_system_is_told_what_to_do(system: str, name: str | None, said: str) -> None:
    # Modules that Windows lacks must not be needed to say so.
    lacking = "sys.modules.update(fcntl=None, resource=None)" if system == "win32" else ""
    program = (
        f"import sys; sys.platform = {system!r}; {lacking}\n"
        "from gradelib.grading.work import IsolationError, isolation\n"
        f"try: isolation({name!r})\nexcept IsolationError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in done.stdout, done.stderr
