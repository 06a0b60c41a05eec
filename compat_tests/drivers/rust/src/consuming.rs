//! The consumer: what it reads, of assigned partitions or as a member of a group.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::data::{places_of, set_given, Arguments, Partitions, Place};
use crate::kept::{Consumed, Kept};
use crate::names::{Answer, Failure};

const SETTINGS: &[(&str, &str)] = &[
    ("group", "group.id"),
    ("reset", RESET),
    ("isolation", "isolation.level"),
    ("assignor", ASSIGNOR),
    ("protocol", "group.protocol"),
    ("instance_id", "group.instance.id"),
    ("session_timeout_ms", "session.timeout.ms"),
    ("heartbeat_ms", "heartbeat.interval.ms"),
    ("fetch_max_bytes", "fetch.max.bytes"),
    ("partition_fetch_max_bytes", "max.partition.fetch.bytes"),
    ("metadata_max_age_ms", "topic.metadata.refresh.interval.ms"),
];
const RESET: &str = "auto.offset.reset";
const ASSIGNOR: &str = "partition.assignment.strategy";

/// Without the name of a group the library assigns no partitions; assigned ones don't join it.
const NO_GROUP: &str = "no-group";

#[derive(Deserialize)]
pub struct Subscription {
    topics: Option<Vec<String>>,
    pattern: Option<String>,
}

#[derive(Deserialize)]
pub struct Assignment {
    partitions: Vec<Start>,
}

#[derive(Deserialize)]
struct Start {
    #[serde(flatten)]
    place: Place,
    offset: Beginning,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Beginning {
    At(i64),
    End(End),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Earliest,
    Latest,
}

#[derive(Deserialize)]
pub struct Polling {
    records: usize,
    timeout_ms: u64,
}

#[derive(Deserialize)]
pub struct Waiting {
    timeout_ms: u64,
}

#[derive(Deserialize)]
pub struct Seeking {
    #[serde(flatten)]
    place: Place,
    offset: i64,
}

pub struct Consuming {
    cluster: ClientConfig,
    group: Option<String>,
    open: Option<BaseConsumer>,
    kept: Kept,
}

impl Consuming {
    pub fn new(cluster: &ClientConfig) -> Consuming {
        Consuming {
            cluster: cluster.clone(),
            group: None,
            open: None,
            kept: Kept::default(),
        }
    }

    pub fn consumer(&self) -> Result<&BaseConsumer, Failure> {
        let open = self.open.as_ref();
        open.ok_or_else(|| Failure::named("NoConsumer", "there is no consumer"))
    }

    pub fn open(&mut self, given: &Arguments) -> Answer {
        self.close()?;
        self.open = Some(config_of(&self.cluster, given).create()?);
        self.group = given
            .get("group")
            .and_then(Value::as_str)
            .map(str::to_owned);
        Ok(json!({}))
    }

    pub fn subscribe(&self, given: Subscription) -> Answer {
        let pattern = given.pattern.map(|pattern| format!("^{pattern}$"));
        let topics: Vec<String> = given.topics.into_iter().flatten().chain(pattern).collect();
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        self.consumer()?.subscribe(&names)?;
        Ok(json!({}))
    }

    pub fn assign(&mut self, given: Assignment) -> Answer {
        self.kept = Kept::default();
        let mut list = TopicPartitionList::new();
        for one in &given.partitions {
            let offset = match one.offset {
                Beginning::At(offset) => Offset::Offset(offset),
                Beginning::End(End::Earliest) => Offset::Beginning,
                Beginning::End(End::Latest) => Offset::End,
            };
            list.add_partition_offset(&one.place.topic, one.place.partition, offset)?;
        }
        self.consumer()?.assign(&list)?;
        Ok(json!({}))
    }

    pub fn poll(&mut self, given: Polling) -> Answer {
        self.keep_polling(given.timeout_ms, |kept| kept.wants(given.records))?;
        Ok(json!({"records": self.kept.take(given.records)?}))
    }

    pub fn assignment(&mut self, given: Waiting) -> Answer {
        self.keep_polling(given.timeout_ms, |_| true)?;
        let assigned = self.consumer()?.assignment()?;
        Ok(json!({"partitions": places_of(&assigned)}))
    }

    fn keep_polling(
        &mut self,
        timeout_ms: u64,
        wanted: impl Fn(&Kept) -> bool,
    ) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_millis(timeout_ms);
        while wanted(&self.kept) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let polled = self.consumer()?.poll(left);
            if let Some(polled) = polled.map(|one| one.map(Consumed::from)) {
                self.kept.add(polled);
            }
        }
        Ok(())
    }

    pub fn seek(&mut self, given: Seeking) -> Answer {
        let Seeking { place, offset } = given;
        self.kept.forget(&place);
        let offset = Offset::Offset(offset);
        self.consumer()?
            .seek(&place.topic, place.partition, offset, Timeout::Never)?;
        Ok(json!({}))
    }

    pub fn pause(&self, given: Partitions) -> Answer {
        self.consumer()?.pause(&given.list())?;
        Ok(json!({}))
    }

    pub fn resume(&self, given: Partitions) -> Answer {
        self.consumer()?.resume(&given.list())?;
        Ok(json!({}))
    }

    /// The metadata of a group, which only its consumers have.
    pub fn metadata_of(&self, group: &str) -> Result<ConsumerGroupMetadata, Failure> {
        let found = if self.group.as_deref() == Some(group) {
            self.consumer()?.group_metadata()
        } else {
            let mut config = self.cluster.clone();
            let other: BaseConsumer = config.set("group.id", group).create()?;
            other.group_metadata()
        };
        found.ok_or_else(|| Failure::named("NoGroupMetadata", "the consumer has no group"))
    }

    pub fn close(&mut self) -> Answer {
        self.group = None;
        self.kept = Kept::default();
        self.open = None; // which makes a member leave its group
        Ok(json!({}))
    }
}

fn config_of(cluster: &ClientConfig, given: &Arguments) -> ClientConfig {
    let mut config = cluster.clone();
    config
        .set("enable.auto.commit", "false")
        .set("group.id", NO_GROUP)
        .set(RESET, "earliest");
    set_given(&mut config, given, SETTINGS);
    if config.get(RESET) == Some("none") {
        config.set(RESET, "error");
    }
    if config.get(ASSIGNOR) == Some("cooperative") {
        config.set(ASSIGNOR, "cooperative-sticky");
    }
    config
}
