//! Why a change of accounts, or the account of a job, is refused.

use thiserror::Error;

use super::{DEPTH_MAX, DESCRIPTION_BYTES_MAX, NOBODY, Name, QOS_MAX, SHARES_MAX};

/// Why a change, or the account of a job, cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccountError {
    /// No such account.
    #[error("{field}: there is no account `{}`; there are {there}", name.escape_debug())]
    NoAccount {
        /// What named it.
        field: &'static str,
        /// As given.
        name: String,
        /// Those there are, the first of many.
        there: String,
    },
    /// Not in that account.
    #[error("{field}: user {user} is not in account `{account}`{there}")]
    NoMember {
        /// What named it.
        field: &'static str,
        /// User id.
        user: u32,
        /// The account.
        account: Name,
        /// Those that user is in, in words.
        there: String,
    },
    /// What the system has for nobody.
    #[error("user: {given} given, which stands for no user; allowed are 0 to {}", NOBODY - 1)]
    Nobody {
        /// As given.
        given: u32,
    },
    /// A user who is in no account.
    #[error("{field}: user {user} is in no account")]
    Nowhere {
        /// What would name one.
        field: &'static str,
        /// User id.
        user: u32,
    },
    /// A user of several accounts, none of which is the default.
    #[error("{field}: none is given, and user {user} has no default; there are {there}")]
    Several {
        /// What would name one.
        field: &'static str,
        /// User id.
        user: u32,
        /// Those the user is in, the first of them.
        there: String,
    },
    /// An account under itself.
    #[error(
        "parent: `{parent}` given for account `{name}`, which would be under itself ({ring}); \
         allowed are root and accounts that are not under it"
    )]
    Cycle {
        /// The account.
        name: Name,
        /// What it would be under.
        parent: Name,
        /// The way from it upwards to itself, in words.
        ring: String,
    },
    /// Too deep.
    #[error("parent: `{name}` would be {given} deep; the limit `account depth` is {DEPTH_MAX}")]
    Deep {
        /// The deepest account that would be.
        name: Name,
        /// How deep.
        given: usize,
    },
    /// What cannot be carried over.
    #[error(
        "carry: {given} given; allowed are 0 to 100, percent of `core_minutes` where those are limited"
    )]
    Carry {
        /// As given.
        given: u32,
    },
    /// Others are under it.
    #[error(
        "account `{name}` has {accounts} accounts and {members} users under it; remove those first"
    )]
    NotEmpty {
        /// The account.
        name: Name,
        /// Accounts under it.
        accounts: usize,
        /// Users in it.
        members: usize,
    },
    /// Too many.
    #[error("the limit `{limit}` is {most}")]
    TooMany {
        /// `accounts` or `members`.
        limit: &'static str,
        /// It.
        most: usize,
    },
    /// Too many shares.
    #[error("shares: {given} is given; allowed are 0 to {SHARES_MAX} and `parent`")]
    Shares {
        /// As given.
        given: u32,
    },
    /// Too long a description, or several lines.
    #[error("description: one line of at most {DESCRIPTION_BYTES_MAX} bytes is allowed")]
    Description,
    /// Too many QoS.
    #[error("qos.allowed: {given} names are given; allowed are {QOS_MAX}")]
    ManyQos {
        /// How many.
        given: usize,
    },
    /// A default that may not be asked for.
    #[error("qos.default: `{given}` is not among those allowed; there are {there}")]
    DefaultQos {
        /// As given.
        given: Name,
        /// Those allowed.
        there: String,
    },
    /// A default from above that may not be asked for.
    #[error(
        "qos.allowed: {there} given, without `{given}`, which is the default of account `{of}` and so of jobs here; \
         allowed is a list with it, or another default beside it"
    )]
    InheritedQos {
        /// The default.
        given: Name,
        /// Whose it is.
        of: Name,
        /// What would be allowed.
        there: String,
    },
    /// A QoS that this account may not ask for.
    #[error("{field}: `{given}` is given; {whose} may have {there}")]
    Qos {
        /// What named it.
        field: &'static str,
        /// As given.
        given: Name,
        /// Whose list it is, in words: the user's in that account, or that of an account above him.
        whose: String,
        /// Those allowed.
        there: String,
    },
}
