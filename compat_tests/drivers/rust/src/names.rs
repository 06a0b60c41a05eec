//! Errors as responses tell them: by their code in the protocol, else by the library's name.

use std::ffi::CStr;

use rdkafka::bindings::rd_kafka_err2name;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;
use serde::Serialize;
use serde_json::Value;

/// What a request ends with.
pub type Answer = Result<Value, Failure>;

/// Errors up to here are librdkafka's own, those above it are the protocol's.
const LAST_LOCAL_ERROR: i32 = RDKafkaErrorCode::End as i32;

#[derive(Serialize)]
#[serde(untagged)]
pub enum Failure {
    Code { code: i32, message: String },
    Named { name: String, message: String },
}

impl Failure {
    pub fn named(name: &str, message: impl ToString) -> Failure {
        Failure::Named {
            name: name.to_owned(),
            message: message.to_string(),
        }
    }

    fn of(error: RDKafkaErrorCode, message: impl ToString) -> Failure {
        let code = error as i32;
        if code > LAST_LOCAL_ERROR {
            let message = message.to_string();
            return Failure::Code { code, message };
        }
        Failure::named(&local_name(error), message)
    }
}

impl From<RDKafkaErrorCode> for Failure {
    fn from(error: RDKafkaErrorCode) -> Failure {
        Failure::of(error, error)
    }
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Failure {
        let code = match error {
            KafkaError::AdminOp(code) => Some(code), // its method leaves this one out
            _ => error.rdkafka_error_code(),
        };
        match code {
            Some(code) => Failure::of(code, error),
            None => Failure::named(variant(&error), error),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::named("serde_json::Error", error)
    }
}

/// librdkafka's name of an error that is its own: `_TIMED_OUT`.
fn local_name(error: RDKafkaErrorCode) -> String {
    let Ok(code) = RDKafkaRespErr::try_from(error as i32) else {
        return format!("{error:?}");
    };
    // SAFETY: it returns a text that lives as long as the program.
    let name = unsafe { CStr::from_ptr(rd_kafka_err2name(code)) };
    name.to_string_lossy().into_owned()
}

/// The name of an error's kind, where the crate tells no more than a text.
fn variant(error: &KafkaError) -> &'static str {
    match error {
        KafkaError::AdminOpCreation(_) => "AdminOpCreation",
        KafkaError::Canceled => "Canceled",
        KafkaError::ClientConfig(..) => "ClientConfig",
        KafkaError::ClientCreation(_) => "ClientCreation",
        KafkaError::Nul(_) => "Nul",
        KafkaError::PartitionEOF(_) => "PartitionEOF",
        KafkaError::PauseResume(_) => "PauseResume",
        KafkaError::Seek(_) => "Seek",
        KafkaError::Subscription(_) => "Subscription",
        _ => "KafkaError",
    }
}
