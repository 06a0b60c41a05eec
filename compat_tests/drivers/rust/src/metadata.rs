//! Topics as a client sees them in its metadata.

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::util::Timeout;
use serde_json::json;

use crate::data::Topic;
use crate::names::{Answer, Failure};

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
    let metadata = client.fetch_metadata(Some(&given.topic), Timeout::Never)?;
    let mut numbers: Vec<i32> = topic_in(&metadata)?
        .partitions()
        .iter()
        .map(|one| one.id())
        .collect();
    numbers.sort();
    Ok(json!({"partitions": numbers}))
}
