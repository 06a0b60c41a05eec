"""Whether both clusters go on from what was copied: the same topics, with the same records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from kavka.tools.admin.epoch_ends import UNKNOWN
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.mirror.clusters import Clusters
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.ledger import Entry, Ledger, TopicIds, topic_entry
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.looks import RETRY_S, Looks
from kavka.tools.mirror.report import Once


class Continuity:
    """Of one session, by what its ledger says. Failed, Again."""

    def __init__(
        self, clusters: Clusters, looks: Looks, ledger: Ledger, ledger_topic: str, once: Once
    ) -> None:
        self._clusters, self._looks, self._once = clusters, looks, once
        self._ledger, self._topic = ledger, ledger_topic

    def check_topics(self, look: Look) -> None:
        """Failed if a topic is not the one that was copied, or copied to, before."""
        for name, ids in _ids(look).items():
            known = self._ledger.topics.get(name, ids)
            if known == ids or (known.target == ids.target and self._is_untouched(name)):
                continue
            where = "source" if known.source != ids.source else "target"
            raise Failed(
                f"the {where}'s topic {name} was deleted and created again since it was "
                f"copied: {self._anew()}"
            )

    def _is_untouched(self, name: str) -> bool:
        """Whether nothing was copied of a topic, so that another one may take its place."""
        known = {*self._ledger.maps, *self._ledger.positions}
        return not any(self._ledger.position(place) for place in known if place[0] == name)

    def replaced(self, look: Look) -> set[str]:
        """Topics in whose place there is another one, of which nothing was copied yet; after
        `check_topics`, and before `new_topics`."""
        known = self._ledger.topics
        return {name for name, ids in _ids(look).items() if known.get(name, ids) != ids}

    def new_topics(self, look: Look) -> list[Entry]:
        """What the ledger is to say of topics that it does not know, after `check_topics`."""
        new = {
            name: ids for name, ids in _ids(look).items() if self._ledger.topics.get(name) != ids
        }
        self._ledger.topics |= new
        return [topic_entry(*one) for one in new.items()]

    def _anew(self) -> str:
        """What to do about a topic whose copies are another topic's records."""
        return (
            f"leave it out, or delete it in the target with {self._topic}, which has the mirror "
            "copy everything again"
        )

    def beginnings(self, look: Look, places: Iterable[Place]) -> dict[Place, int]:
        """Where to read partitions first."""
        starts = {place: look.starts[place] for place in places}
        self._check_epochs(starts)
        return {place: self._begin(look, place, start) for place, start in starts.items()}

    def _check_epochs(self, places: Iterable[Place]) -> None:
        """Failed if a source has other records now where some were copied: that of a leader which
        had not replicated them all (an unclean election), for instance."""
        copied = {
            place: behind
            for place in places
            if (behind := self._ledger.map_of(place).next_source) is not None
        }
        known = {place: self._ledger.epochs.get(place) for place in copied}
        epochs = {place: epoch for place, epoch in known.items() if epoch is not None}
        if not epochs:
            return
        try:
            ends = self._clusters.epoch_ends(epochs)
        except Failed as failed:  # a topic may be gone since the look
            raise Again(f"the source's leader epochs are not known: {failed}") from failed
        for place, end in ends.items():
            if UNKNOWN < end < copied[place]:
                topic, partition = place
                raise Failed(
                    f"{topic}-{partition}: records up to offset {copied[place] - 1} were copied, "
                    f"but the source has lost those from {end} on, and has others in their place "
                    f"or none: {self._anew()}"
                )

    def _begin(self, look: Look, place: Place, start: int) -> int:
        position = self._ledger.map_of(place).next_source
        topic, partition = place
        if position is None or position < start:
            passed = self._ledger.position(place)
            if passed is not None and passed < start:
                self._once.warn(
                    f"{topic}-{partition}: offsets {passed} to {start - 1} were deleted in the "
                    "source before they were copied"
                )
            return start
        if position > (end := look.ends[place]) and self._is_cut(place, position):
            raise Failed(
                f"{topic}-{partition}: {position} offsets were copied, but the source has only "
                f"{end} now: it has lost records that the target has"
            )
        return position

    def _is_cut(self, place: Place, position: int) -> bool:
        """Whether a source has lost records, and does not just say so after a start."""
        for _ in range(10):
            time.sleep(RETRY_S)
            end = self._looks.patient().ends.get(place)
            if end is None:
                raise Again(f"{place[0]}-{place[1]} is not there any more")
            if end >= position:
                return False
        return True


def _ids(look: Look) -> Mapping[str, TopicIds]:
    return {name: TopicIds(topic.id, look.target[name].id) for name, topic in look.source.items()}
