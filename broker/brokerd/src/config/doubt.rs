//! What a configuration may say and hardly means: nobody is ever let in, no job is ever small enough.
//!
//! Asked by who reads one for people: told as warnings, since an instance with it begins all the same, and it may be
//! right again when nodes come. What depends on nodes is known with an inventory only.

use eddy_wire::account::Limits;
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::resource_set::ResourceSet;
use toml::Table;

use super::declared::{DeclaredInstance, ROOT};
use super::extent::DeclaredExtent;
use super::queue::NamedQueue;
use super::{ConfigError, InstanceConfig, Users};

/// Each thing, by the path of its key, of one that is otherwise right; over these nodes, where they are known.
pub fn doubts(config: &InstanceConfig, inventory: Option<&ResourceSet>) -> Vec<ConfigError> {
    let queues = config.queues.iter().enumerate();
    let queues = queues.flat_map(|(at, queue)| {
        let path = format!("queue[{at}]");
        let small = too_small(config, inventory, (&path, queue));
        let lacks = inventory.and_then(|there| lacks(there, (&path, queue)));
        let least = queue.rules.min_nodes.unwrap_or(1);
        let limits = none_begins(&path, &queue.rules.limits, &queue.rules.user_limits, least);
        small.into_iter().chain(lacks).chain(limits)
    });
    let qos = config.qos.iter().enumerate().flat_map(|(at, qos)| {
        let path = format!("qos[{at}]");
        none_begins(&path, &qos.limits, &qos.user_limits, 1)
    });
    // With nodes it is asked by who is told by `-S` as well, as users' instances are that are to give some back.
    let idle = || inventory.is_none().then(|| gives_nothing(config)).flatten();
    let nobody = nobody(config).into_iter().chain(idle());
    nobody.chain(qos).chain(queues).collect()
}

/// Those that another configuration, which was in force before, did not have: who was told of one once is not told at
/// each change.
pub fn new_doubts(
    (config, table): (&InstanceConfig, &Table),
    before: &Table,
    inventory: &ResourceSet,
) -> Vec<ConfigError> {
    let (old, _) = super::read(&before.to_string(), &[]);
    let old = doubts(&old.instance, Some(inventory)).into_iter();
    // Entries of lists may stand elsewhere now.
    let old: Vec<ConfigError> = old.map(|doubt| doubt.by_name(before)).collect();
    let mut new = doubts(config, Some(inventory));
    new.retain(|doubt| !old.contains(&doubt.clone().by_name(table)));
    new
}

/// Limits under which no job of a queue or a QoS can ever begin, whose jobs have so many nodes at least. Someone may
/// mean it for a while, and a start with limits that were obeyed before is to be made: no error.
fn none_begins(path: &str, all: &Limits, of_user: &Limits, least: u32) -> Vec<ConfigError> {
    let of = [("limits", all), ("user_limits", of_user)];
    let found = of.into_iter().flat_map(|(table, limits)| {
        // A node that a job has gives it a core at least.
        let keys = [
            ("running_jobs", limits.running_jobs, 1),
            ("submitted_jobs", limits.submitted_jobs, 1),
            ("nodes", limits.nodes, least),
            ("cores", limits.cores, least),
            ("job_nodes", limits.job_nodes, least),
            ("job_cores", limits.job_cores, least),
        ];
        keys.into_iter().filter_map(move |(key, given, needs)| {
            let given = given.filter(|given| *given < needs)?;
            let why = match needs {
                1 => "no job can ever begin under it".to_owned(),
                needs => format!(
                    "no job can ever begin under it, as each has {needs} nodes at least (min_nodes)"
                ),
            };
            Some(ConfigError::Doubt {
                path: format!("{path}.{table}.{key}"),
                given: given.to_string(),
                why,
            })
        })
    });
    found.collect()
}

/// Nobody else may submit: where that is meant nothing need be written but at a root that everybody may use.
fn nobody(config: &InstanceConfig) -> Option<ConfigError> {
    let Users::Named(users) = &config.access.users else {
        return None;
    };
    users.is_empty().then(|| ConfigError::Doubt {
        path: "access.users".to_owned(),
        given: "[]".to_owned(),
        why: "nobody but the owner and admins is let in; \"all\" lets everybody in".to_owned(),
    })
}

/// Nodes are to go back by themselves: those of a root are its own, and what queue instances have is as it is declared.
fn gives_nothing(config: &InstanceConfig) -> Option<ConfigError> {
    let after = config.release_idle?;
    Some(ConfigError::Doubt {
        path: "grant.release_idle".to_owned(),
        given: format!("{} s", seconds_of_micros(after.0)),
        why: "only instances that users start give nodes back, by what those say (--release-idle of eddy batch)"
            .to_owned(),
    })
}

/// Jobs of a queue are to have more nodes than there are where it leads.
fn too_small(
    config: &InstanceConfig,
    inventory: Option<&ResourceSet>,
    (path, queue): (&str, &NamedQueue),
) -> Option<ConfigError> {
    let least = queue.rules.min_nodes?;
    let declared = config.declared.iter();
    let (where_it_leads, most) = match queue.instance.as_str() {
        ROOT => ("this instance".to_owned(), inventory?.nnodes()),
        name => {
            let instance = declared.into_iter().find(|one| one.name == name)?;
            (format!("instance `{name}`"), nodes_of(instance, inventory)?)
        }
    };
    (u64::from(least) > most).then(|| ConfigError::Doubt {
        path: format!("{path}.min_nodes"),
        given: least.to_string(),
        why: format!("{where_it_leads} has {most} at most, so that no job can be of this queue"),
    })
}

/// How many nodes one job there can have at most, as far as that is known.
fn nodes_of(instance: &DeclaredInstance, inventory: Option<&ResourceSet>) -> Option<u64> {
    let known = inventory.map(|there| instance.extent.resolved(there));
    match (known.as_ref().unwrap_or(&instance.extent), inventory) {
        (DeclaredExtent::Fixed { nodes, .. }, _) => Some(u64::from(*nodes)),
        (extent @ DeclaredExtent::Elastic { .. }, there) => {
            let all = there.map(ResourceSet::nnodes);
            extent.reach().map(|ranks| ranks.len()).or(all)
        }
        (DeclaredExtent::Picked(_), _) => None,
    }
}

/// A property that none of these nodes has.
fn lacks(there: &ResourceSet, (path, queue): (&str, &NamedQueue)) -> Option<ConfigError> {
    let named = queue.rules.requires.iter();
    let mut asked = named.filter(|name| !name.starts_with('^'));
    let lacking = asked.find(|name| there.ranks_with(name).is_disjoint(&there.ranks()))?;
    Some(ConfigError::Doubt {
        path: format!("{path}.requires"),
        given: format!("`{lacking}`"),
        why: "no node has that property, so that no job of this queue can begin".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{check, tests};

    /// Of a text, over four nodes of which none has a property, and without any.
    fn told(text: &str) -> [Vec<String>; 2] {
        let config = check(text).expect("nothing is wrong with it");
        [None, Some(tests::nodes(4))].map(|there| {
            let doubts = doubts(&config.instance, there.as_ref());
            doubts.iter().map(ToString::to_string).collect()
        })
    }

    #[test]
    fn a_queue_whose_jobs_need_more_nodes_than_its_instance_has_is_doubted() {
        let text = "[[instance]]\nname = \"own\"\nnodes = 2\n[[instance]]\nname = \"any\"\nelastic = \"0-2\"\n\
                    [[queue]]\nname = \"a\"\ninstance = \"own\"\nmin_nodes = 2\n\
                    [[queue]]\nname = \"b\"\ninstance = \"own\"\nmin_nodes = 3\n\
                    [[queue]]\nname = \"c\"\ninstance = \"any\"\nmin_nodes = 4\n\
                    [[queue]]\nname = \"d\"\ninstance = \"root\"\nmin_nodes = 5";
        let no_job = "so that no job can be of this queue";
        let own = format!("queue[1].min_nodes: is 3; instance `own` has 2 at most, {no_job}");
        let any = format!("queue[2].min_nodes: is 4; instance `any` has 3 at most, {no_job}");
        let root = format!("queue[3].min_nodes: is 5; this instance has 4 at most, {no_job}");
        let [alone, there] = told(text);
        assert_eq!(alone, [own.clone(), any.clone()]);
        assert_eq!(there, [own, any, root]);
    }

    #[test]
    fn that_nodes_of_a_file_s_instance_go_back_is_doubted() {
        let why = "only instances that users start give nodes back, by what those say (--release-idle of eddy batch)";
        let [alone, there] = told("[grant]\nrelease_idle = \"1m\"\n");
        assert_eq!(alone, [format!("grant.release_idle: is 60 s; {why}")]);
        assert_eq!(there, Vec::<String>::new());
    }

    #[test]
    fn limits_under_which_nothing_can_begin_are_doubted() {
        let text = "[[qos]]\nname = \"a\"\nlimits = { running_jobs = 0, gpus = 0 }\n\
                    [[queue]]\nname = \"b\"\nmin_nodes = 3\nlimits = { nodes = 2, cores = 2, job_nodes = 3 }\n\
                    user_limits = { nodes = 3, job_cores = 1, submitted_jobs = 0 }\n\
                    [[queue]]\nname = \"c\"\nuser_limits = { nodes = 1, running_jobs = 1, cores = 1 }";
        let none = "no job can ever begin under it";
        let wide = format!("{none}, as each has 3 nodes at least (min_nodes)");
        assert_eq!(
            told(text)[0],
            [
                format!("qos[0].limits.running_jobs: is 0; {none}"),
                format!("queue[0].limits.nodes: is 2; {wide}"),
                format!("queue[0].limits.cores: is 2; {wide}"),
                format!("queue[0].user_limits.submitted_jobs: is 0; {none}"),
                format!("queue[0].user_limits.job_cores: is 1; {wide}"),
            ]
        );
    }

    #[test]
    fn a_doubt_that_was_there_before_is_none_that_is_new() {
        let queue =
            |name: &str, least| format!("[[queue]]\nname = \"{name}\"\nmin_nodes = {least}\n");
        let before = queue("a", 5) + &queue("b", 6);
        let after = queue("c", 7) + &queue("a", 5) + &queue("b", 8);
        let config = check(&after).expect("nothing is wrong with it");
        let [table, before] = [&after, &before].map(|text| text.parse().expect("TOML"));
        let new = new_doubts((&config.instance, &table), &before, &tests::nodes(4));
        let paths: Vec<&str> = new.iter().map(ConfigError::path).collect();
        assert_eq!(paths, ["queue[0].min_nodes", "queue[2].min_nodes"]);
    }

    #[test]
    fn an_instance_that_lets_nobody_in_is_doubted() {
        let nobody = "access.users: is []; nobody but the owner and admins is let in; \"all\" lets everybody in";
        assert_eq!(told("access.users = []")[0], [nobody]);
        assert_eq!(told("access.users = \"all\"")[0], [""; 0]);
        assert_eq!(told("")[0], [""; 0]);
    }

    #[test]
    fn a_property_that_no_node_has_is_doubted_where_nodes_are_known() {
        let text = "[[queue]]\nname = \"a\"\nrequires = [\"fast\"]\n[[queue]]\nname = \"b\"\nrequires = [\"^fast\"]";
        let lacks = "queue[0].requires: is `fast`; no node has that property, so that no job of this queue can begin";
        let [alone, there] = told(text);
        assert_eq!((alone.len(), there), (0, vec![lacks.to_owned()]));
    }
}
