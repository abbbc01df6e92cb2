//! The simulator of traces: a workload and a policy in, starts and figures out.
//!
//! Drives the same walk as a running instance over simulated time. It reads no
//! file: bytes in, tables and text out.
