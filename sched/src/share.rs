//! What each account is due: part (b) of a policy.
//!
//! Shares and usage of a tree of accounts become a factor, a rank or a cost. Used
//! by formulas (a factor), by rounds (a cost that moves as jobs are placed) and by
//! listings. Charges nothing and knows no jobs.
