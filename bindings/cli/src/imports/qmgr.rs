//! What `qmgr -c 'print server'` writes: `create queue NAME`, `set queue NAME KEY = VALUE`,
//! `set server KEY = VALUE`.

use std::collections::BTreeSet;

use super::{Found, Queue, list, plain};

/// Users of queues are there only where their list is switched on.
#[derive(Default)]
struct Users {
    listed: Vec<String>,
    counted: bool,
}

pub(super) fn read(text: &str) -> Found {
    let mut reading = Reading::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            reading.line(number, line);
        }
    }
    reading.done()
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    found: Found,
    /// Of each queue.
    users: Vec<Users>,
    /// Queues that only route.
    routes: BTreeSet<String>,
    default: Option<(usize, String)>,
}

impl Reading {
    fn line(&mut self, number: usize, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = &mut self.found;
        match words.as_slice() {
            ["create", "queue", name] => self.create(number, name),
            ["set", "queue", name, key, "=" | "+=", value @ ..] => {
                let mut queues = found.queues.iter();
                let place = queues.position(|queue| queue.name == plain(name));
                let value = value.join(" ");
                match place {
                    Some(_) if *key == "queue_type" && value.starts_with(['r', 'R']) => {
                        self.routes.insert(plain(name));
                        let why = "a queue that routes to others is not taken over";
                        found.note(number, format!("queue {name}: {why}"));
                    }
                    Some(at) => queue(number, line, at, (key, &value), &mut self.users, found),
                    None => unknown(number, line, found),
                }
            }
            ["set", "server", "default_queue", "=", name] => {
                self.default = Some((number, plain(name)));
            }
            ["set", "server", "resources_default.walltime", "=", time] => match walltime(time) {
                Some(seconds) => found.key("defaults", format!("time = {seconds}")),
                None => unknown(number, line, found),
            },
            ["set", "server", "kill_delay", "=", seconds] if seconds.parse::<u32>().is_ok() => {
                found.key("exec", format!("kill_grace = {seconds}"));
            }
            _ => unknown(number, line, found),
        }
    }

    fn create(&mut self, number: usize, name: &str) {
        let queue = Queue {
            name: plain(name),
            ..Queue::default()
        };
        if queue.name != name {
            let text = format!("queue {name}: is called {}", queue.name);
            self.found.note(number, text);
        }
        self.found.queues.push(queue);
        self.users.push(Users::default());
    }

    fn done(self) -> Found {
        let Reading {
            mut found,
            users,
            routes,
            default,
        } = self;
        for (queue, users) in found.queues.iter_mut().zip(users) {
            if users.counted && !users.listed.is_empty() {
                let names = users.listed.iter().map(String::as_str);
                queue.keys.insert("users", list(names));
            }
        }
        found.queues.retain(|queue| !routes.contains(&queue.name));
        let Some((number, name)) = default else {
            return found;
        };
        match found.queues.iter_mut().find(|queue| queue.name == name) {
            Some(queue) => drop(queue.keys.insert("default", "true".to_owned())),
            None => {
                let why = "is not taken over, there is no such queue";
                found.note(number, format!("default_queue = {name}: {why}"));
            }
        }
        found
    }
}

fn queue(
    number: usize,
    line: &str,
    at: usize,
    (key, value): (&str, &str),
    users: &mut [Users],
    found: &mut Found,
) {
    let queue = &mut found.queues[at];
    let count = value.parse::<u32>().ok();
    let mut put = |key, value: Option<String>| {
        let given = value.is_some();
        queue.keys.extend(value.map(|value| (key, value)));
        given
    };
    let whole = count
        .filter(|count| *count > 0)
        .map(|count| count.to_string());
    let seconds = || walltime(value).map(|seconds| seconds.to_string());
    let known = match key {
        "queue_type" => true,
        "Priority" => put("priority", value.parse::<i64>().ok().map(|n| n.to_string())),
        "resources_max.walltime" => put("max_time", seconds()),
        "resources_default.walltime" => put("default_time", seconds()),
        "resources_max.nodect" | "resources_max.nodes" => put("max_nodes", whole),
        "resources_min.nodect" | "resources_min.nodes" => put("min_nodes", whole),
        "resources_max.ncpus" => put("max_cores", whole),
        "max_running" => set(&mut queue.limits.running_jobs, count),
        "max_queuable" => set(&mut queue.limits.submitted_jobs, count),
        "max_user_run" => set(&mut queue.user_limits.running_jobs, count),
        "max_user_queuable" => set(&mut queue.user_limits.submitted_jobs, count),
        "max_run" => counted(
            value,
            &mut queue.limits.running_jobs,
            &mut queue.user_limits.running_jobs,
        ),
        "max_queued" => counted(
            value,
            &mut queue.limits.submitted_jobs,
            &mut queue.user_limits.submitted_jobs,
        ),
        "resources_default.neednodes" => put("requires", properties(value)),
        "acl_users" => {
            let names = value
                .split(',')
                .map(|name| name.trim().split('@').next().unwrap_or_default());
            users[at].listed.extend(names.map(str::to_owned));
            true
        }
        "acl_user_enable" => {
            users[at].counted = is_true(value);
            true
        }
        "enabled" | "started" if is_true(value) => true,
        "enabled" | "started" => {
            let verb = if key == "enabled" { "disable" } else { "stop" };
            let text = format!(
                "{line}: is said to the running instance: `eddy queue {verb} {}`",
                queue.name
            );
            return found.note(number, text);
        }
        _ => false,
    };
    if !known {
        unknown(number, line, found);
    }
}

fn set(place: &mut Option<u32>, count: Option<u32>) -> bool {
    *place = count.or(*place);
    count.is_some()
}

/// `[o:PBS_ALL=10]` is of all, `[u:PBS_GENERIC=5]` of each user; nobody else can be told apart.
fn counted(value: &str, all: &mut Option<u32>, each: &mut Option<u32>) -> bool {
    let mut known = true;
    for part in value.split(',') {
        let part = part.trim().trim_start_matches('[').trim_end_matches(']');
        let count = part
            .split_once('=')
            .and_then(|(_, count)| count.trim().parse().ok());
        let who = part.split('=').next().unwrap_or_default().trim();
        known &= match who {
            "o:PBS_ALL" => set(all, count),
            "u:PBS_GENERIC" => set(each, count),
            _ => false,
        };
    }
    known
}

/// What Torque asks of each node of a job that says nothing of nodes: `bigmem:ib`. A number of nodes
/// is none.
fn properties(value: &str) -> Option<String> {
    let is_property = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = value.split(':').all(is_property) && !value.contains(['+', '=', '|', '&']);
    plain.then(|| list(value.split(':')))
}

fn is_true(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "t" | "1" | "y" | "yes"
    )
}

/// hours:minutes:seconds, minutes:seconds, or seconds.
fn walltime(text: &str) -> Option<u64> {
    let mut seconds: u64 = 0;
    for part in text.split(':') {
        let part: u64 = part.parse().ok()?;
        seconds = seconds.checked_mul(60)?.checked_add(part)?;
    }
    (seconds > 0).then_some(seconds)
}

fn unknown(number: usize, line: &str, found: &mut Found) {
    found.note(number, format!("{line}: is not taken over"));
}
