//! What the modules of a leader are told, and whose word it is who may connect.
//!
//! Called by the start, and by the thread that reads another configuration: both have to come to
//! the same. It looks nothing up.

use std::sync::Arc;

use eddy_modules::Settings;
use eddy_modules::settings::{Declared, Queue, ReleaseIdle, UserMax};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;

use super::access::Admits;
use super::granted::Nested;
use crate::config::{self, Config};
use crate::own::Own;

/// What modules are told, as far as the configuration and the parent say it.
pub(super) fn settings(
    config: &Config,
    told: Arc<ResourceSet>,
    nested: Option<&Nested>,
) -> Settings {
    let mut settings = Settings::for_inventory(told);
    settings.owner = rustix::process::geteuid().as_raw();
    settings.kill_grace = config.instance.kill_grace;
    let of = &config.instance;
    (settings.lease, settings.autonomous_after) = (of.lease, of.autonomous_after);
    settings.hung_after = of.hung_after;
    let keep = of.keep_nodes;
    settings.release_idle = of.release_idle.map(|after| ReleaseIdle { after, keep });
    settings.policy = Arc::clone(&config.instance.policy);
    settings.jobs_max = config.instance.limits.waiting_jobs;
    settings.user_max = UserMax {
        jobs: config.instance.limits.user_jobs,
        copies: config.instance.limits.user_copies,
    };
    if let Some(age) = config.instance.keep_age {
        settings.key_age_max = settings.key_age_max.min(age);
    }
    let declared = config.instance.declared.iter();
    settings.declared = declared.map(|one| one.to_settings()).collect();
    inherit(&mut settings.declared, config);
    let queues = config.instance.queues.iter();
    settings.queues = queues.map(|one| timed(one.to_settings(), config)).collect();
    settings.default_time = config.instance.default_time;
    settings.qos.clone_from(&config.instance.qos);
    settings.pools.clone_from(&config.instance.pools);
    settings.filters.clone_from(&config.instance.filters);
    settings.classes.clone_from(&config.instance.classes);
    settings.instance_command = instance_command();
    if let Some(nested) = nested {
        settings.kill_grace = grace(config, nested.kept.granted.kill_grace);
        settings.place = nested.place();
    }
    settings
}

/// From TERM to KILL in an instance that is told to take no longer than that: as long, unless it says that it is
/// quicker. What is promised around it counts on the end that it is told.
fn grace(config: &Config, told: Span) -> Span {
    match config::other_than_default(config, "exec.kill_grace") {
        Some(_) => config.instance.kill_grace.min(told),
        None => told,
    }
}

/// What declared instances have as this one, where they say nothing else. `exec.kill_grace` is told with what they
/// are granted.
const INHERITED: [&str; 4] = [
    "defaults.time",
    "exec.hung_after",
    "grant.autonomous_after",
    "grant.lease",
];

/// Gives declared instances what they have as this one.
fn inherit(declared: &mut [Declared], config: &Config) {
    let given = |path: &'static str| Some((path, config::other_than_default(config, path)?));
    for (path, value) in INHERITED.into_iter().filter_map(given) {
        let says = |set: &String| set.split('=').next().map(str::trim) == Some(path);
        for one in declared.iter_mut() {
            if !one.set.iter().any(says) {
                one.set.push(format!("{path}={value}"));
            }
        }
    }
}

/// A queue, whose jobs have the time limit of the instance that it leads to where the queue says none: they are given
/// it here, where they are submitted.
fn timed(mut queue: Queue, config: &Config) -> Queue {
    let mut declared = config.instance.declared.iter();
    let leads_to = declared.find(|one| queue.instance.as_ref() == Some(&one.name));
    let time = leads_to.and_then(|one| one.default_time());
    queue.rules.default_time = queue.rules.default_time.or(time);
    queue
}

/// What leads a declared instance: this program.
fn instance_command() -> Vec<String> {
    let own = Own::find();
    let own = own.map_or_else(|_| "eddy".into(), |own| own.name.display().to_string());
    vec![own, "broker".to_owned(), "--child".to_owned()]
}

/// Whose word it is who may connect.
pub(super) fn admits(owner: u32, nested: Option<&Nested>) -> Admits {
    match nested.map(|nested| &nested.kept.granted) {
        Some(granted) => granted
            .admits()
            .map_or(Admits::Owner, |access| Admits::Parent(access.clone())),
        None => Admits::Configured(owner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_instances_have_what_this_one_says_unless_they_say_otherwise() {
        let text = "[exec]\nhung_after = \"never\"\n\
                    [grant]\nlease = \"90s\"\nautonomous_after = \"0.5s\"\n\
                    [defaults]\ntime = \"1h\"\n\
                    [[instance]]\nname = \"a\"\nnodes = 1\nset = { \"grant.lease\" = \"4s\" }\n\
                    [[instance]]\nname = \"b\"\nnodes = 1\n";
        let config = config::load(text, &[]).expect("it is whole");
        let declared = settings(&config, Arc::default(), None).declared;
        for (one, lease) in declared.iter().zip([4, 90]) {
            let own = config::load("", &one.set).expect("it is whole").instance;
            assert_eq!(own.hung_after, None);
            assert_eq!(own.lease, Span::seconds(lease), "{:?}", one.set);
            assert_eq!(own.autonomous_after, Some(Span(500_000)));
            assert_eq!(own.default_time, Some(Span::seconds(3600)));
        }
        let config = config::load("[[instance]]\nname = \"a\"\nnodes = 1\n", &[]);
        let config = config.expect("it is whole");
        let declared = settings(&config, Arc::default(), None).declared;
        assert_eq!(declared[0].set, Vec::<String>::new());
    }

    #[test]
    fn an_instance_is_as_quick_as_it_says_and_no_slower_than_it_is_told() {
        let told = Span::seconds(9);
        for (said, of) in [("", 9), ("= \"2s\"", 2), ("= \"1m\"", 9)] {
            let line = match said {
                "" => String::new(),
                said => format!("[exec]\nkill_grace {said}\n"),
            };
            let config = config::load(&line, &[]).expect("it is whole");
            assert_eq!(grace(&config, told), Span::seconds(of), "{line}");
        }
    }

    #[test]
    fn jobs_of_a_queue_have_the_time_of_its_instance_before_that_of_the_root() {
        let text = "[defaults]\ntime = \"1h\"\n\
                    [[instance]]\nname = \"a\"\nnodes = 1\nset = { \"defaults.time\" = \"10m\" }\n\
                    [[instance]]\nname = \"b\"\nnodes = 1\n\
                    [[queue]]\nname = \"one\"\ninstance = \"a\"\n\
                    [[queue]]\nname = \"two\"\ninstance = \"a\"\ndefault_time = \"5m\"\n\
                    [[queue]]\nname = \"three\"\ninstance = \"b\"\n";
        let config = config::load(text, &[]).expect("it is whole");
        let settings = settings(&config, Arc::default(), None);
        let times = settings.queues.iter().map(|queue| queue.rules.default_time);
        let minutes = |minutes: i64| Some(Span::seconds(minutes * 60));
        assert_eq!(times.collect::<Vec<_>>(), [minutes(10), minutes(5), None]);
        assert_eq!(settings.default_time, minutes(60));
    }
}
