//! Small traces of our own, with schedules worked out by hand.
