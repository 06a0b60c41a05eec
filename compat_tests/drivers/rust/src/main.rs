//! The driver of rdkafka, the crate over librdkafka (see ../../README.md).

mod administering;
mod cluster;
mod consuming;
mod conversation;
mod data;
mod groups;
mod kept;
mod metadata;
mod names;
mod offsets;
mod producing;

use std::env;
use std::io;
use std::process;

use log::{LevelFilter, Log, Metadata, Record};
use rdkafka::consumer::Consumer;
use rdkafka::producer::Producer;
use serde_json::{json, Value};

use administering::Administering;
use consuming::Consuming;
use data::{take, Arguments, Topic};
use metadata::partitions_of;
use names::{Answer, Failure};
use producing::{Producing, SendingOffsets};

/// The crate has no request for a group's offsets. Its request to alter configs sets all others back
/// to their defaults, and what the broker refuses of it is not told.
const CAN: &str = "
    produce acks gzip snappy lz4 zstd timeout empty_bytes keyed auto_create retries recreated
    idempotence transactions fencing send_offsets headers null_headers timestamps

    consume group pattern range roundrobin cooperative consumer_protocol static_members isolation
    seek pause reset reset_none small_fetches offsets_for_times ends commit_metadata append_time
    new_partitions

    create_topic delete_topic create_partitions list_topics describe_topic describe_configs
    delete_records list_groups describe_group delete_group describe_cluster
";

struct Driver {
    producing: Producing,
    consuming: Consuming,
    administering: Administering,
}

impl Driver {
    fn carry_out(&mut self, what: &str, given: Arguments) -> Answer {
        let Driver {
            producing,
            consuming,
            administering,
        } = self;
        match what {
            "hello" => Ok(hello()),

            "producer" => producing.open(&given),
            "send" => producing.send(take(given)?),
            "begin" => producing.begin(),
            "commit_transaction" => producing.commit_transaction(),
            "abort_transaction" => producing.abort_transaction(),
            "send_offsets" => self.send_offsets(take(given)?),
            "partitions" => self.partitions(take(given)?),
            "close_producer" => producing.close(),

            "consumer" => consuming.open(&given),
            "subscribe" => consuming.subscribe(take(given)?),
            "assign" => consuming.assign(take(given)?),
            "poll" => consuming.poll(take(given)?),
            "assignment" => consuming.assignment(take(given)?),
            "seek" => consuming.seek(take(given)?),
            "pause" => consuming.pause(take(given)?),
            "resume" => consuming.resume(take(given)?),
            "position" => offsets::position(consuming.consumer()?, take(given)?),
            "commit" => offsets::commit(consuming.consumer()?, take(given)?),
            "committed" => offsets::committed(consuming.consumer()?, take(given)?),
            "offsets_for_times" => offsets::for_times(consuming.consumer()?, take(given)?),
            "ends" => offsets::ends(consuming.consumer()?, take(given)?),
            "close_consumer" => consuming.close(),

            "create_topic" => administering.create_topic(take(given)?),
            "delete_topic" => administering.delete_topic(take(given)?),
            "create_partitions" => administering.create_partitions(take(given)?),
            "list_topics" => administering.list_topics(),
            "describe_topic" => administering.describe_topic(take(given)?),
            "describe_configs" => administering.describe_configs(take(given)?),
            "delete_records" => administering.delete_records(take(given)?),
            "list_groups" => administering.list_groups(),
            "describe_group" => administering.describe_group(take(given)?),
            "delete_group" => administering.delete_group(take(given)?),
            "describe_cluster" => administering.describe_cluster(),

            _ => Err(Failure::named(
                "Unknown",
                format!("rdkafka can't do {what:?}"),
            )),
        }
    }

    fn send_offsets(&self, given: SendingOffsets) -> Answer {
        let of_group = self.consuming.metadata_of(&given.group)?;
        self.producing.send_offsets(&given, &of_group)
    }

    fn partitions(&self, given: Topic) -> Answer {
        match self.producing.get() {
            Some(producer) => partitions_of(producer.client(), given),
            None => partitions_of(self.consuming.consumer()?.client(), given),
        }
    }
}

fn hello() -> Value {
    let can: Vec<&str> = CAN.split_whitespace().collect();
    json!({"client": "rdkafka", "version": version(), "can": can})
}

/// The crate's, as Cargo.lock has it.
fn version() -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let behind = lock.split_once("name = \"rdkafka\"\nversion = \"");
    let version = behind.and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("", |(version, _)| version)
}

/// What the library logs.
struct ToStandardError;

impl Log for ToStandardError {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        eprintln!("{} {}", record.level(), record.args());
    }

    fn flush(&self) {}
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [bootstrap] = arguments.as_slice() else {
        eprintln!("usage: rdkafka_driver HOST:PORT[,HOST:PORT...]");
        process::exit(2);
    };
    if log::set_logger(&ToStandardError).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
    let cluster = cluster::settings(bootstrap)?;
    let mut driver = Driver {
        producing: Producing::new(&cluster),
        consuming: Consuming::new(&cluster),
        administering: Administering::new(&cluster),
    };
    conversation::hold(|what, given| driver.carry_out(what, given))
}
