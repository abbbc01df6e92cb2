//! Whole numbers as text, without the machinery that pads and aligns: what is written most is numbers.

/// The largest has so many digits.
const DIGITS_MAX: usize = 20;

/// A number's digits.
pub(crate) struct Decimal {
    digits: [u8; DIGITS_MAX],
    first: usize,
}

impl Decimal {
    pub(crate) fn of(mut number: u64) -> Decimal {
        let mut digits = [0; DIGITS_MAX];
        let mut first = DIGITS_MAX - 1;
        while number >= 10 {
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            first -= 1;
        }
        digits[first] = b'0' + number as u8;
        Decimal { digits, first }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.first..]
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let mut numbers: Vec<u64> = (0..=19).map(|zeros| 10u64.pow(zeros)).collect();
        numbers.extend([0, 7, 9, 11, 99, 1_764_178_000, u64::MAX]);
        for number in numbers {
            for number in [number, number.saturating_sub(1)] {
                assert_eq!(Decimal::of(number).as_str(), number.to_string());
            }
        }
    }
}
