"""Records of a Kafka topic: each learnt once. The broker is the one inside the client's library, over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from tacit.core.errors import DataError
from tacit.peer.sources.kafka import KafkaTopic
from tacit.peer.sources.rows import JsonRows
from tests.sources.stores import FORM, Learner, payload

confluent_kafka = pytest.importorskip("confluent_kafka")


class Cluster:
    """A cluster in this process, which answers in Kafka's protocol; it ends with the object."""

    def __init__(self):
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": "none:1", "test.mock.num.brokers": 1, "log_level": 0}
        )
        brokers = self.producer.list_topics(timeout=60).brokers.values()
        self.access = {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in brokers)}

    def send(self, *values, partition=0, topic="visits"):
        for value in values:
            self.producer.produce(topic, value, partition=partition)
        assert self.producer.flush(60) == 0


@pytest.fixture
def cluster():
    return Cluster()


def reader(folder, cluster, key=(), topic="visits", **options):
    def source(store, worker):
        rows = JsonRows(f"topic {topic}", FORM, "y", None, key)
        return KafkaTopic(topic, cluster.access, rows, store.records, **options)

    return lambda: Learner(folder, source)


def test_records_are_learnt_once_through_kills_and_two_partitions(tmp_path, cluster):
    cluster.send(payload(1), payload(2), payload(3))
    cluster.send(payload(4), partition=1)
    made = reader(tmp_path, cluster)

    async def scenario():
        first = made()
        found = await first.until(2, limit=2)
        cut = await first.take(limit=1)  # killed before the commit
        assert len(cut.samples) == 1
        await first.end()
        again = made()
        found += await again.until(2)
        assert sorted(found) == [1, 2, 3, 4]
        cluster.send(payload(5))
        assert await again.until(1) == [5]
        assert await again.learn() == []
        await again.end()

    asyncio.run(scenario())


def test_a_record_that_a_producer_repeats_is_known_by_its_key(tmp_path, cluster):
    made = reader(tmp_path, cluster, key=("id",))

    async def scenario():
        cluster.send(payload(1, id="a"), payload(1, id="a"), payload(2, id="b"))
        peer = made()
        assert await peer.until(3) == [1, None, 2]
        await peer.end()
        cluster.send(payload(7, id="b"), payload(3, id="c"), partition=2)  # corrected, under a new offset
        again = made()
        assert await again.until(2) == [None, 3]
        assert again.source.not_learnt.known == 1
        await again.end()

    asyncio.run(scenario())


def test_equal_records_without_a_key_are_two(tmp_path, cluster):
    cluster.send(payload(1), payload(1))

    async def scenario():
        peer = reader(tmp_path, cluster)()
        assert await peer.until(2) == [1, 1]
        await peer.end()

    asyncio.run(scenario())


def test_unusable_records_keep_their_place(tmp_path, cluster):
    cluster.send(payload(1), b"no json", None, b'{"x": [1, "high"], "y": 1}', b"[" * 900_000, payload(2))

    async def scenario():
        peer = reader(tmp_path, cluster)()
        assert await peer.until(6) == [1, None, None, None, None, 2]
        assert peer.source.not_learnt.bad == 4
        await peer.end()

    asyncio.run(scenario())


def test_latest_begins_behind_what_is_there_and_stays_there(tmp_path, cluster):
    cluster.send(payload(1))
    made = reader(tmp_path, cluster, start="latest")

    async def scenario():
        peer = made()
        assert await peer.learn() == []  # its commit holds the position
        await peer.end()
        cluster.send(payload(2))
        again = made()
        assert await again.until(1) == [2]
        await again.end()

    asyncio.run(scenario())


def test_chosen_partitions_alone(tmp_path, cluster):
    cluster.send(payload(1))
    cluster.send(payload(2), partition=1)

    async def scenario():
        peer = reader(tmp_path, cluster, partitions=[1])()
        assert await peer.until(1) == [2]
        assert await peer.learn() == []
        await peer.end()

    asyncio.run(scenario())


def test_a_topic_that_was_made_anew_is_refused_and_so_is_another_cluster(tmp_path, cluster):
    cluster.send(payload(1), payload(2))
    made = reader(tmp_path, cluster)

    async def scenario():
        peer = made()
        await peer.until(2)
        cursor = peer.source._cursor()
        await peer.end()
        peer = made()
        peer.source.resume({**cursor, "offsets": {"0": 9}})
        with pytest.raises(DataError, match="made anew"):
            await peer.learn()
        await peer.end()
        other = Cluster()
        other.send(payload(1), payload(2))
        peer = reader(tmp_path, other)()
        with pytest.raises(DataError, match="cluster"):
            await peer.learn()
        await peer.end()

    asyncio.run(scenario())


@pytest.mark.parametrize("changed", [{"topic": "stays"}, {"key": ("id",)}])
def test_another_topic_or_key_is_refused_by_the_same_store(tmp_path, cluster, changed):
    cluster.send(payload(1))

    async def scenario():
        peer = reader(tmp_path, cluster)()
        await peer.until(1)
        await peer.end()

    asyncio.run(scenario())
    with pytest.raises(DataError, match="put th"):
        reader(tmp_path, cluster, **changed)()


def test_without_a_broker_rounds_go_on_and_the_fault_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.peer.sources.kafka.ANSWER_TIME", 0.3)
    nowhere = type("Nowhere", (), {"access": {"bootstrap.servers": "127.0.0.1:1"}})

    async def scenario():
        peer = reader(tmp_path, nowhere)()
        with pytest.raises(DataError, match="visits"):
            await peer.learn()
        await peer.end()

    asyncio.run(scenario())


def test_after_trouble_reading_goes_on_where_it_was(tmp_path, cluster):
    cluster.send(*map(payload, range(1, 6)))

    async def scenario():
        peer = reader(tmp_path, cluster)()
        assert await peer.until(2, limit=2) == [1, 2]
        peer.source._note(confluent_kafka.KafkaError(confluent_kafka.KafkaError._ALL_BROKERS_DOWN))
        assert await peer.until(3, limit=2) == [3, 4, 5]  # read ahead before, and read anew
        await peer.end()

    asyncio.run(scenario())
