//! What runs cost and how that is forgotten: part (a) of a policy.
//!
//! Folds of (ledger, time, runs): calling them twice as often changes nothing.
//! It does not know who is due what.
