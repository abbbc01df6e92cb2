//! What `qmgr -c 'print server'` writes: `create queue NAME`, `set queue NAME KEY = VALUE`,
//! `set server KEY = VALUE`.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::jobspec::parse_bytes;

use super::access::members;
use super::{Found, Host, Queue, list};

/// What is said of a list of names, which counts only where it is switched on.
#[derive(Default)]
struct Names {
    line: usize,
    listed: Vec<String>,
    counted: bool,
}

/// What is said of a queue beside what becomes a key at once.
#[derive(Default)]
struct Beside {
    users: Names,
    groups: Names,
    hosts: Names,
    /// That its jobs come from queues that route: where that is said.
    routed: Option<usize>,
    /// Whether it only routes.
    routes: bool,
    /// What is said to the running instance: line, text and the verb of `eddy queue`.
    switched: Vec<(usize, String, &'static str)>,
    /// Its time limit by default, where it stands.
    default_time: Option<(usize, String)>,
}

pub(super) fn read(text: &str, host: &dyn Host) -> Found {
    let mut reading = Reading::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            reading.line(number, line);
        }
    }
    reading.done(host)
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    found: Found,
    /// Of each queue.
    beside: Vec<Beside>,
    /// Where queues are, by the names that the text has.
    queues: BTreeMap<String, usize>,
    default: Option<(usize, String)>,
    users: Names,
    admins: Names,
}

impl Reading {
    fn line(&mut self, number: usize, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["create", "queue", name] => self.create(number, name),
            ["set", "queue", name, key, "=" | "+=", value @ ..] => match self.queues.get(*name) {
                Some(at) => {
                    let (queue, beside) = (*at, &mut self.beside[*at]);
                    let value = value.join(" ");
                    set_queue(number, line, (key, &value), queue, beside, &mut self.found);
                }
                None => unknown(number, line, &mut self.found),
            },
            ["set", "server", key, "=" | "+=", value @ ..] => {
                self.server(number, line, key, &value.join(" "));
            }
            _ => unknown(number, line, &mut self.found),
        }
    }

    fn create(&mut self, number: usize, name: &str) {
        if self.queues.contains_key(name) {
            let why = format!("create queue {name}: is there already");
            return self.found.note(number, why);
        }
        let queues = self.found.queues.iter();
        let taken: BTreeSet<String> = queues.map(|queue| queue.name.clone()).collect();
        let queue = self.found.queue(number, "queue ", name, &taken);
        self.queues.insert(name.to_owned(), self.found.queues.len());
        self.found.queues.push(queue);
        self.beside.push(Beside::default());
    }

    fn server(&mut self, number: usize, line: &str, key: &str, value: &str) {
        let found = &mut self.found;
        match key {
            "default_queue" => self.default = Some((number, value.to_owned())),
            "resources_default.walltime" => match walltime(value) {
                Some(seconds) => found.key("defaults", format!("time = {seconds}")),
                None => unknown(number, line, found),
            },
            "kill_delay" if value.parse::<u32>().is_ok() => {
                found.key("exec", format!("kill_grace = {value}"));
            }
            "acl_users" => self.users.add(number, value, found),
            "acl_user_enable" => self.users.counted = is_true(value),
            "managers" => self.admins.add(number, value, found),
            "query_other_jobs" => match is_true(value) {
                true => {}
                false => found.key("access", "private = true".to_owned()),
            },
            _ => unknown(number, line, found),
        }
    }

    fn done(self, host: &dyn Host) -> Found {
        let Reading {
            mut found,
            beside,
            queues,
            default,
            users,
            admins,
        } = self;
        let is_kept =
            |beside: &Beside| beside.users.counted || beside.groups.counted || beside.hosts.counted;
        let is_kept = beside.iter().any(|beside| beside.routes && is_kept(beside));
        let mut routes = BTreeSet::new();
        for (at, beside) in beside.into_iter().enumerate() {
            match beside.routes {
                true => {
                    routes.insert(found.queues[at].name.clone());
                    for (line, text, _) in beside.switched {
                        unknown(line, &text, &mut found);
                    }
                }
                false => beside.done(at, is_kept, host, &mut found),
            }
        }
        if users.counted {
            let names = users.known(host, "access.users", &mut found);
            found.key("access", format!("users = {names}"));
        }
        if !admins.listed.is_empty() {
            let names = admins.known(host, "access.admins", &mut found);
            found.key("access", format!("admins = {names}"));
        }
        if let Some((number, name)) = default {
            let queue = queues.get(&name).map(|at| found.queues[*at].name.clone());
            let queue = queue.filter(|name| !routes.contains(name));
            match found
                .queues
                .iter_mut()
                .find(|one| Some(&one.name) == queue.as_ref())
            {
                Some(queue) => drop(queue.keys.insert("default", "true".to_owned())),
                None => {
                    let why = "is not taken over, there is no such queue";
                    found.note(number, format!("default_queue = {name}: {why}"));
                }
            }
        }
        found.queues.retain(|queue| !routes.contains(&queue.name));
        found.notes.sort_by_key(|(line, _)| *line);
        found
    }
}

impl Names {
    /// `ann@*,bob@node1`: of whom it is said on which hosts he may be, that counts for nothing here.
    fn add(&mut self, line: usize, value: &str, found: &mut Found) {
        self.line = line;
        for entry in value
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
        {
            if entry.starts_with('-') {
                // Nobody is in such a list who is not named.
                let name = entry.trim_start_matches('-').split('@').next();
                self.listed.retain(|listed| Some(listed.as_str()) != name);
                continue;
            }
            let entry = entry.trim_start_matches('+');
            let (name, host) = entry.split_once('@').unwrap_or((entry, "*"));
            if host != "*" {
                found.once(line, format!("{entry}: counts on every host"));
            }
            self.listed.push(name.to_owned());
        }
    }

    fn set(&self) -> BTreeSet<String> {
        self.listed.iter().cloned().collect()
    }

    /// As a list, without those whom this host does not know.
    fn known(&self, host: &dyn Host, key: &str, found: &mut Found) -> String {
        let (known, unknown): (Vec<String>, Vec<String>) = self
            .set()
            .into_iter()
            .partition(|name| host.user(name).is_some());
        for name in unknown {
            let why = format!("{key}: user {name} is left out: this host does not know him");
            found.note(self.line, why);
        }
        list(known.iter().map(String::as_str))
    }
}

impl Beside {
    /// What becomes of it in a queue that is taken over.
    fn done(self, at: usize, route_is_kept: bool, host: &dyn Host, found: &mut Found) {
        for (line, text, verb) in self.switched {
            let name = &found.queues[at].name;
            let text =
                format!("{text}: is said to the running instance: `eddy queue {verb} {name}`");
            found.note(line, text);
        }
        let queue = &mut found.queues[at];
        if self.users.counted {
            queue.access.only(self.users.set());
        }
        if self.groups.counted {
            let Names { line, listed, .. } = &self.groups;
            let said = format!("acl_groups = {}", listed.join(","));
            let groups: Vec<&str> = listed.iter().map(String::as_str).collect();
            if let Some(unknown) = queue.access.groups(*line, &said, &groups, host) {
                found.notes.push((*line, members(&said, &unknown)));
            }
        }
        if self.hosts.counted {
            let why = "acl_host_enable has no counterpart";
            queue.access.close(self.hosts.line, why.to_owned());
        }
        if let Some(line) = self
            .routed
            .filter(|_| route_is_kept && queue.access.is_open())
        {
            let why = "its jobs come from a queue that routes, which is not open to all";
            queue.access.close(line, why.to_owned());
        }
        let seconds = |key: &str| queue.keys.get(key)?.parse::<u64>().ok();
        if let (Some((line, text)), Some(default), Some(max)) = (
            self.default_time,
            seconds("default_time"),
            seconds("max_time"),
        ) && default > max
        {
            queue.keys.insert("default_time", max.to_string());
            let why = "is longer than resources_max.walltime: it becomes as long as that";
            found.notes.push((line, format!("{text}: {why}")));
        }
    }
}

/// One `set queue`.
fn set_queue(
    number: usize,
    line: &str,
    (key, value): (&str, &str),
    at: usize,
    beside: &mut Beside,
    found: &mut Found,
) {
    match key {
        "queue_type" if value.starts_with(['r', 'R']) => {
            beside.routes = true;
            let name = &found.queues[at].name;
            let text = format!("queue {name}: a queue that routes to others is not taken over");
            found.note(number, text);
        }
        "acl_users" => beside.users.add(number, value, found),
        "acl_user_enable" => beside.users.counted = is_true(value),
        "acl_groups" => beside.groups.add(number, value, found),
        "acl_group_enable" => {
            beside.groups.line = number;
            beside.groups.counted = is_true(value);
        }
        "acl_hosts" => {}
        "acl_host_enable" => {
            beside.hosts.line = number;
            beside.hosts.counted = is_true(value);
        }
        "from_route_only" if is_true(value) => {
            beside.routed = Some(number);
            unknown(number, line, found);
        }
        "enabled" | "started" if is_true(value) => {}
        "enabled" => beside.switched.push((number, line.to_owned(), "disable")),
        "started" => beside.switched.push((number, line.to_owned(), "stop")),
        "max_run" | "max_queued" => {
            let queue = &mut found.queues[at];
            let left = counted(key, value, queue);
            if !left.is_empty() {
                let text = format!("{key} = {}: is not taken over", left.join(","));
                found.note(number, text);
            }
        }
        _ => {
            if key == "resources_default.walltime" {
                beside.default_time = Some((number, line.to_owned()));
            }
            if !rule(key, value, &mut found.queues[at]) {
                unknown(number, line, found);
            }
        }
    }
}

/// What a queue asks of jobs; whether it has a counterpart.
fn rule(key: &str, value: &str, queue: &mut Queue) -> bool {
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
    match key {
        "queue_type" => true,
        "Priority" => put("priority", value.parse::<i64>().ok().map(|n| n.to_string())),
        "resources_max.walltime" => put("max_time", seconds()),
        "resources_default.walltime" => put("default_time", seconds()),
        "resources_max.nodect" | "resources_max.nodes" => put("max_nodes", whole),
        "resources_min.nodect" | "resources_min.nodes" => put("min_nodes", whole),
        "resources_max.ncpus" => put("max_cores", whole),
        "resources_default.neednodes" => put("requires", properties(value)),
        "resources_max.ngpus" => set(&mut queue.limits.job_gpus, count),
        "resources_max.mem" => set(&mut queue.limits.job_memory, memory(value)),
        "max_running" => set(&mut queue.limits.running_jobs, count),
        "max_queuable" => set(&mut queue.limits.submitted_jobs, count),
        "max_user_run" => set(&mut queue.user_limits.running_jobs, count),
        "max_user_queuable" => set(&mut queue.user_limits.submitted_jobs, count),
        _ => false,
    }
}

fn set<N: Copy>(place: &mut Option<N>, count: Option<N>) -> bool {
    *place = count.or(*place);
    count.is_some()
}

/// Bytes of `4gb`; a number without a unit counts bytes. Words (`1gw`) have no one size.
fn memory(text: &str) -> Option<u64> {
    parse_bytes(text).ok()
}

/// `[o:PBS_ALL=10]` is of all, `[u:PBS_GENERIC=5]` of each user; nobody else can be told apart. What is left.
fn counted(key: &str, value: &str, queue: &mut Queue) -> Vec<String> {
    let mut left = Vec::new();
    let (all, each) = (&mut queue.limits, &mut queue.user_limits);
    let (all, each) = match key {
        "max_run" => (&mut all.running_jobs, &mut each.running_jobs),
        _ => (&mut all.submitted_jobs, &mut each.submitted_jobs),
    };
    for part in value.split(',').map(str::trim) {
        let inner = part.trim_start_matches('[').trim_end_matches(']');
        let (who, count) = inner.split_once('=').unwrap_or((inner, ""));
        let count = count.trim().parse().ok();
        let known = match who.trim() {
            "o:PBS_ALL" => set(all, count),
            "u:PBS_GENERIC" => set(each, count),
            _ => false,
        };
        if !known {
            left.push(part.to_owned());
        }
    }
    left
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
