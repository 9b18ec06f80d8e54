"""Where simulations run: in this process, or side by side in several. A cluster is one more class with `map`.

An engine takes a function and tasks, both picklable, and yields (number of the task, result) as they come. What a task
computes does not depend on the engine.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol, TypeAlias, TypeVar

__all__ = ["Engine", "Processes", "Report", "Serial", "engine_of"]

T = TypeVar("T")
R = TypeVar("R")

Report: TypeAlias = Callable[[float], None]
"""A task says which part of it is done, between 0 and 1; it may be told to stop by a `KeyboardInterrupt` there."""

Heard: TypeAlias = Callable[[int, float], None]
"""The caller hears that of task i, so much is done."""


class Engine(Protocol):
    """Runs tasks."""

    @property
    def workers(self) -> int:
        """How many tasks run at the same time: into how many parts it is worth cutting work."""
        ...

    def map(
        self, function: Callable[[T, Report], R], tasks: Sequence[T], *, heard: Heard | None = None
    ) -> Iterator[tuple[int, R]]:
        """Run `function(task, report)` for every task, and yield results as they come.

        After an interrupt (Ctrl-C), tasks under way are told to stop and may return what they have; tasks that have not
        begun never do, and the interrupt is raised again at the end. A task's exception is raised here.
        """
        ...


class Serial:
    """One task after the other, in this process."""

    workers = 1

    def map(
        self, function: Callable[[T, Report], R], tasks: Sequence[T], *, heard: Heard | None = None
    ) -> Iterator[tuple[int, R]]:
        """See `Engine`."""
        for number, task in enumerate(tasks):
            interrupted = False

            def report(share: float, number: int = number) -> None:
                if heard is not None:
                    heard(number, share)

            with _Interrupts() as interrupts:
                result = function(task, interrupts.raising(report))
                interrupted = interrupts.seen
            yield number, result
            if interrupted:
                raise KeyboardInterrupt


class Processes:
    """Tasks side by side in processes of this machine.

    Parameters
    ----------
    workers
        How many; by default, as many as there are cores for this process.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"at least one worker is needed; got {workers}")
        self.workers = workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else (1,))

    def map(
        self, function: Callable[[T, Report], R], tasks: Sequence[T], *, heard: Heard | None = None
    ) -> Iterator[tuple[int, R]]:
        """See `Engine`."""
        context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        messages, stop = context.Queue(), context.Event()
        pool = ProcessPoolExecutor(
            min(self.workers, max(len(tasks), 1)),
            mp_context=context,
            initializer=_begin_worker,
            initargs=(messages, stop),
        )
        interrupted = False
        with pool:
            waiting: dict[Future[R], int] = {pool.submit(_work, function, n, task): n for n, task in enumerate(tasks)}
            while waiting:
                try:
                    done, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                    _listen(messages, heard)
                except KeyboardInterrupt:
                    if interrupted:  # a second time: do not wait
                        pool.shutdown(wait=False, cancel_futures=True)
                        raise
                    interrupted = True
                    stop.set()
                    waiting = {future: n for future, n in waiting.items() if not future.cancel()}
                    continue
                for future in done:
                    yield waiting.pop(future), future.result()
        if interrupted:
            raise KeyboardInterrupt


def engine_of(engine: Engine | int | None) -> Engine:
    """An engine, a number of processes, or nothing: this process."""
    if engine is None:
        return Serial()
    if isinstance(engine, int):
        return Serial() if engine == 1 else Processes(engine)
    return engine


class _Interrupts:
    """While a task runs, Ctrl-C is noted, and raised when the task next reports: between two steps, not within one."""

    def __init__(self) -> None:
        self.seen = False
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def raising(self, report: Report) -> Report:
        """`report`, but for the interrupt."""

        def reported(share: float) -> None:
            report(share)
            if self.seen:
                raise KeyboardInterrupt

        return reported

    def _note(self, *signal_and_frame: object) -> None:
        if self.seen:  # a second time: now
            raise KeyboardInterrupt
        self.seen = True


_worker: dict[str, Any] = {}


def _begin_worker(messages: Any, stop: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    _worker.update(messages=messages, stop=stop)


def _work(function: Callable[[T, Report], R], number: int, task: T) -> R:
    def report(share: float) -> None:
        _worker["messages"].put((number, share))
        if _worker["stop"].is_set():
            raise KeyboardInterrupt

    return function(task, report)


def _listen(messages: Any, heard: Heard | None) -> None:
    while True:
        try:
            number, share = messages.get_nowait()
        except queue.Empty:
            return
        if heard is not None:
            heard(number, share)
