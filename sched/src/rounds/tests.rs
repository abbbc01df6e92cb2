//! Rounds on small states.
