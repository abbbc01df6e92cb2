//! Who answers which topic, and who may ask.
//!
//! Default is refuse: a topic without an endpoint is `no service`, an endpoint
//! without a matching role is `denied`. Nothing of the sender is believed here;
//! uid and roles were stamped by the driver from the kernel's word.

use std::collections::BTreeMap;

use eddy_wire::error::{Code, Refusal};
use eddy_wire::message::{Message, Roles};
use eddy_wire::services::Service;

/// One request a module answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `service.verb`.
    pub topic: &'static str,
    /// Who may send it.
    pub roles: Roles,
}

impl Endpoint {
    /// The endpoint of a service type.
    pub const fn of<S: Service>() -> Endpoint {
        Endpoint {
            topic: S::TOPIC,
            roles: S::ROLES,
        }
    }
}

/// Topic to module and mask.
#[derive(Debug, Default)]
pub struct Router {
    routes: BTreeMap<&'static str, (usize, Roles)>,
}

impl Router {
    /// Adds the endpoints of the module at this place; two modules answering
    /// one topic is a bug.
    pub fn add(&mut self, module: usize, endpoints: &[Endpoint]) {
        for endpoint in endpoints {
            let earlier = self.routes.insert(endpoint.topic, (module, endpoint.roles));
            assert!(
                earlier.is_none(),
                "topic {} has two modules",
                endpoint.topic
            );
        }
    }

    /// The module that answers `message`, or why nobody does.
    pub fn route(&self, message: &Message) -> Result<usize, Refusal> {
        let Some((module, mask)) = self.routes.get(message.topic.as_str()) else {
            let text = format!(
                "no service matches the topic `{}`",
                message.topic.escape_debug()
            );
            return Err(Refusal::new(Code::NoService, text));
        };
        if !message.roles.any_of(*mask) {
            let text = format!(
                "{}: user {} may not ask for this; {} may",
                message.topic,
                message.uid,
                who(*mask)
            );
            return Err(Refusal::new(Code::Denied, text));
        }
        Ok(*module)
    }
}

/// Those who have a role of a mask, in words.
fn who(mask: Roles) -> &'static str {
    if mask.any_of(Roles::USER) {
        "users that the instance admits"
    } else if mask.any_of(Roles::ADMIN) {
        "the owner and admins"
    } else {
        "the owner"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(topic: &str, roles: Roles) -> Result<usize, Code> {
        let mut router = Router::default();
        router.add(
            3,
            &[Endpoint {
                topic: "job.list",
                roles: Roles::OWNER.or(Roles::USER),
            }],
        );
        router.add(
            4,
            &[Endpoint {
                topic: "kvs.put",
                roles: Roles::OWNER,
            }],
        );
        let mut message = Message::request(topic, 1, &());
        message.roles = roles;
        router.route(&message).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_topic_finds_its_module() {
        assert_eq!(routed("job.list", Roles::USER), Ok(3));
        assert_eq!(routed("kvs.put", Roles::OWNER), Ok(4));
    }

    #[test]
    fn who_is_refused_is_told_who_may() {
        let mut router = Router::default();
        let endpoint = |topic, roles| Endpoint { topic, roles };
        router.add(
            1,
            &[
                endpoint("resource.drain", Roles::OWNER.or(Roles::ADMIN)),
                endpoint("kvs.put", Roles::OWNER),
            ],
        );
        let refused = |topic: &str| {
            let mut message = Message::request(topic, 1, &());
            (message.roles, message.uid) = (Roles::USER, 1001);
            router.route(&message).map_err(|refusal| refusal.text)
        };
        let may_not = "user 1001 may not ask for this";
        assert_eq!(
            refused("resource.drain"),
            Err(format!(
                "resource.drain: {may_not}; the owner and admins may"
            ))
        );
        assert_eq!(
            refused("kvs.put"),
            Err(format!("kvs.put: {may_not}; the owner may"))
        );
    }

    #[test]
    fn nobody_is_allowed_by_default() {
        assert_eq!(routed("job.list", Roles::NONE), Err(Code::Denied));
        assert_eq!(routed("kvs.put", Roles::USER), Err(Code::Denied));
        assert_eq!(routed("job.other", Roles::OWNER), Err(Code::NoService));
    }
}
