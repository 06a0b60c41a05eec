//! Topics as a client sees them in its metadata.

use std::time::Duration;

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::util::Timeout;
use serde_json::json;

use crate::data::Topic;
use crate::names::{Answer, Failure};

/// For answers that the library would wait for as long as no broker lets the client in. The suite
/// waits a bit longer, and so is told the library's error.
pub const PATIENCE: Timeout = Timeout::After(Duration::from_secs(50));

/// The one topic that was asked for.
pub fn topic_in(metadata: &Metadata) -> Result<&MetadataTopic, Failure> {
    let [topic] = metadata.topics() else {
        return Err(Failure::named("NoTopic", "the metadata lack the topic"));
    };
    match topic.error() {
        Some(error) => Err(RDKafkaErrorCode::from(error).into()),
        None => Ok(topic),
    }
}

pub fn partitions_of<C: ClientContext>(client: &Client<C>, given: Topic) -> Answer {
    let metadata = client.fetch_metadata(Some(&given.topic), PATIENCE)?;
    let mut numbers: Vec<i32> = topic_in(&metadata)?
        .partitions()
        .iter()
        .map(|one| one.id())
        .collect();
    numbers.sort();
    Ok(json!({"partitions": numbers}))
}
