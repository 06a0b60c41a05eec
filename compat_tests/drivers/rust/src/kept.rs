//! What a consumer has returned and no `poll` has asked for yet.

use std::collections::VecDeque;

use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers as _, Message, Timestamp};
use serde::Serialize;

use crate::data::{Bytes, Headers, Place};
use crate::names::Failure;

/// A record as `poll` tells it.
#[derive(Serialize)]
pub struct Consumed {
    #[serde(flatten)]
    place: Place,
    offset: i64,
    timestamp: Option<i64>,
    timestamp_type: Option<&'static str>,
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Headers,
}

impl From<BorrowedMessage<'_>> for Consumed {
    fn from(message: BorrowedMessage) -> Consumed {
        let timestamp = message.timestamp();
        let headers = message.headers().into_iter().flat_map(|all| all.iter());
        Consumed {
            place: Place {
                topic: message.topic().to_owned(),
                partition: message.partition(),
            },
            offset: message.offset(),
            timestamp: timestamp.to_millis(),
            timestamp_type: match timestamp {
                Timestamp::CreateTime(_) => Some("create"),
                Timestamp::LogAppendTime(_) => Some("append"),
                Timestamp::NotAvailable => None,
            },
            key: message.key().map(Bytes::from),
            value: message.payload().map(Bytes::from),
            headers: headers
                .map(|one| (one.key.to_owned(), one.value.map(Bytes::from)))
                .collect(),
        }
    }
}

#[derive(Default)]
pub struct Kept {
    records: VecDeque<Consumed>,
    errors: VecDeque<KafkaError>,
}

impl Kept {
    pub fn add(&mut self, polled: KafkaResult<Consumed>) {
        match polled {
            Ok(record) => self.records.push_back(record),
            Err(error) => self.errors.push_back(error),
        }
    }

    /// Whether a poll for `count` should wait for more: not if there is an error.
    pub fn wants(&self, count: usize) -> bool {
        self.errors.is_empty() && self.records.len() < count
    }

    /// The next records, or the next error; records stay then.
    pub fn take(&mut self, count: usize) -> Result<Vec<Consumed>, Failure> {
        if let Some(error) = self.errors.pop_front() {
            return Err(error.into());
        }
        let count = count.min(self.records.len());
        Ok(self.records.drain(..count).collect())
    }

    /// Without the records of a partition from here on.
    pub fn forget(&mut self, place: &Place) {
        self.records.retain(|one| one.place != *place);
    }
}
