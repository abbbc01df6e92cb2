//! What a submission asks for, as a jobspec.

use eddy_wire::constraint::Constraint;
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::jobspec::Sharing;
use serde_json::{Value, json};

use super::{Ask, InSockets, Nests};

impl Ask {
    /// One more thing that it waits for.
    pub fn waits_for(&mut self, scheme: &str, value: String) {
        self.dependencies.push((scheme.to_owned(), value));
    }

    fn constraint(&self) -> Option<Constraint> {
        let ranks = self.ranks.clone().map(Constraint::Ranks);
        let text = self.requires.as_ref();
        let like = text.map(|text| Constraint::from_query(text).expect("a query"));
        like.or(ranks)
    }

    /// As a jobspec of version 1 (RFC 25).
    pub fn jobspec(&self) -> Value {
        let (resource, count) = self.resource();
        json!({
            "resources": [resource],
            "tasks": [{ "command": self.command, "slot": "task", "count": count }],
            "attributes": { "system": self.system() },
            "version": 1,
        })
    }

    /// The resource tree and the count of tasks.
    fn resource(&self) -> (Value, Value) {
        let mut with = vec![json!({ "type": "core", "count": self.cores })];
        if self.gpus > 0 {
            with.push(json!({ "type": "gpu", "count": self.gpus }));
        }
        let slot =
            |count: u32| json!({ "type": "slot", "count": count, "with": with, "label": "task" });
        if let Some(sockets) = self.sockets {
            return (
                self.in_sockets(sockets, &with),
                json!({ "total": self.ntasks }),
            );
        }
        match self.nodes {
            None => (slot(self.ntasks), json!({ "per_slot": 1 })),
            Some(nodes) => {
                let slots = self.ntasks.div_ceil(nodes.max(1));
                let count = match self.most {
                    Some(most) => json!(format!("{nodes}-{most}")),
                    None => json!(nodes),
                };
                let mut node = json!({ "type": "node", "count": count, "with": [slot(slots)] });
                if self.sharing == Sharing::Exclusive {
                    node["exclusive"] = Value::Bool(true);
                }
                let tasks = match self.most {
                    Some(_) => json!({ "per_slot": 1 }),
                    None => json!({ "total": self.ntasks }),
                };
                (node, tasks)
            }
        }
    }

    fn in_sockets(&self, sockets: InSockets, contents: &[Value]) -> Value {
        let slot = |count: u32, with: &[Value]| json!({ "type": "slot", "count": count, "with": with, "label": "task" });
        let tasks = self.ntasks.div_ceil(self.nodes.unwrap_or(1).max(1));
        let (count, exclusive) = match sockets {
            InSockets::Of(count) => (count, false),
            InSockets::Alone(count) => (count, true),
            InSockets::Each(count) => {
                let socket = json!({ "type": "socket", "count": count, "with": contents });
                return self.on_nodes(slot(tasks, &[socket]));
            }
        };
        let slots = slot(tasks.div_ceil(count.max(1)), contents);
        let socket =
            json!({ "type": "socket", "count": count, "exclusive": exclusive, "with": [slots] });
        self.on_nodes(socket)
    }

    fn on_nodes(&self, with: Value) -> Value {
        match self.nodes {
            None => with,
            Some(nodes) => {
                let exclusive = self.sharing == Sharing::Exclusive;
                json!({ "type": "node", "count": nodes, "exclusive": exclusive, "with": [with] })
            }
        }
    }

    fn system(&self) -> Value {
        let mut system = json!({ "duration": self.limit, "job": { "name": self.name } });
        if let Some(warning) = self.warning {
            let left = seconds_of_micros(warning.left.0);
            let signal = json!({ "signum": warning.signal, "timeleft": left });
            system["shell"] = json!({ "options": { "signal": signal } });
        }
        if (self.nodes, self.sharing) == (None, Sharing::Exclusive) {
            system["place"] = json!("excl");
        }
        if self.memory > 0 {
            system["memory_per_task"] = json!(self.memory);
        }
        match self.nests {
            Nests::No => {}
            Nests::Instance => system["instance"] = json!({}),
            Nests::Beside => system["beside"] = json!(true),
            Nests::Grows(of) => system["grows"] = json!(of.0),
        }
        if let Some(constraint) = self.constraint() {
            system["constraints"] = constraint.to_value();
        }
        if let Some(queue) = &self.queue {
            system["queue"] = json!(queue);
        }
        if !self.dependencies.is_empty() {
            let one =
                |(scheme, value): &(String, String)| json!({"scheme": scheme, "value": value});
            system["dependencies"] = self.dependencies.iter().map(one).collect();
        }
        if let Some(most) = self.throttle {
            system["array"] = json!({ "throttle": most });
        }
        let has_tasks = matches!(self.nests, Nests::No | Nests::Beside);
        if let Some(grace) = self.grace.filter(|_| has_tasks) {
            system["grace"] = json!(grace.0 as f64 / 1e6);
        }
        if let Some(set) = &self.set {
            system["job_set"] = json!(set);
        }
        for (name, count) in &self.pools {
            system["pools"][name] = json!(count);
        }
        if let Some((name, size, min)) = &self.gang {
            system["gang"] = json!({ "name": name, "size": size, "min": min });
        }
        if let Some(name) = &self.reservation {
            system["reservation"] = json!(name);
        }
        if let Some(qos) = &self.qos {
            system["qos"] = json!(qos);
        }
        if let Some(class) = &self.class {
            system["class"] = json!(class);
        }
        if let Some(account) = &self.account {
            system["account"] = json!(account);
        }
        system
    }
}
