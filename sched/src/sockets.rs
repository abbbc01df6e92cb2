//! Which sockets of a node serve a request, and what it is given of them.
//!
//! One level below the node there is nothing to search: sockets that will do are counted, and the
//! fullest of them are taken. Asked by feasibility and by the occupancy, which say what of a node is
//! there; the amounts on nodes stay the business of `placement`.

use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Sharing, SocketGroup};
use eddy_wire::resource_set::{NodeSet, Socket};

use crate::need::{Need, Spread};
use crate::placement::Short;
use crate::rooms::{Room, Rooms};
use crate::within::Within;

/// How many groups lie on a node of which this is there, of which no more than `room` may be taken.
pub(crate) fn groups(group: &SocketGroup, node: &NodeSet, there: &NodeSet, room: &Room) -> u64 {
    let each = u64::from(group.sockets.max(1));
    let parts = serving(group, node, there);
    if group.sharing == Sharing::Shared {
        return parts.len() as u64 / each;
    }
    // A whole socket may be more than was asked for.
    let (mut cores, mut gpus) = (0, 0);
    let within = parts.iter().take_while(|part| {
        cores += part.cores.len();
        gpus += part.gpus.len();
        cores <= room.cores && gpus <= room.gpus
    });
    within.count() as u64 / each
}

/// The cores and GPUs of so many groups, if they are there.
pub(crate) fn pick(
    group: &SocketGroup,
    node: &NodeSet,
    there: &NodeSet,
    times: u64,
) -> Option<(Idset, Idset)> {
    let parts = serving(group, node, there);
    let count = usize::try_from(times.saturating_mul(u64::from(group.sockets))).ok()?;
    let (mut cores, mut gpus) = (Idset::new(), Idset::new());
    for part in parts.get(..count)? {
        let (its, gives) = match group.sharing {
            Sharing::Exclusive => (part.cores.clone(), part.gpus.clone()),
            Sharing::Shared => (
                part.cores.lowest(u64::from(group.cores)),
                part.gpus.lowest(u64::from(group.gpus)),
            ),
        };
        cores = cores.union(&its);
        gpus = gpus.union(&gives);
    }
    Some((cores, gpus))
}

/// What is there of the sockets that will do, in the order in which they are taken: the least free first, so
/// that others stay whole.
fn serving(group: &SocketGroup, node: &NodeSet, there: &NodeSet) -> Vec<Socket> {
    let sockets = node.sockets();
    let parts = sockets
        .iter()
        .map(|socket| (socket, there.of_socket(socket)));
    let serves = parts.filter(|(socket, part)| group.serves(socket, part));
    let mut parts: Vec<Socket> = serves.map(|(_, part)| part).collect();
    parts.sort_by_key(|part| (part.cores.len(), part.gpus.len()));
    parts
}

/// The rooms as they are to a need in sockets: of nodes on which a group lies, and no more of them than
/// for the groups there.
pub(crate) fn rooms_for(
    rooms: &Rooms,
    within: &Within,
    need: &Need,
    (nodes, groups): (usize, impl Fn(usize, &Room) -> u64),
) -> Rooms {
    let mut found = vec![None; nodes];
    let least = need.least();
    let mut from = 0;
    while let Some(at) = within.next(rooms, from, &least) {
        from = at + 1;
        let room = rooms.room(at);
        found[at] = room_for(need, room, groups(at, &room));
    }
    Rooms::new(found.into_iter())
}

/// What a node is to a need on which so many groups lie.
fn room_for(need: &Need, room: Room, groups: u64) -> Option<Room> {
    let cores = match need.spread {
        Spread::Nodes { .. } => room.cores,
        Spread::Slots(_) => room.cores.min(need.room(groups).cores),
    };
    (groups > 0).then_some(Room { cores, ..room })
}

/// What is missing where not as much is found as is asked for: `rooms` are those of [`rooms_for`],
/// `nodes` what each node has and what of it is there.
pub(crate) fn short<'n>(
    need: &Need,
    group: &SocketGroup,
    rooms: &Rooms,
    nodes: impl Iterator<Item = (&'n NodeSet, NodeSet)>,
) -> Short {
    let (mut cores, mut gpus, mut sockets) = (0, 0, 0);
    for (node, there) in nodes {
        let all = node.sockets();
        let parts = all.iter().map(|socket| (socket, there.of_socket(socket)));
        let mut will_do = 0;
        for (socket, part) in parts {
            cores = cores.max(part.cores.len());
            gpus = gpus.max(part.gpus.len());
            will_do += u64::from(group.serves(socket, &part));
        }
        sockets = sockets.max(will_do);
    }
    let each = [
        ("cores in one socket", u64::from(group.cores), cores),
        ("gpus in one socket", u64::from(group.gpus), gpus),
        ("sockets", u64::from(group.sockets), sockets),
    ];
    // Where there is none at all, that is what to say, not how many a node would need.
    let mut short = each
        .into_iter()
        .filter(|(_, asked, most)| asked > most && *most > 0);
    if let Some((what, asked, most)) = short.next() {
        return Short::OnOneNode { what, asked, most };
    }
    let asked = need.count();
    let all = Within::All;
    let (mut most, mut from) = (0, 0);
    while let Some(at) = all.next(rooms, from, &need.least()) {
        from = at + 1;
        most += match need.spread {
            Spread::Nodes { .. } => 1,
            Spread::Slots(_) => need.slots_on(&rooms.room(at), asked),
        };
    }
    let what = need.to_string();
    Short::InAll { what, asked, most }
}
