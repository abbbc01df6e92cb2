//! Rounds over accounts: parts (d) and (e) where accounts take turns.
//!
//! Evict, walk the accounts by cost or by slices, place gangs, take from others by
//! the ladder, undo what helped nobody.
