"""Where simulations run: in this process, or side by side in several. A cluster is one more class with `map`.

An engine takes a function and tasks, both picklable, and yields (number of the task, result) as they come. What a task
computes does not depend on the engine.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, TypeAlias, TypeVar

__all__ = ["Engine", "Processes", "Report", "Serial", "engine_of", "results_of"]

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
        begun never do, and the interrupt is raised again at the end. A second one does not wait. A task's exception is
        raised here, and stops the others.
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
        told = False
        others = set(multiprocessing.active_children())
        with _Interrupts() as interrupts:
            try:
                with _deaf_children():
                    waiting = {pool.submit(_work, function, number, task): number for number, task in enumerate(tasks)}
                while waiting:
                    done, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                    _listen(messages, heard)
                    if interrupts.seen and not told:
                        told = True
                        stop.set()
                        waiting = {future: number for future, number in waiting.items() if not future.cancel()}
                    for future in done & waiting.keys():
                        yield waiting.pop(future), future.result()
            except BrokenProcessPool:
                raise RuntimeError(
                    "a process ended before its task did. In a script, whatever starts processes stands under "
                    "`if __name__ == '__main__':`, since each of them imports the script; else, memory may be short"
                ) from None
            finally:  # also after a task's exception, or if nobody wants the rest
                stop.set()
                if interrupts.twice:
                    for child in set(multiprocessing.active_children()) - others:
                        child.kill()
                pool.shutdown(cancel_futures=True)
        if interrupts.seen:
            raise KeyboardInterrupt


def engine_of(engine: Engine | int | None) -> Engine:
    """An engine, a number of processes, or nothing: this process."""
    if engine is None:
        return Serial()
    if isinstance(engine, int):
        return Serial() if engine == 1 else Processes(engine)
    if not hasattr(engine, "map"):
        raise ValueError(f"engine is a number of processes, or an Engine; got {engine!r}")
    return engine


@contextlib.contextmanager
def results_of(engine: Engine, function: Callable[[T, Report], R], tasks: Sequence[T], heard: Heard) -> Iterator[Any]:
    """`engine.map`, which is over when this is left: an engine that nobody listens to must not listen to Ctrl-C."""
    results = engine.map(function, tasks, heard=heard)
    try:
        yield results
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()


class _Interrupts:
    """While a task runs, Ctrl-C is noted, and raised when the task next reports: between two steps, not within one.

    A second one is raised at once.
    """

    def __init__(self) -> None:
        self.seen = False
        self.twice = False
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
            try:
                report(share)
            except KeyboardInterrupt:  # of a progress bar with a button, say
                self.seen = True
                raise
            if self.seen:
                raise KeyboardInterrupt

        return reported

    def _note(self, *signal_and_frame: object) -> None:
        if self.seen:
            self.twice = True
            raise KeyboardInterrupt
        self.seen = True


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes begun here do not hear Ctrl-C, which a terminal sends to all of them: the parent says when to stop.

    They inherit what is blocked, so it holds from their first moment on, while they are still importing.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: dict[str, Any] = {}


def _begin_worker(messages: Any, stop: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where nothing can be blocked
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
