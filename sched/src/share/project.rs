//! The ratio of what a project has left unused of the whole (IT4Innovations on PBS).
//!
//! Asked by the book.

/// `most * (1 - usage / total)`; while nobody has used anything every project has the most. The
/// ratio is held within 0 and 1.
pub fn left_over(most: f64, usage: f64, total: f64) -> f64 {
    match total > 0.0 {
        true => most * (1.0 - (usage / total).clamp(0.0, 1.0)),
        false => most,
    }
}
