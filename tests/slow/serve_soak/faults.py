"""Faults of the machine while `neuronmm serve` answers: its access log is renamed and opened again (SIGHUP), and from
time to time the log's disk is full. Every request must be in the log once, or be counted as lost."""

import asyncio
import collections
import json
import os
import pathlib
import signal

FULL_DISK = "/dev/full"  # a file to which nothing can be written
PERIOD_SECONDS = 5.0
FULL_EVERY = 4  # one of so many periods has a full disk
LOST_METRIC = "http_access_log_lost_lines_total"


class LogFaults:
    """The server's access log is the link `path`, which leads to another file in each period."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "access.log"
        self.folder, self.files, self.periods, self.full_disks = folder, [], 0, 0
        for old in folder.glob("access.*"):
            old.unlink()
        self.next_file()

    def next_file(self) -> None:
        self.periods += 1
        target = pathlib.Path(FULL_DISK)
        if self.periods % FULL_EVERY:
            target = self.folder / f"access.{self.periods}"
            self.files.append(target)
        else:
            self.full_disks += 1
        link = self.folder / "access.link"
        link.symlink_to(target)
        os.replace(link, self.path)

    async def run(self, process: int, done) -> None:
        """Changes the file after each period until done(). The last file is one that can be written."""
        while not done() or self.periods % FULL_EVERY == 0:
            await asyncio.sleep(PERIOD_SECONDS if not done() else 0.2)
            self.next_file()
            os.kill(process, signal.SIGHUP)

    def faults_of_log(self, requests: set[str], lost: int) -> list[str]:
        """Returns what is wrong with the log after the server's end. `requests` are the ids of requests that were
        answered, `lost` is the server's count of lost lines."""
        seen, told, wrong = collections.Counter(), 0, []
        for file in self.files:
            if not file.exists():
                continue
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    record = json.loads(line)
                    told += record.get("dropped", 0)
                    if "dropped" not in record:
                        seen[record["request_id"]] += 1
                except (ValueError, KeyError):
                    wrong.append(f"{file.name}: not a record: {line[:80]!r}")
        wrong += [f"{request} is {seen[request]} times in the log" for request in requests if seen[request] > 1]
        missing = sum(1 for request in requests if not seen[request])
        if missing > lost:
            wrong.append(f"{missing} requests are not in the log, but only {lost} lines are counted as lost")
        if told != lost:
            wrong.append(f"{lost} lines are counted as lost, but the log tells of {told}")
        if self.full_disks and not lost:
            wrong.append(f"the disk was full {self.full_disks} times, and no line is counted as lost")
        return wrong
