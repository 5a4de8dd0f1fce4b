"""Runs the programs of a launch grid. Each has a thread of its own, and only one thread runs at a
time.

A program runs until it has ended or must wait for others (an exchange, a barrier). Then the next
program continues. Nothing runs at the same time, so that results do not depend on chance. Tensors
in shared HBM are one memory: the n-th shared tensor of every program is the same. The trace is that
of program 0, which runs in the calling thread.
"""

from __future__ import annotations

import threading

from . import errors
from . import session as sessions


class Group:
    """The programs of one launch. `shared` holds the bytes of arguments and shared tensors in the
    order of their creation.
    """

    def __init__(self, count: int):
        self.shared: list = []
        self.turn = 0
        self.sessions: list = [None] * count
        self._ended = [False] * count
        self._semaphores = [threading.Semaphore(0) for _ in range(count)]
        # The values of waiting programs: (exchange_id, program) -> value.
        self._posted: dict = {}
        # How often each program has called `exchange`, by name.
        self._call_counts = [dict() for _ in range(count)]
        # How many exchanges each program has passed.
        self.epochs = [0] * count
        self._failure: BaseException | None = None

    def run(self, programs: list):
        """Runs `programs`, functions without arguments, and returns the result of the first."""
        threads = [threading.Thread(target=self._thread, args=(i, f), daemon=True) for i, f in enumerate(programs) if i]
        for thread in threads:
            thread.start()
        sessions.current = self.sessions[0]
        result = programs[0]()
        self._ended[0] = True
        while not all(self._ended):
            self._switch(0)
        if self._failure is not None:
            raise self._failure
        return result

    def _thread(self, index, program):
        self._semaphores[index].acquire()
        try:
            if self._failure is None:
                sessions.current = self.sessions[index]
                program()
        except BaseException as error:
            self._failure = self._failure or error
        self._ended[index] = True
        self._wake(self._next(index))

    def _next(self, index):
        count = len(self._ended)
        others = [(index + step) % count for step in range(1, count)]
        return next((i for i in others if not self._ended[i]), 0)

    def _wake(self, index):
        self.turn = index
        sessions.current = self.sessions[index]
        self._semaphores[index].release()

    def _switch(self, index):
        """Lets other programs run, and returns when it is this program's turn again."""
        self._wake(self._next(index))
        self._semaphores[index].acquire()
        sessions.current = self.sessions[index]
        if self._failure is not None:
            raise self._failure

    def exchange(self, call: str, name, value=None) -> list:
        """Waits until all programs have called this with the same name, and returns the values of
        all.
        """
        index = self.turn
        call_number = self._call_counts[index].get(name, 0)
        self._call_counts[index][name] = call_number + 1
        exchange_id = (name, call_number)
        self._posted[exchange_id, index] = value
        programs = range(len(self._ended))
        while not all((exchange_id, i) in self._posted for i in programs):
            absent = [i for i in programs if (exchange_id, i) not in self._posted]
            before = len(self._posted)
            self._switch(index)
            stuck = len(self._posted) == before and not any(self._ended[i] for i in programs)
            if any(self._ended[i] for i in absent) or stuck:
                if not all((exchange_id, i) in self._posted for i in programs):
                    errors.fail(call, f"core {absent[0]} never comes to it")
        self.epochs[index] += 1
        return [self._posted[exchange_id, i] for i in programs]

    def share(self, session, storage):
        """Gives `storage` the bytes of the session's next shared tensor. The first program that
        makes the tensor provides them.
        """
        number = session.shared_tensors
        session.shared_tensors += 1
        if number == len(self.shared):
            self.shared.append((storage.data, storage.written))
        data, written = self.shared[number]
        if data.size != storage.data.size:
            errors.fail("nki.language.ndarray", f"core {self.turn} makes shared tensors in another order than core 0")
        storage.data, storage.written = data, written

    def is_shared(self, storage) -> bool:
        """Returns whether all programs see the bytes of `storage`."""
        return any(data is storage.data for data, _ in self.shared)
