//! The manager, but each thing that jobs are owed is a record of its own.

use eddy_modules::manager::Manager;
use eddy_wire::event::Event;

use super::around::Twist;

/// In place of a manager.
pub struct Wordy;

impl Twist<Manager> for Wordy {
    const NAME: &'static str = "manager that leaves nothing unsaid";

    fn completes(&self, _: &Manager, _: &mut Event) {}
}
