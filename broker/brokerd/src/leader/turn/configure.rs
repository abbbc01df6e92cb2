//! Another configuration: requests for it, what the thread that looked at it says, and what the driver
//! obeys of it itself.
//!
//! Part of the loop. What modules obey they fold.

use eddy_broker::{Arrival, Caller, Effect, Reply};
use eddy_wire::access::Access;
use eddy_wire::event::Record;
use eddy_wire::message::{Message, Type};

use super::Leader;
use crate::config::Config;
use crate::leader::reload::{self, Candidate};

impl Leader {
    /// Takes a request to change the configuration, if it is one.
    pub(super) fn configures(&mut self, message: &Message, to: Caller) -> bool {
        let Some(asked) = reload::asked(message) else {
            return false;
        };
        let user = message.uid;
        let looked =
            asked.and_then(|(asked, trial)| self.configuring.look(asked, trial, (to, user)));
        if let Err(refusal) = looked {
            self.act(Effect::Reply(Reply::new(to, Type::Refused, &refusal)));
        }
        true
    }

    /// A configuration was read and checked, or is wrong.
    pub(super) fn candidate(&mut self, to: Caller, found: Result<Box<Candidate>, Vec<String>>) {
        match self.configuring.looked(found) {
            Ok(memo) => {
                self.handle(Arrival::Configure(to, memo));
                self.configuring.judged();
            }
            Err(reloaded) => self.act(Effect::Reply(Reply::new(to, Type::Reply, &reloaded))),
        }
    }

    /// A record that may say that another configuration is in force.
    pub(super) fn recorded(&mut self, record: &Record) {
        let Some((config, access)) = self.configuring.recorded(record) else {
            return;
        };
        if let Some(access) = access {
            self.admit(&access);
        }
        let limits = config.instance.limits;
        self.peers.set_limits(limits);
        self.tree.limit(self.clock.now(), limits.of_clients());
        self.store.set_purging(&config.instance);
        self.filters.want(&config.instance.filters);
        self.config = Config {
            rank: self.config.rank.clone(),
            ..config
        };
    }

    /// These may connect from now on, here and at the other ranks.
    pub(super) fn admit(&mut self, access: &Access) {
        if let Some(out) = self.peers.readmit(access) {
            self.tree.admit(self.clock.now(), access);
            for client in out {
                tracing::info!(
                    client = client.0,
                    "the configuration admits that user no more"
                );
                self.close_client(client);
            }
        }
    }
}
