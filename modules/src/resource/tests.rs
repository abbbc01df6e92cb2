//! What is in service of nodes that the parent has drained.

use eddy_wire::event::{Basis, Event};
use eddy_wire::resource_set::NodeSet;
use serde_json::json;

use super::*;

#[test]
fn what_the_parent_has_drained_is_not_in_service() {
    let nodes = (0..2).map(|rank| {
        let cores = Idset::one(0);
        let node = NodeSet {
            cores,
            ..NodeSet::default()
        };
        (Rank(rank), node)
    });
    let set = Arc::new(ResourceSet {
        nodes: nodes.collect(),
        ..ResourceSet::default()
    });
    let mut resource = Resource::new(&Settings::for_inventory(Arc::clone(&set)));
    let closed = json!([
        {"ranks": "1"},
        {"ranks": "0", "from": 0.0, "until": 9.0},
    ]);
    let told = json!({"queues": [], "holds": "nodes", "closed": closed});
    let memo = [("queues-above".to_owned(), told)].into_iter().collect();
    let kinds = [
        Kind::ResourceDefine(set, Basis::default()),
        Kind::ShellStart(Idset::range(0, 1), Epoch(1)),
        Kind::Memo(memo),
    ];
    for (seq, kind) in (1..).map(Seq).zip(kinds) {
        let (t, job) = (Time(0), None);
        let event = Event { t, job, kind };
        resource.apply(&Record { seq, event });
    }
    resource.seats.connected(Epoch(1));
    let closed: Vec<bool> = resource.status().iter().map(|rank| rank.closed).collect();
    assert_eq!(closed, [false, true]);
    let listed = resource.list();
    assert_eq!(
        (listed.free.ranks(), listed.down.ranks()),
        (Idset::one(0), Idset::one(1))
    );
}
