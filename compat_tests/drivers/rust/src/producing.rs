//! The producer: records, and transactions.

use futures_executor::block_on;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer};
use rdkafka::util::Timeout;
use rdkafka::ClientConfig;
use serde::Deserialize;
use serde_json::{json, Value};

use crate::data::{offsets_of, set_given, Arguments, Bytes, Committing, Headers};
use crate::names::{Answer, Failure};

const SETTINGS: &[(&str, &str)] = &[
    ("acks", "acks"),
    ("codec", "compression.type"),
    ("idempotent", "enable.idempotence"),
    ("transactional_id", "transactional.id"),
    ("transaction_timeout_ms", "transaction.timeout.ms"),
    ("linger_ms", "linger.ms"),
    ("batch_bytes", "batch.size"),
    ("max_request_bytes", "message.max.bytes"),
    ("timeout_ms", "message.timeout.ms"),
];

/// The offset of a record that nobody acknowledges, where the library has another negative number.
const NOT_TOLD: i64 = -1;

#[derive(Deserialize)]
pub struct Sending {
    topic: String,
    records: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    partition: Option<i32>,
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Option<Headers>,
    timestamp: Option<i64>,
}

#[derive(Deserialize)]
pub struct SendingOffsets {
    pub group: String,
    offsets: Vec<Committing>,
}

pub struct Producing {
    cluster: ClientConfig,
    open: Option<FutureProducer>,
}

impl Producing {
    pub fn new(cluster: &ClientConfig) -> Producing {
        Producing {
            cluster: cluster.clone(),
            open: None,
        }
    }

    /// None if there is no producer.
    pub fn get(&self) -> Option<&FutureProducer> {
        self.open.as_ref()
    }

    fn producer(&self) -> Result<&FutureProducer, Failure> {
        self.get()
            .ok_or_else(|| Failure::named("NoProducer", "there is no producer"))
    }

    pub fn open(&mut self, given: &Arguments) -> Answer {
        self.open = None; // which drops the last one and what it has not sent yet
        let mut config = self.cluster.clone();
        set_given(&mut config, given, SETTINGS);
        let producer: FutureProducer = config.create()?;
        if given.contains_key("transactional_id") {
            producer.init_transactions(Timeout::Never)?;
        }
        self.open = Some(producer);
        Ok(json!({}))
    }

    pub fn send(&self, given: Sending) -> Answer {
        let producer = self.producer()?;
        // All are handed over before the first is waited for.
        let mut sent = Vec::new();
        for record in &given.records {
            let delivery = producer.send_result(to_produce(&given.topic, record));
            sent.push(delivery.map_err(|(error, _)| error));
        }
        let placed: Vec<Value> = sent.into_iter().map(outcome).collect();
        Ok(json!({"placed": placed}))
    }

    pub fn begin(&self) -> Answer {
        self.producer()?.begin_transaction()?;
        Ok(json!({}))
    }

    pub fn commit_transaction(&self) -> Answer {
        self.producer()?.commit_transaction(Timeout::Never)?;
        Ok(json!({}))
    }

    pub fn abort_transaction(&self) -> Answer {
        self.producer()?.abort_transaction(Timeout::Never)?;
        Ok(json!({}))
    }

    pub fn send_offsets(&self, given: &SendingOffsets, of_group: &ConsumerGroupMetadata) -> Answer {
        let offsets = offsets_of(&given.offsets)?;
        self.producer()?
            .send_offsets_to_transaction(&offsets, of_group, Timeout::Never)?;
        Ok(json!({}))
    }

    pub fn close(&mut self) -> Answer {
        if let Some(producer) = self.open.take() {
            producer.flush(Timeout::Never)?;
        }
        Ok(json!({}))
    }
}

fn to_produce<'a>(topic: &'a str, record: &'a Record) -> FutureRecord<'a, Bytes, Bytes> {
    FutureRecord {
        topic,
        partition: record.partition,
        payload: record.value.as_ref(),
        key: record.key.as_ref(),
        timestamp: record.timestamp,
        headers: record.headers.as_ref().map(to_headers),
    }
}

fn to_headers(headers: &Headers) -> OwnedHeaders {
    headers
        .iter()
        .fold(OwnedHeaders::new(), |all, (key, value)| {
            all.insert(Header {
                key,
                value: value.as_ref(),
            })
        })
}

/// Where a record went, or why it went nowhere.
fn outcome(sent: KafkaResult<DeliveryFuture>) -> Value {
    let delivered = sent.and_then(|delivery| match block_on(delivery) {
        Ok(delivered) => delivered.map_err(|(error, _)| error),
        Err(_) => Err(KafkaError::Canceled),
    });
    match delivered {
        Ok(placed) => json!({
            "partition": placed.partition,
            "offset": placed.offset.max(NOT_TOLD),
            "timestamp": placed.timestamp.to_millis(),
        }),
        Err(error) => json!({"error": Failure::from(error)}),
    }
}
