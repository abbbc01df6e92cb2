//! Changes that would be refused where they are made a second time: under a key they are asked for again.

use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Type};
use eddy_wire::services::resource::{self, Targets};
use eddy_wire::services::{Service, account, grant, kvs, reservation};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{About, Call};

/// All of them.
const TOPICS: [&str; 7] = [
    account::Set::TOPIC,
    grant::Release::TOPIC,
    kvs::Delete::TOPIC,
    reservation::Create::TOPIC,
    reservation::Delete::TOPIC,
    resource::Drain::TOPIC,
    resource::Undrain::TOPIC,
];

impl Call {
    /// The same with a key, if it may have one.
    pub fn once(self, key: Uuid) -> Call {
        if !TOPICS.contains(&self.topic) {
            return self;
        }
        let mut body: Value = serde_json::from_slice(&self.body).expect("a body is JSON");
        body["once"] = json!(key);
        Call {
            about: About::Once(key),
            body: Message::answer(Type::Request, 0, &body).body,
            ..self
        }
    }

    /// Take a rank out of service.
    pub fn drain(rank: Rank) -> Call {
        let request = resource::DrainRequest {
            targets: Targets::Ranks(Idset::one(rank.0)),
            reason: "to see".to_owned(),
            force: false,
            once: None,
        };
        Call::new::<resource::Drain>(About::Other, &request)
    }

    /// Put ranks back.
    pub fn undrain(ranks: Idset) -> Call {
        let request = resource::UndrainRequest {
            targets: Targets::Ranks(ranks),
            once: None,
        };
        Call::new::<resource::Undrain>(About::Other, &request)
    }

    /// Give a rank back to the instance around.
    pub fn give_back(rank: Rank) -> Call {
        let nodes = grant::Which::Named(Targets::Ranks(Idset::one(rank.0)));
        Call::new::<grant::Release>(About::Other, &grant::ReleaseRequest { nodes, once: None })
    }

    /// Remove a value.
    pub fn delete(key: &str) -> Call {
        let request = kvs::DeleteRequest {
            key: key.to_owned(),
            also: Vec::new(),
            once: None,
        };
        Call::new::<kvs::Delete>(About::Other, &request)
    }

    /// Keep nodes for a time.
    pub fn reserve(request: &reservation::CreateRequest) -> Call {
        Call::new::<reservation::Create>(About::Other, request)
    }

    /// Keep them no more.
    pub fn unreserve(name: &str) -> Call {
        let request = reservation::DeleteRequest {
            name: name.parse().expect("a name"),
            also: Vec::new(),
            once: None,
        };
        Call::new::<reservation::Delete>(About::Other, &request)
    }
}
