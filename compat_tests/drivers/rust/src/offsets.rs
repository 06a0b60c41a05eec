//! Offsets that a consumer knows, commits or asks for.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::util::Timeout;
use rdkafka::{Offset, TopicPartitionList};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::data::{offsets_of, Committing, Partitions, Place};
use crate::names::{Answer, Failure};

#[derive(Deserialize)]
pub struct Commit {
    offsets: Option<Vec<Committing>>,
}

#[derive(Deserialize)]
pub struct Times {
    partitions: Vec<Time>,
}

#[derive(Deserialize)]
struct Time {
    #[serde(flatten)]
    place: Place,
    timestamp: i64,
}

pub fn position(consumer: &BaseConsumer, given: Place) -> Answer {
    let positions = consumer.position()?;
    let found = positions
        .find_partition(&given.topic, given.partition)
        .ok_or_else(|| Failure::named("NotAssigned", "the partition is not assigned"))?;
    found.error()?;
    Ok(json!({"offset": known(found.offset())}))
}

pub fn commit(consumer: &BaseConsumer, given: Commit) -> Answer {
    match given.offsets {
        Some(offsets) => consumer.commit(&offsets_of(&offsets)?, CommitMode::Sync)?,
        None => consumer.commit_consumer_state(CommitMode::Sync)?,
    }
    Ok(json!({}))
}

pub fn committed(consumer: &BaseConsumer, given: Partitions) -> Answer {
    let found = consumer.committed_offsets(given.list(), Timeout::Never)?;
    let offsets = each(
        &found,
        |offset, metadata| json!({"offset": known(offset), "metadata": metadata}),
    )?;
    Ok(json!({"offsets": offsets}))
}

/// The library does not tell the timestamps of what it finds.
pub fn for_times(consumer: &BaseConsumer, given: Times) -> Answer {
    let mut times = TopicPartitionList::new();
    for one in &given.partitions {
        let time = Offset::Offset(one.timestamp); // which the library wants in this place
        times.add_partition_offset(&one.place.topic, one.place.partition, time)?;
    }
    let found = consumer.offsets_for_times(times, Timeout::Never)?;
    let offsets = each(
        &found,
        |offset, _| json!({"offset": known(offset), "timestamp": null}),
    )?;
    Ok(json!({"offsets": offsets}))
}

pub fn ends(consumer: &BaseConsumer, given: Partitions) -> Answer {
    let mut ends = Vec::new();
    for one in &given.partitions {
        let (earliest, latest) =
            consumer.fetch_watermarks(&one.topic, one.partition, Timeout::Never)?;
        ends.push(json!({"earliest": earliest, "latest": latest}));
    }
    Ok(json!({"ends": ends}))
}

/// The partitions of a list in its order, each of which may have an error of its own.
fn each(
    list: &TopicPartitionList,
    shown: impl Fn(Offset, &str) -> Value,
) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for one in list.elements() {
        one.error()?;
        all.push(shown(one.offset(), one.metadata()));
    }
    Ok(all)
}

/// An offset; the library's other ones say that there is none.
fn known(offset: Offset) -> Option<i64> {
    match offset {
        Offset::Offset(number) if number >= 0 => Some(number),
        _ => None,
    }
}
