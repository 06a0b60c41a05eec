//! Requests and responses, a line of JSON each (see ../../README.md).

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::{json, Value};

use crate::data::Arguments;
use crate::names::Answer;

#[derive(Deserialize)]
struct Request {
    id: Value,
    #[serde(rename = "do")]
    what: String,
    #[serde(flatten)]
    given: Arguments,
}

/// Have requests carried out, by their names, until the input ends.
pub fn hold(mut carry_out: impl FnMut(&str, Arguments) -> Answer) -> io::Result<()> {
    let mut responses = io::stdout().lock();
    for line in io::stdin().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let response = match carry_out(&request.what, request.given) {
            Ok(result) => json!({"id": request.id, "result": result}),
            Err(failure) => json!({"id": request.id, "error": failure}),
        };
        writeln!(responses, "{response}")?;
        responses.flush()?;
    }
    Ok(())
}
