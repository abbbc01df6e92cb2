//! The clocks of a simulated machine: a wall clock that can be stepped, a boot clock that can stop,
//! and the broker time that a leader makes of them.
//!
//! Broker time is what brokerd's clock gives: the wall clock at the start, never below the last
//! record, then the boot clock, following a stepped wall clock at a bounded rate.

use eddy_wire::time::{Span, Time};

/// How fast broker time follows a step, in thousandths of the time that passes.
const SLEW_PER_MILLE: i64 = 50;

/// How often the wall clock is compared, at most.
const COMPARE_EVERY: Span = Span::seconds(1);

/// The machine's own clocks.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The wall clock minus the boot clock.
    wall: i64,
    /// How long the boot clock has stood still.
    stood: i64,
    /// Until when it stands still.
    stands_until: Time,
    /// Since when.
    stands_since: Time,
}

/// What both clocks say at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Wall clock.
    pub wall: Time,
    /// Boot clock.
    pub boot: Time,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            wall: 0,
            stood: 0,
            stands_until: Time(0),
            stands_since: Time(0),
        }
    }
}

impl Machine {
    /// Both clocks at this moment of the world.
    pub fn read(&self, now: Time) -> Reading {
        let standing = now.min(self.stands_until).0 - self.stands_since.min(self.stands_until).0;
        let boot = now.0 - self.stood - standing.max(0);
        Reading {
            wall: Time(boot + self.wall),
            boot: Time(boot),
        }
    }

    /// Somebody sets the wall clock.
    pub fn step(&mut self, by: Span) {
        self.wall += by.0;
    }

    /// The machine is suspended: both clocks stand still for a while.
    pub fn stop(&mut self, now: Time, span: Span) {
        if now < self.stands_until {
            return;
        }
        self.stood += self.stands_until.0 - self.stands_since.0;
        self.stands_since = now;
        self.stands_until = now.after(span);
    }
}

/// Broker time of one leader.
#[derive(Clone, Debug)]
pub struct Clock {
    offset: i64,
    last: Time,
    compared: Time,
}

impl Clock {
    /// The clock of a leader that starts now over a journal whose last record is of `floor`.
    pub fn start(reading: Reading, floor: Time) -> Clock {
        let last = reading.wall.max(floor);
        Clock {
            offset: last.0 - reading.boot.0,
            last,
            compared: reading.boot,
        }
    }

    /// Broker time.
    pub fn now(&mut self, reading: Reading) -> Time {
        let passed = reading.boot.0 - self.compared.0;
        if passed >= COMPARE_EVERY.0 {
            let most = passed * SLEW_PER_MILLE / 1000;
            let ahead = reading.wall.0 - (reading.boot.0 + self.offset);
            self.offset += ahead.clamp(-most, most);
            self.compared = reading.boot;
        }
        self.last = self.last.max(Time(reading.boot.0 + self.offset));
        self.last
    }
}

/// The least time in which broker time may go on by so much: it gains on a wall clock that was set
/// ahead. Of a wait that this shortens by less than a comparison it says nothing.
pub fn earliest(wait: Span) -> Span {
    let gaining = Span(wait.0 / (1000 + SLEW_PER_MILLE) * 1000);
    match wait.0 - gaining.0 < COMPARE_EVERY.0 {
        true => wait,
        false => gaining,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_time_stands_with_the_machine_and_never_goes_back() {
        let mut machine = Machine::default();
        let mut clock = Clock::start(machine.read(Time(10_000_000)), Time(0));
        assert_eq!(clock.now(machine.read(Time(10_000_000))), Time(10_000_000));
        machine.stop(Time(11_000_000), Span::seconds(5));
        assert_eq!(clock.now(machine.read(Time(14_000_000))), Time(11_000_000));
        assert_eq!(clock.now(machine.read(Time(17_000_000))), Time(12_000_000));
        machine.step(Span::seconds(-3600));
        let before = clock.now(machine.read(Time(17_500_000)));
        assert!(clock.now(machine.read(Time(18_000_000))) >= before);
    }

    #[test]
    fn a_leader_never_starts_before_the_last_record() {
        let machine = Machine::default();
        let mut clock = Clock::start(machine.read(Time(5)), Time(100));
        assert_eq!(clock.now(machine.read(Time(6))), Time(101));
    }
}
