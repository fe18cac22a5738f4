//! Numbers as tables print them.

/// A count with a comma between thousands: `262,144`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A quantity in at most six characters: exact to the unit below 100,000, four digits with a
/// decimal prefix above (`18.61M`).
pub fn short(quantity: f64) -> String {
    const PREFIXES: [(&str, f64); 4] = [("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    if quantity < 99_999.5 {
        return format!("{quantity:.0}");
    }
    let (prefix, unit) = PREFIXES
        .into_iter()
        .find(|it| quantity / it.1 < 999.95)
        .unwrap_or(PREFIXES[PREFIXES.len() - 1]);
    let scaled = quantity / unit;
    let decimals = match scaled {
        ..9.9995 => 3,
        ..99.995 => 2,
        _ => 1,
    };
    format!("{scaled:.decimals$}{prefix}")
}

/// A ratio with three digits: `0.452x`, `8.02x`, `19.1x`, `153x`.
pub fn times(ratio: f64) -> String {
    let decimals = match ratio {
        ..0.9995 => 3,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        let printed = [0, 999, 1_000, 262_144, 1_000_000].map(grouped);
        assert_eq!(printed, ["0", "999", "1,000", "262,144", "1,000,000"]);
    }

    #[test]
    fn quantities_keep_four_digits_and_stay_short() {
        let printed = [
            0.0,
            99_999.0,
            99_999.6,
            999_949.0,
            999_960.0,
            18_612_345.0,
            9.99996e9,
        ];
        assert_eq!(
            printed.map(short),
            [
                "0", "99999", "100.0k", "999.9k", "1.000M", "18.61M", "10.00G"
            ]
        );
    }

    #[test]
    fn ratios_keep_three_digits() {
        let printed = [0.0524, 0.9996, 1.0, 9.996, 19.06, 153.2].map(times);
        assert_eq!(
            printed,
            ["0.052x", "1.00x", "1.00x", "10.0x", "19.1x", "153x"]
        );
    }
}
