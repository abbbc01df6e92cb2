//! Broker time: the wall clock at the start and the boot clock since.
//!
//! The leader's loop and the shell's each own one and ask it once per input.
//! It never goes backwards and never falls below the last record. When
//! somebody steps the wall clock, broker time follows at [`SLEW_PER_MILLE`], so
//! that a time limit of an hour stays one within three minutes.

use eddy_wire::time::{MICROS, Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// How fast broker time follows a step of the wall clock: so many thousandths
/// faster or slower than the boot clock.
pub const SLEW_PER_MILLE: i64 = 50;

/// A difference from the wall clock that is not worth a line in the log.
const STEP_NOTICED: Span = Span::seconds(1);

/// How often the wall clock is compared, at most.
const COMPARE_EVERY: Span = Span::seconds(1);

/// A clock that goes one way.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Broker time minus boot time, in microseconds.
    offset: i64,
    /// The last time given out.
    last: Time,
    /// Boot time of the last comparison with the wall clock.
    compared: i64,
    /// Whether a step is being followed, so that it is logged once.
    following: Following,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Following {
    Level,
    Step,
}

/// What both clocks of the machine say at one moment, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: i64,
    boot: i64,
}

impl Reading {
    fn take() -> Reading {
        Reading {
            wall: micros(ClockId::Realtime),
            boot: boot(),
        }
    }
}

fn boot() -> i64 {
    micros(ClockId::Boottime)
}

fn micros(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * MICROS + now.tv_nsec / 1000
}

impl Clock {
    /// A clock that starts at the wall clock, at least at `floor`: the time of
    /// the last record.
    pub fn start(floor: Time) -> Clock {
        Clock::start_at(Reading::take(), floor)
    }

    fn start_at(reading: Reading, floor: Time) -> Clock {
        let last = Time(reading.wall).max(floor);
        Clock {
            offset: last.0 - reading.boot,
            last,
            compared: reading.boot,
            following: Following::Level,
        }
    }

    /// The present instant; never before one given out earlier.
    pub fn now(&mut self) -> Time {
        let boot = boot();
        if boot - self.compared >= COMPARE_EVERY.0 {
            return self.compare(Reading::take());
        }
        self.at(boot)
    }

    fn at(&mut self, boot: i64) -> Time {
        self.last = self.last.max(Time(boot + self.offset));
        self.last
    }

    /// Moves toward the wall clock by no more than the slew allows since the
    /// last comparison.
    fn compare(&mut self, reading: Reading) -> Time {
        let most = (reading.boot - self.compared) * SLEW_PER_MILLE / 1000;
        let ahead = reading.wall - (reading.boot + self.offset);
        self.following = match (self.following, ahead.abs() >= STEP_NOTICED.0) {
            (Following::Level, true) => {
                tracing::warn!(
                    by = %Span(ahead),
                    "the wall clock is off broker time, which follows at {SLEW_PER_MILLE} per mille"
                );
                Following::Step
            }
            (Following::Step, false) => Following::Level,
            (same, _) => same,
        };
        self.offset += ahead.clamp(-most, most);
        self.compared = reading.boot;
        self.at(reading.boot)
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

    const S: i64 = MICROS;

    fn clock(wall: i64, floor: i64) -> Clock {
        Clock::start_at(Reading { wall, boot: 0 }, Time(floor))
    }

    #[test]
    fn it_starts_no_earlier_than_the_last_record() {
        assert_eq!(clock(100 * S, 40 * S).at(S), Time(101 * S));
        assert_eq!(clock(100 * S, 140 * S).at(S), Time(141 * S));
    }

    #[test]
    fn a_step_forward_is_followed_slowly() {
        let mut clock = clock(100 * S, 0);
        let stepped = clock.compare(Reading {
            wall: 5000 * S,
            boot: 10 * S,
        });
        assert_eq!(stepped, Time(110 * S + S / 2), "10 s at 50 per mille");
    }

    #[test]
    fn whoever_waits_for_a_time_looks_again_before_it_can_be() {
        let mut clock = clock(100 * S, 0);
        let stepped = Reading {
            wall: 5000 * S,
            boot: 0,
        };
        clock.compare(stepped);
        let (until, mut boot, mut looks) = (Time(3700 * S), 0, 0);
        while clock.at(boot) < until {
            let wait = until - clock.at(boot);
            boot += earliest(wait).0;
            looks += 1;
            clock.compare(Reading {
                wall: 5000 * S + boot,
                boot,
            });
            assert!(clock.at(boot) < until.after(Span::seconds(1)));
        }
        assert!(looks <= 5, "{looks} looks");
    }

    #[test]
    fn a_step_back_never_takes_time_back() {
        let mut clock = clock(100 * S, 0);
        let before = clock.at(10 * S);
        let after = clock.compare(Reading {
            wall: 0,
            boot: 10 * S,
        });
        assert!(after >= before);
        assert!(clock.at(11 * S) > after, "and it goes on");
    }

    #[test]
    fn a_small_difference_is_made_up_at_once() {
        let mut clock = clock(100 * S, 0);
        assert_eq!(
            clock.compare(Reading {
                wall: 110 * S + 7,
                boot: 10 * S
            }),
            Time(110 * S + 7)
        );
    }
}
