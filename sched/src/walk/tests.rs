//! Walks over a count of processors.
