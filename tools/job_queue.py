"""Run long jobs in the order of a list, a few at a time, each on one core and at the lowest priority.

`python -m tools.job_queue run|status|pause|resume FOLDER [--lanes N]`; FOLDER/jobs.toml has for each job

    [[job]]
    name = "wsm seed 1"
    command = ["eunoe", "run", "wsm.toml"]  # or a line for the shell
    folder = "/where/it/runs"
    core_hours = 1.5                        # estimated

FOLDER/state.json has the state of each job, FOLDER/logs its output. A job is done once it has ended with exit
code 0; a job that fails is tried once more. However the queue ends, also by kill -9, `run` continues it: what
was running is started again, so a command must itself continue where it stopped.
"""

import argparse
import fcntl
import json
import os
import signal
import sys
import time
import tomllib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen

LANES, TRIES, LOOK_SECONDS = 2, 2, 1.0
THREADS = ("OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")


@dataclass(frozen=True)
class Job:
    name: str
    command: list[str] | str
    folder: str
    core_hours: float


@dataclass
class JobStatus:
    """State of a job, core-hours of its earlier starts, and its process group's leader and start time."""

    state: str = "waiting"
    failures: int = 0
    core_hours: float = 0.0
    pid: int = 0
    born: str = ""

    @property
    def alive(self) -> bool:
        seen = stat(self.pid)
        return self.state == "running" and self.born == seen[19] and seen[0] != "Z"


class Queue:
    """The jobs of a folder and their states."""

    def __init__(self, folder: Path, lanes: int = LANES) -> None:
        self.lanes = lanes
        self.folder, self.state = folder, folder / "state.json"
        self.paused, self.runner = folder / "paused", folder / "runner"
        path = folder / "jobs.toml"
        try:
            self.jobs = [Job(**values) for values in tomllib.loads(path.read_text("utf-8"))["job"]]
        except (OSError, ValueError, TypeError, KeyError) as error:
            sys.exit(f"{path} must list jobs with name, command, folder and core_hours: {error}")
        if len({job.name for job in self.jobs}) < len(self.jobs) or any("/" in job.name for job in self.jobs):
            sys.exit(f"job names in {path} must be unique and without a slash")
        known = json.loads(self.state.read_text("utf-8")) if self.state.exists() else {}
        self.statuses = {job.name: JobStatus(**known.get(job.name, {})) for job in self.jobs}

    def in_state(self, state: str) -> list[Job]:
        return [job for job in self.jobs if self.statuses[job.name].state == state]

    def save(self) -> None:
        """Write the state atomically."""
        with open(part := self.state.with_suffix(".part"), "w", encoding="utf-8") as file:
            json.dump({name: asdict(status) for name, status in self.statuses.items()}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.state)

    def send(self, *numbers: signal.Signals) -> None:
        """Send signals to the process groups of all running jobs."""
        for status in self.statuses.values():
            for number in numbers if status.alive else ():
                with suppress(ProcessLookupError):
                    os.killpg(status.pid, number)

    def end(self, *numbers: signal.Signals) -> None:
        """End running jobs by signals; they wait to be started again."""
        running = [self.statuses[job.name] for job in self.in_state("running")]
        for status in running:
            status.core_hours += core_hours(status.pid) if status.alive else 0
        self.send(*numbers)
        while any(status.alive for status in running):
            time.sleep(0.1)
        for status in running:
            status.state = "waiting"
        self.save()

    def run(self) -> None:
        """Run all jobs that are not done; only one process can do so at a time."""
        lock = open(self.folder / "lock", "w")  # noqa: SIM115 (held until this process ends, in whatever way)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"the queue of {self.folder} is already running")
        self.runner.write_text(f"{os.getpid()} {stat(os.getpid())[19]}")
        # Jobs that an earlier queue left running would conflict with those started again.
        self.end(signal.SIGKILL)
        (self.folder / "logs").mkdir(exist_ok=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self.work()
        finally:
            self.end(signal.SIGTERM, signal.SIGCONT)  # A stopped job must continue in order to end.

    def work(self) -> None:
        """Keep the lanes busy until no job is left."""
        paused, processes, lanes = False, dict[str, Popen[bytes]](), dict[str, int]()
        while (waiting := self.in_state("waiting")) or processes:
            if paused != self.paused.exists():
                # A job may have been started while `pause` was sending its signals.
                paused = not paused
                self.send(signal.SIGSTOP if paused else signal.SIGCONT)
            free = [lane for lane in range(self.lanes) if lane not in lanes.values()]
            for job, lane in zip(waiting, [] if paused else free, strict=False):
                lanes[job.name], processes[job.name] = lane, self.start(job, lane)
            time.sleep(LOOK_SECONDS)
            for name, process in list(processes.items()):
                status, hours = self.statuses[name], core_hours(process.pid)
                if (code := process.poll()) is not None:
                    del processes[name], lanes[name]
                    status.core_hours += hours
                    status.failures += code != 0
                    status.state = "done" if not code else "failed" if status.failures == TRIES else "waiting"
                    self.save()

    def start(self, job: Job, lane: int) -> Popen[bytes]:
        """Start a job in its own process group, on the core of its lane."""
        # Engines start a worker for each core that they may use.
        cores = sorted(os.sched_getaffinity(0))
        words = ["sh", "-c", job.command] if isinstance(job.command, str) else job.command
        # `env` reports a wrong folder or command.
        core = ["taskset", "--cpu-list", str(cores[lane % len(cores)])]
        command = [*core, "nice", "-n", "19", "env", f"--chdir={job.folder}", *THREADS, *words]
        with open(self.folder / "logs" / f"{job.name}.log", "ab") as log:
            process = Popen(command, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True)
        # Linux may schedule sessions as groups; `nice` ranks processes only within their group.
        with suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text("19")
        status = self.statuses[job.name]
        status.state, status.pid, status.born = "running", process.pid, stat(process.pid)[19]
        self.save()
        return process

    def status(self) -> None:
        """Print the state of every job and the hours left."""
        pid, _, born = (self.runner.read_text() if self.runner.exists() else "").partition(" ")
        runs = "running" if born and stat(pid)[19] == born else "not running"
        print("the queue is", runs, "(paused)" * self.paused.exists())
        left = 0.0
        for job, status in zip(self.jobs, self.statuses.values(), strict=True):
            used = status.core_hours + (core_hours(status.pid) if status.alive else 0)
            left += max(job.core_hours - used, 0) if status.state in ("running", "waiting") else 0
            print(f"{status.state:8} {job.name:44} {used:6.2f} of about {job.core_hours:6.2f} core-hours")
        hours = f"{left / self.lanes:.1f} hours on {self.lanes} idle cores"
        print(f"left: {left:.1f} core-hours, {hours}")


def stat(pid: int | str) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty strings if the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [""] * 50


def core_hours(group: int) -> float:
    """Return the processor time of a process group, including its ended children."""
    every = (stat(pid) for pid in os.listdir("/proc") if pid.isdigit())
    ticks = sum(sum(map(int, values[11:15])) for values in every if values[2] == str(group))
    return ticks / os.sysconf("SC_CLK_TCK") / 3600


def main() -> None:
    parser = argparse.ArgumentParser(description="Run long jobs in order, a few at a time.")
    parser.add_argument("action", choices=("run", "status", "pause", "resume"))
    parser.add_argument("folder", type=Path, help="where jobs.toml is")
    parser.add_argument("--lanes", type=int, default=LANES, help="how many run at a time")
    options = parser.parse_args()
    queue = Queue(options.folder, options.lanes)
    if options.action == "run":
        queue.run()
        sys.exit(len(queue.in_state("failed")) > 0)
    if options.action == "pause":
        queue.paused.touch()
        queue.send(signal.SIGSTOP)
    if options.action == "resume":
        queue.paused.unlink(missing_ok=True)
        queue.send(signal.SIGCONT)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # As in `status | head`.
    queue.status()


if __name__ == "__main__":
    main()
