"""A log that moves to another log directory and back, as rules of the machine of `log_life`."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import rule

from kavka.log.file_copying import SourceError
from kavka.log.future_log_copier import FutureLogCopier
from support import logs
from support.log_life import MORE, LogLife

KEY = ("t", 0)


class LogThatMoves(LogLife):
    """Moves: copying in pieces, completing the move, and cancelling it."""

    @rule(steps=st.integers(1, 4), bytes_max=st.sampled_from([1, 300, 1 << 20]))
    def copy(self, steps: int, bytes_max: int) -> None:
        """Some of the way to the other log directory."""

        def work() -> None:
            copier = self.copier()
            for _ in range(steps):
                step = copier.next(bytes_max)
                if step is not None:
                    step.run()

        self.attempt(lambda: of_either(work))

    @rule(commits=st.booleans())
    def move(self, commits: bool) -> None:
        """All of the way; the source is deleted later."""
        if commits:
            self.watermark = self.history.end

        def copy_all() -> None:
            copier = self.copier()
            self.broker.logs.futures.delete_source_durably(KEY)
            while (step := copier.next()) is not None:
                step.run()

        def work() -> None:
            copy_all()
            self.copier().complete(moved_file=False).run()
            plan = self.broker.logs.checkpoint({})
            plan.run()
            for failure in plan.failures.values():
                raise failure
            while self.log.producer_manager.write_snapshot_step():
                pass
            copy_all()
            self.copier().complete(moved_file=True).run()
            assert self.copier().is_ready
            self.broker.logs.promote(self.log)

        before = self.broker.logs.directory_of(self.log)
        if self.attempt(lambda: of_either(work)):
            assert self.broker.logs.directory_of(self.log) != before
            self.look()
            self.look_at_producers()

    def copier(self) -> FutureLogCopier:
        """Of the log, in the other directory; begun if it is not."""
        futures = self.broker.logs.futures
        copy = futures.get(KEY)
        if copy is None:
            here = self.broker.logs.directory_of(self.log)
            copy = futures.begin(self.log, MORE if here == logs.DIRECTORY else logs.DIRECTORY)
        if copy.copier is None:
            futures.resume(copy, self.log)
        assert copy.copier is not None
        return copy.copier

    @rule()
    def delete_the_source(self) -> None:
        self.attempt(lambda: self.broker.logs.futures.delete_source_durably(KEY))

    @rule()
    def cancel_a_move(self) -> None:
        self.attempt(lambda: self.broker.logs.futures.discard(KEY))


def of_either(work: Callable[[], object]) -> None:
    """A failing disk is one, whichever directory is on it."""
    try:
        work()
    except SourceError as error:
        raise error.failure from error
