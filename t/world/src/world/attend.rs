//! Agents on the nodes of leaders: they host there ranks of instances that are led elsewhere.
//!
//! A leader keeps one of its own from the first order for its node on. It is no rank of the instance: it has
//! a place of its own in the tree of ranks. Here it is a part of the machine's agent, which hosts it anew
//! when it starts again.

use eddy_wire::id::{JobId, Rank};
use eddy_wire::tree::ATTENDANT;

use super::World;
use crate::agent::Running;
use crate::nature::InstanceId;

impl World {
    /// The leader of an instance wants something hosted on its own machine.
    pub(super) fn agent_attends(&mut self, machine: usize, id: InstanceId) {
        self.agents[machine].attends.insert(id);
        match self.agents[machine].course {
            Running::Yes => self.attend(machine, id),
            // That of the root's machine is there for nothing else.
            Running::No if machine == 0 => self.agent_starts(machine),
            Running::No => {}
        }
    }

    /// The agent of a machine began: what leaders there wanted of it they want again.
    pub(super) fn attends_again(&mut self, machine: usize) {
        let attends = self.agents[machine].attends.clone();
        attends.into_iter().for_each(|id| self.attend(machine, id));
    }

    fn attend(&mut self, machine: usize, id: InstanceId) {
        let instance = &self.instances[id.place()];
        let nested = instance.nested.as_ref();
        let child = nested.map(|nested| nested.child);
        let within = nested.map(|nested| nested.within.clone());
        let door = instance.door_name(Rank(0));
        self.host(
            machine,
            id,
            (ATTENDANT, door, child),
            within.unwrap_or_default(),
        );
    }

    /// The process that led an instance is gone, and the agent that it kept with it.
    pub(super) fn unattend(&mut self, id: InstanceId) {
        let machine = self.instances[id.place()].machine();
        if let Some(agent) = self.agents.get_mut(machine)
            && agent.attends.remove(&id)
        {
            self.unhost(machine, id);
        }
    }

    /// The rank of an instance on its leader's own node where a job holds something.
    pub(super) fn rank_attended(&self, id: InstanceId, job: JobId) -> Option<Rank> {
        let local = &self.instances[id.place()].settings.local;
        let held = self.nature.judge(id).recorded().held.get(&job)?;
        let ranks = held.set.ranks().intersect(local);
        ranks.iter().next().map(Rank)
    }
}
