//! Groups as a response tells them. Their members' assignments are bytes that the crate leaves as
//! they are: a version, the topics with their partitions, and data of the assignor's.

use rdkafka::groups::{GroupInfo, GroupMemberInfo};
use serde_json::{json, Value};

use crate::data::Place;
use crate::names::{Answer, Failure};

pub fn group_as_json(group: &GroupInfo) -> Answer {
    let members: Result<Vec<Value>, Failure> = group.members().iter().map(member_as_json).collect();
    Ok(json!({"state": group.state(), "members": members?}))
}

fn member_as_json(member: &GroupMemberInfo) -> Answer {
    let partitions = match member.assignment() {
        None | Some([]) => Vec::new(), // while the group rebalances
        Some(bytes) => Reader(bytes)
            .assignment()
            .ok_or_else(|| Failure::named("BadAssignment", "a member's assignment ends early"))?,
    };
    Ok(json!({"client_id": member.client_id(), "partitions": partitions}))
}

/// What is still to be read; each part is None if the bytes end within it.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn assignment(&mut self) -> Option<Vec<Place>> {
        let _version = self.int16()?;
        let mut places = Vec::new();
        for _ in 0..self.int32()? {
            let topic = self.text()?;
            for _ in 0..self.int32()? {
                let (topic, partition) = (topic.clone(), self.int32()?);
                places.push(Place { topic, partition });
            }
        }
        Some(places)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.int16()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn int16(&mut self) -> Option<i16> {
        self.bytes().map(i16::from_be_bytes)
    }

    fn int32(&mut self) -> Option<i32> {
        self.bytes().map(i32::from_be_bytes)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}
