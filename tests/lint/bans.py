"""The tables of the seam lint: what is refused, what to use instead, and who is exempt."""

from __future__ import annotations

from typing import Final, NamedTuple

CLOCK: Final = "clock"
TASKS: Final = "tasks"
JOBS: Final = "jobs"
NETWORK: Final = "network"
FILES: Final = "files"
CHANCE: Final = "chance"
ORDER: Final = "order"

INSTEAD: Final = {
    CLOCK: "ask the Clock that was handed in",
    TASKS: "use the Tasks that were handed in",
    JOBS: "hand long work to the Jobs that were handed in",
    NETWORK: "use the Network that was handed in",
    FILES: "use the FileSystem that was handed in",
    CHANCE: "use the random.Random that was handed in",
    ORDER: "a set has no order to rely on: sort it, or keep a dict",
}


_PURE_OS: Final = (
    *("os.PathLike", "os.fspath", "os.fsencode", "os.fsdecode", "os.sep", "os.strerror"),
    *("os.path.basename", "os.path.commonpath", "os.path.dirname", "os.path.isabs"),
    *("os.path.join", "os.path.normpath", "os.path.split", "os.path.splitext"),
)

BANNED: Final[dict[str, str | None]] = {
    "time": CLOCK,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "asyncio.sleep": TASKS,
    "asyncio.timeout": TASKS,
    "asyncio.timeout_at": TASKS,
    "asyncio.wait_for": TASKS,
    "asyncio.create_task": TASKS,
    "asyncio.ensure_future": TASKS,
    "asyncio.TaskGroup": TASKS,
    "asyncio.get_event_loop": TASKS,
    "asyncio.get_running_loop": TASKS,
    "asyncio.new_event_loop": TASKS,
    "asyncio.run": TASKS,
    "asyncio.Runner": TASKS,
    "uvloop": TASKS,
    "asyncio.to_thread": JOBS,
    "asyncio.create_subprocess_exec": JOBS,
    "asyncio.create_subprocess_shell": JOBS,
    "concurrent": JOBS,
    "multiprocessing": JOBS,
    "queue": JOBS,
    "subprocess": JOBS,
    "threading": JOBS,
    "_thread": JOBS,
    "asyncio.open_connection": NETWORK,
    "asyncio.open_unix_connection": NETWORK,
    "asyncio.start_server": NETWORK,
    "asyncio.start_unix_server": NETWORK,
    "select": NETWORK,
    "selectors": NETWORK,
    "socket": NETWORK,
    "socketserver": NETWORK,
    "open": FILES,
    "io.open": FILES,
    "io.FileIO": FILES,
    "codecs.open": FILES,
    "bz2.open": FILES,
    "gzip.open": FILES,
    "lzma.open": FILES,
    "fcntl": FILES,
    "glob": FILES,
    "mmap": FILES,
    "os": FILES,
    "pathlib.Path": FILES,
    "pathlib.PosixPath": FILES,
    "shutil": FILES,
    "tempfile": FILES,
    "os.urandom": CHANCE,
    "random": CHANCE,
    "secrets": CHANCE,
    "uuid.getnode": CHANCE,
    "uuid.uuid1": CHANCE,
    "uuid.uuid4": CHANCE,
    "uuid.uuid6": CHANCE,
    "uuid.uuid7": CHANCE,
    "uuid.uuid8": CHANCE,
    # None: allowed below a name that is not
    "random.Random": None,
    **dict.fromkeys(_PURE_OS),
}
"""Full name -> rule. Stands for all names below it too; the longest that fits decides."""

BANNED_METHODS: Final = {
    "create_task": TASKS,
    "ensure_future": TASKS,
    "run_in_executor": JOBS,
    "create_connection": NETWORK,
    "create_datagram_endpoint": NETWORK,
    "create_server": NETWORK,
    "create_unix_connection": NETWORK,
    "create_unix_server": NETWORK,
}
"""Methods of an event loop that nothing else has: refused on any object."""

BANNED_LOOP_METHODS: Final = {
    "call_at": TASKS,
    "call_later": TASKS,
    "call_soon": TASKS,
    "call_soon_threadsafe": TASKS,
    "create_future": TASKS,
    "time": CLOCK,
}
"""Refused only on something that is called a loop: `Tasks` has methods of these names too."""


def rule_of(name: str) -> str | None:
    """The rule that forbids the full `name`, if one does."""
    while name not in BANNED:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return BANNED[name]


def has_allowed_parts(name: str) -> bool:
    """Whether something below the full `name` is allowed though `name` is not."""
    return any(rule is None and full.startswith(name + ".") for full, rule in BANNED.items())


class Exemption(NamedTuple):
    """A module that may do what `rules` forbid."""

    path: str
    rules: tuple[str, ...]
    reason: str


EXEMPTIONS: Final = (
    Exemption("log/fs.py", (FILES,), "is the seam to the disk"),
    Exemption("server/runtime/clock.py", (CLOCK,), "is the seam to time"),
    Exemption(
        "server/runtime/clock.py", (FILES,), "asks /proc when the process began, for the ready line"
    ),
    Exemption("server/runtime/tasks.py", (TASKS,), "is the seam to the event loop"),
    Exemption("server/runtime/jobs.py", (JOBS,), "is the seam to threads"),
    Exemption(
        "server/runtime/processes.py", (JOBS, TASKS), "is the seam to processes, each with a thread"
    ),
    Exemption(
        "server/runtime/processes.py", (FILES,), "tells a process where it finds the modules"
    ),
    Exemption(
        "server/runtime/process_worker.py", (JOBS, CLOCK, FILES), "is the process at the other end"
    ),
    Exemption("wire/frame.py", (FILES,), "has memory mapped, which is no file"),
    Exemption(
        "wire/codec/private_copy.py", (JOBS,), "has a lock: brokers in threads share what it makes"
    ),
    Exemption("server/runtime/sockets.py", (NETWORK,), "is the seam to sockets"),
    Exemption(
        "server/runtime/sockets.py", (TASKS,), "sets up what it accepts on the loop it was given"
    ),
    Exemption("server/host.py", (TASKS,), "finds the event loop that it hands to the seams"),
    Exemption("server/host.py", (CHANCE,), "seeds the source of chance that it hands out"),
    Exemption(
        "server/zookeeper_session.py",
        (TASKS, CHANCE),
        "finds the event loop, and seeds the source of chance, for a tool",
    ),
    Exemption("src/kavka/testing/thread.py", (TASKS, JOBS), "runs a broker's loop in a thread"),
    Exemption("src/kavka/testing/places.py", (FILES,), "makes a test's temporary directory"),
    Exemption("src/kavka/testing/places.py", (TASKS,), "binds a test's ports on the running loop"),
    Exemption("src/kavka/testing/async_cluster.py", (TASKS,), "waits on the caller's loop"),
    Exemption("src/kavka/testing/dev.py", (TASKS,), "runs the process's event loop"),
    Exemption("server/main.py", (TASKS,), "runs the process's event loop"),
    Exemption("server/main.py", (FILES,), "reads server.properties and the environment"),
)
