//! What requests and results hold: bytes in base64, partitions, offsets, and clients' settings.

use base64::prelude::{Engine, BASE64_STANDARD};
use rdkafka::message::ToBytes;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::names::Failure;

/// The arguments of a request, by their names.
pub type Arguments = Map<String, Value>;

/// The arguments of a request that are always the same ones.
pub fn take<T: DeserializeOwned>(given: Arguments) -> Result<T, Failure> {
    Ok(serde_json::from_value(Value::Object(given))?)
}

pub struct Bytes(Vec<u8>);

pub type Headers = Vec<(String, Option<Bytes>)>;

impl From<&[u8]> for Bytes {
    fn from(data: &[u8]) -> Bytes {
        Bytes(data.to_vec())
    }
}

impl ToBytes for Bytes {
    fn to_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        let data = BASE64_STANDARD.decode(text).map_err(D::Error::custom)?;
        Ok(Bytes(data))
    }
}

#[derive(Deserialize)]
pub struct Topic {
    pub topic: String,
}

#[derive(Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub topic: String,
    pub partition: i32,
}

#[derive(Deserialize)]
pub struct Partitions {
    pub partitions: Vec<Place>,
}

impl Partitions {
    pub fn list(&self) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for one in &self.partitions {
            list.add_partition(&one.topic, one.partition);
        }
        list
    }
}

/// A partition with an offset to commit.
#[derive(Deserialize)]
pub struct Committing {
    #[serde(flatten)]
    place: Place,
    offset: i64,
    metadata: Option<String>,
}

pub fn offsets_of(given: &[Committing]) -> Result<TopicPartitionList, Failure> {
    let mut list = TopicPartitionList::new();
    for one in given {
        let mut element = list.add_partition(&one.place.topic, one.place.partition);
        element.set_offset(Offset::Offset(one.offset))?;
        if let Some(metadata) = &one.metadata {
            element.set_metadata(metadata);
        }
    }
    Ok(list)
}

pub fn places_of(list: &TopicPartitionList) -> Vec<Place> {
    let mut places: Vec<Place> = list
        .elements()
        .iter()
        .map(|one| Place {
            topic: one.topic().to_owned(),
            partition: one.partition(),
        })
        .collect();
    places.sort();
    places
}

/// Set what a request gives, by names of its arguments and of the library's settings.
pub fn set_given(config: &mut ClientConfig, given: &Arguments, names: &[(&str, &str)]) {
    for (argument, setting) in names {
        match given.get(*argument) {
            Some(Value::String(text)) => config.set(*setting, text),
            Some(value) => config.set(*setting, value.to_string()),
            None => config,
        };
    }
}
