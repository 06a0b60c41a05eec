//! The admin client: topics, configs, groups and the cluster.

use std::cell::OnceCell;
use std::collections::HashMap;

use futures_executor::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::{Client, DefaultClientContext};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::MetadataPartition;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde::Deserialize;
use serde_json::{json, Map, Value};

use crate::data::{Place, Topic};
use crate::groups::group_as_json;
use crate::metadata::{topic_in, PATIENCE};
use crate::names::{Answer, Failure};

const DEFAULT_OF_BROKER: i32 = -1;

#[derive(Deserialize)]
pub struct Creating {
    topic: String,
    partitions: Option<i32>,
    replicas: Option<i32>,
    #[serde(default)]
    configs: HashMap<String, String>,
}

#[derive(Deserialize)]
pub struct Growing {
    topic: String,
    total: usize,
}

#[derive(Deserialize)]
pub struct Deleting {
    #[serde(flatten)]
    place: Place,
    before: i64,
}

#[derive(Deserialize)]
pub struct Group {
    group: String,
}

pub struct Administering {
    cluster: ClientConfig,
    open: OnceCell<AdminClient<DefaultClientContext>>,
    options: AdminOptions,
}

impl Administering {
    pub fn new(cluster: &ClientConfig) -> Administering {
        Administering {
            cluster: cluster.clone(),
            open: OnceCell::new(),
            options: AdminOptions::new().request_timeout(Some(PATIENCE)),
        }
    }

    fn admin(&self) -> Result<&AdminClient<DefaultClientContext>, Failure> {
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let mut config = self.cluster.clone();
        // The library takes it for a producer, which would create the topics that it describes.
        let admin = config.set("allow.auto.create.topics", "false").create()?;
        Ok(self.open.get_or_init(|| admin))
    }

    fn client(&self) -> Result<&Client<DefaultClientContext>, Failure> {
        Ok(self.admin()?.inner())
    }

    pub fn create_topic(&self, given: Creating) -> Answer {
        let partitions = given.partitions.unwrap_or(DEFAULT_OF_BROKER);
        let replicas = TopicReplication::Fixed(given.replicas.unwrap_or(DEFAULT_OF_BROKER));
        let mut topic = NewTopic::new(&given.topic, partitions, replicas);
        for (name, value) in &given.configs {
            topic = topic.set(name, value);
        }
        let created = self.admin()?.create_topics([&topic], &self.options);
        done(block_on(created))
    }

    pub fn delete_topic(&self, given: Topic) -> Answer {
        let topics = [given.topic.as_str()];
        let deleted = self.admin()?.delete_topics(&topics, &self.options);
        done(block_on(deleted))
    }

    pub fn create_partitions(&self, given: Growing) -> Answer {
        let change = NewPartitions::new(&given.topic, given.total);
        let created = self.admin()?.create_partitions([&change], &self.options);
        done(block_on(created))
    }

    pub fn list_topics(&self) -> Answer {
        let found = self.client()?.fetch_metadata(None, PATIENCE)?;
        let topics: Vec<&str> = found.topics().iter().map(|one| one.name()).collect();
        Ok(json!({"topics": topics}))
    }

    pub fn describe_topic(&self, given: Topic) -> Answer {
        let topic = Some(given.topic.as_str());
        let found = self.client()?.fetch_metadata(topic, PATIENCE)?;
        let mut partitions: Vec<_> = topic_in(&found)?.partitions().iter().collect();
        partitions.sort_by_key(|one| one.id());
        let shown: Vec<Value> = partitions.into_iter().map(partition_as_json).collect();
        Ok(json!({"partitions": shown}))
    }

    pub fn describe_configs(&self, given: Topic) -> Answer {
        let topic = ResourceSpecifier::Topic(&given.topic);
        let described = self.admin()?.describe_configs([&topic], &self.options);
        let mut configs = Map::new();
        for resource in block_on(described)? {
            let entries = resource?.entries.into_iter();
            configs.extend(entries.map(|one| (one.name, json!(one.value))));
        }
        Ok(json!({"configs": configs}))
    }

    pub fn delete_records(&self, given: Deleting) -> Answer {
        let Deleting { place, before } = given;
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&place.topic, place.partition, Offset::Offset(before))?;
        let deleted = self.admin()?.delete_records(&offsets, &self.options);
        let found = block_on(deleted)?;
        let mut earliest = None;
        for one in found.elements() {
            one.error()?;
            earliest = one.offset().to_raw();
        }
        Ok(json!({"earliest": earliest}))
    }

    pub fn list_groups(&self) -> Answer {
        let found = self.client()?.fetch_group_list(None, PATIENCE)?;
        let groups: Vec<&str> = found.groups().iter().map(|one| one.name()).collect();
        Ok(json!({"groups": groups}))
    }

    pub fn describe_group(&self, given: Group) -> Answer {
        let group = Some(given.group.as_str());
        let found = self.client()?.fetch_group_list(group, PATIENCE)?;
        match found.groups() {
            [one] => group_as_json(one),
            _ => Err(Failure::named("NoGroup", "the library lists no such group")),
        }
    }

    pub fn delete_group(&self, given: Group) -> Answer {
        let groups = [given.group.as_str()];
        let deleted = self.admin()?.delete_groups(&groups, &self.options);
        done(block_on(deleted))
    }

    /// The crate does not tell the controller.
    pub fn describe_cluster(&self) -> Answer {
        let client = self.client()?;
        let found = client.fetch_metadata(None, PATIENCE)?;
        let brokers: Vec<i32> = found.brokers().iter().map(|one| one.id()).collect();
        let cluster_id = client.fetch_cluster_id(PATIENCE);
        Ok(json!({"cluster_id": cluster_id, "controller": null, "brokers": brokers}))
    }
}

/// The answer to a request about one topic or group.
fn done<T>(results: KafkaResult<Vec<Result<T, (T, RDKafkaErrorCode)>>>) -> Answer {
    for one in results? {
        one.map_err(|(_, error)| error)?;
    }
    Ok(json!({}))
}

fn partition_as_json(partition: &MetadataPartition) -> Value {
    json!({
        "partition": partition.id(),
        "leader": partition.leader(),
        "replicas": partition.replicas(),
        "isr": partition.isr(),
    })
}
