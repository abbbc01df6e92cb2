//! How a cost grows with what it is of: the exponent of the power that fits best.

/// The exponent of the power of `n` that fits these `(n, cost)` best: 1 is linear. Least squares over
/// the logarithms.
#[must_use]
pub fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .map(|(n, cost)| (n.ln(), cost.max(f64::MIN_POSITIVE).ln()))
        .collect();
    let count = logs.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|log| log.0), mean(|log| log.1));
    let covered: f64 = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum();
    let spread: f64 = logs.iter().map(|log| (log.0 - x).powi(2)).sum();
    covered / spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_found() {
        let points = [10.0, 100.0, 1000.0].map(|n: f64| (n, 3.0 * n.powf(1.5)));
        assert!((exponent(&points) - 1.5).abs() < 1e-12);
    }
}
